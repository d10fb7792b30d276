"""Job model of `spanmarker gate fit`."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class GateJob(BaseModel):
    """The job of `spanmarker gate fit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, description="bundle to fit a gate to; it is not modified")
    corpus: list[str] = Field(min_length=1, description="glob patterns of files with unlabelled documents, as for tag")
    output: str = Field(min_length=1, description="folder for the bundle with the gate; must be empty or not exist")
    sentences: int = Field(3000, ge=1, description="number of sentences to read from the corpus")
    target_recall: float = Field(
        0.995, gt=0, le=1, description="share of the ungated model's entities that must pass the gate"
    )
    annotated: str | None = Field(None, description="annotated sentences, for gold recall and F1 on the curve")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    id_column: str = Field("id", description="column or JSON key of the ids")
    text_column: str = Field("text", description="column or JSON key of the texts")
    language: str = Field("en", description="language of the texts, for the sentence splitter")
    device: str = Field("cpu", description="cpu, cuda or auto")

    @field_validator("corpus", mode="before")
    @classmethod
    def _one_pattern(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "GateJob":
        problems = []
        if self.id_column == self.text_column:
            problems.append(f"id_column and text_column are both {self.id_column!r}")
        if self.scheme is not None and self.annotated is None:
            problems.append("scheme says how annotated sentences are tagged: give annotated too, or leave it out")
        if problems:
            raise ValueError("; ".join(problems))
        return self
