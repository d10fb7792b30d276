"""Fields that several job models share."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.task import Columns

Scheme = Annotated[str | None, Field(description="Label scheme of tagged data, such as IOB2.")]


class AnnotatedColumns(BaseModel):
    """Where CoNLL files have their words and tags, and the scheme of tags."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    scheme: Scheme = None
    # From left to right, so that a number on the command line becomes one.
    token_column: int | str | None = Field(
        None,
        union_mode="left_to_right",
        description="Column of the words in CoNLL files, by number from 0 or by name.  [default: the first but for an "
        "index]",
    )
    tag_column: int | str | None = Field(
        None,
        union_mode="left_to_right",
        description="Column of the tags in CoNLL files, by number (-1 is the last) or by name.  [default: -1]",
    )


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
