"""Fields that several job models share."""

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines.stages.formats import FORMATS, is_format
from pipelines.stages.languages import AUTO
from pipelines.task import DEFAULT_ID, Columns
from spanmarker_core.errors import CoreError
from spanmarker_core.text.detection import load_detector
from spanmarker_core.text.languages import normalise_language


def _known_format(value: str | None) -> str | None:
    if value is not None and not is_format(value):
        raise ValueError(f"{value!r} is not one of {', '.join(FORMATS)}, with or without a compression, as in jsonl.gz")
    return value


InputFormat = Annotated[
    str | None,
    Field(description=f"Format of all inputs, whatever their names: {', '.join(FORMATS)}.  [default: by name]"),
    AfterValidator(_known_format),
]
Encoder = Annotated[
    str,
    Field(
        min_length=1,
        description="Pretrained encoder: a folder, or a repository of the Hub, owner/name or owner/name@revision.",
    ),
]
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

    #: Whether the job can detect the language of each document.
    detects: ClassVar[bool] = False

    id_column: str | None = Field(
        None,
        min_length=1,
        description="Column or JSON key of the ids.  [default: id; a document without it gets an id made of its file "
        "and row]",
    )
    text_column: str = Field("text", description="Column or JSON key of the texts.")
    language: str = Field(
        "en", description="Language of the texts, for the sentence splitter: a code such as de, or its English name."
    )

    @property
    def columns(self) -> Columns:
        """Columns of the inputs."""
        return Columns(self.id_column or DEFAULT_ID, self.text_column, make_ids=self.id_column is None)

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        same = (self.id_column or DEFAULT_ID) == self.text_column
        return [f"id_column and text_column are both {self.text_column!r}"] if same else []

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str) -> str:
        if cls.detects and value.strip().lower() == AUTO:
            load_detector()
            return AUTO
        try:
            return normalise_language(value)
        except CoreError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _without_conflicts(self) -> Self:
        if conflicts := self.conflicts():
            raise ValueError("; ".join(conflicts))
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
