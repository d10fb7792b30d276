"""Job model of `spanmarker gate fit`."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from pipelines.jobs.shared import Device, DocumentColumns, InputFormat, Scheme
from spanmarker_core.shown import Panel, Shown


class GateJob(DocumentColumns):
    """The job of `spanmarker gate fit`."""

    model: Annotated[str, Shown(Panel.MODEL, "MODEL")] = Field(
        min_length=1,
        description="Folder of the bundle to fit a gate to, which is not modified, or a repository on the Hub, "
        "owner/name or owner/name@revision.",
    )
    corpus: Annotated[list[str], Shown(Panel.FILES, "PATH")] = Field(
        min_length=1,
        description="Unlabelled documents similar to those to be tagged: files, folders and patterns, as for `tag`. "
        "Can be repeated.",
    )
    format: InputFormat = None
    output: Annotated[str, Shown(Panel.FILES, "FOLDER")] = Field(
        min_length=1, description="Folder for the bundle with the gate; must be empty or not exist."
    )
    sentences: Annotated[int, Shown(Panel.FILES, "N")] = Field(
        3000, ge=1, description="Number of sentences to read from the corpus."
    )
    target_recall: Annotated[float, Shown(Panel.MODEL, "SHARE")] = Field(
        0.995,
        gt=0,
        le=1,
        description="Share of the ungated model's entities that must pass the gate, on held-out text.",
    )
    annotated: Annotated[str | None, Shown(Panel.FILES, "DATA")] = Field(
        None, description="Annotated sentences; the curve then also shows gold recall and F1."
    )
    scheme: Scheme = None
    device: Device = "cpu"

    @field_validator("corpus", mode="before")
    @classmethod
    def _one_pattern(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        problems = super().conflicts()
        if self.scheme is not None and self.annotated is None:
            problems.append("--scheme is that of --annotated: pass --annotated, too, or remove it")
        return problems
