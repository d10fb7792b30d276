"""Fields that several job models share."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pipelines.stages.formats import FORMATS, is_format
from pipelines.task import Columns


def _known_format(value: str | None) -> str | None:
    if value is not None and not is_format(value):
        raise ValueError(f"it is none of {', '.join(FORMATS)}; a compression may follow, as in jsonl.gz")
    return value


InputFormat = Annotated[
    str | None,
    Field(description=f"Format of all inputs, whatever their names: {', '.join(FORMATS)}.  [default: by name]"),
    AfterValidator(_known_format),
]
Scheme = Annotated[str | None, Field(description="Label scheme of tagged data, such as IOB2.")]


class DocumentColumns(BaseModel):
    """Where documents have their ids and texts, and the language of the texts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    id_column: str = Field("id", description="Column or JSON key of the ids.")
    text_column: str = Field("text", description="Column or JSON key of the texts.")
    language: str = Field("en", description="Language of the texts, for the sentence splitter.")

    @property
    def columns(self) -> Columns:
        """Columns of the inputs."""
        return Columns(self.id_column, self.text_column)

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if self.id_column == self.text_column:
            raise ValueError(f"id_column and text_column are both {self.id_column!r}")
        return self


class CardTexts(BaseModel):
    """Texts for the model card, which a training job or `spanmarker card` states."""

    name: str | None = Field(None, description="Name of the model.")
    description: str | None = Field(None, description="Description of the model.")
    licence: str | None = Field(None, description="Licence of the model, in plain text.")
    licence_id: str | None = Field(None, description="Licence identifier used by model hubs, such as cc-by-4.0.")
    language: str | None = Field(None, description="Language codes, such as en or en,de.")
    training_data: str | None = Field(None, description="Name and source of the training data.")
    data_licence: str | None = Field(None, description="Licence of the training data, in plain text.")
    dataset_id: str | None = Field(None, description="Repository of the data on a hub: owner/name.")
    encoder_name: str | None = Field(None, description="Name of the encoder.")
    encoder_id: str | None = Field(None, description="Repository of the encoder on a hub: owner/name.")
    not_for: str | None = Field(None, description="Uses that the model is not intended for.")
