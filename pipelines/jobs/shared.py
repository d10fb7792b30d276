"""Fields that several job models share."""

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines.jobs.problems import not_one_of
from pipelines.stages.formats import FORMATS, is_format
from pipelines.stages.languages import AUTO
from pipelines.task import DEFAULT_ID, Columns
from spanmarker_core.errors import CoreError
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.text.detection import load_detector
from spanmarker_core.text.languages import normalise_language


def _known_format(value: str | None) -> str | None:
    if value is not None and not is_format(value):
        raise ValueError(f"{not_one_of(value, FORMATS)} (with or without a compression, as in jsonl.gz)")
    return value


InputFormat = Annotated[
    str | None,
    Shown(Panel.FILES, "FORMAT"),
    Field(description=f"Format of all inputs, whatever their names: {', '.join(FORMATS)}.  [default: by name]"),
    AfterValidator(_known_format),
]
Encoder = Annotated[
    str,
    Shown(Panel.MODEL, "ENCODER"),
    Field(
        min_length=1,
        description="Folder of a pretrained encoder, or a repository on the Hub, owner/name or owner/name@revision.",
    ),
]
Scheme = Annotated[
    str | None, Shown(Panel.FILES, "SCHEME"), Field(description="Label scheme of tagged data, such as IOB2.")
]
CardText = Annotated[str | None, Shown(Panel.CARD, "TEXT")]
#: Kinds of devices of torch on which models are run.
_DEVICES = ("auto", "cpu", "cuda", "hpu", "mps", "npu", "xla", "xpu")


def _known_device(value: str) -> str:
    kind, _, number = value.partition(":")
    if kind not in _DEVICES or (":" in value and not number.isdecimal()) or (kind == "auto" and number):
        likely = "; did you mean cuda?" if kind.lower() in ("gpu", "nvidia") else ""
        raise ValueError(f"{value!r} is not one of cpu, cuda, cuda:1 (the second GPU), auto{likely}")
    return value


Device = Annotated[
    str, Shown(Panel.SPEED, "DEVICE"), Field(description="cpu, cuda, cuda:1 or auto."), AfterValidator(_known_device)
]


class AnnotatedColumns(BaseModel):
    """Where CoNLL files have their words and tags, and the scheme of tags."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    scheme: Scheme = None
    # From left to right, so that a number on the command line becomes one.
    token_column: Annotated[int | str | None, Shown(Panel.FILES, "COLUMN")] = Field(
        None,
        union_mode="left_to_right",
        description="Column of the words in CoNLL files, by number from 0 or by name.  [default: the first, "
        "or the second after an index]",
    )
    tag_column: Annotated[int | str | None, Shown(Panel.FILES, "COLUMN")] = Field(
        None,
        union_mode="left_to_right",
        description="Column of the tags in CoNLL files, by number (-1 is the last) or by name.  [default: -1]",
    )


class DocumentColumns(BaseModel):
    """Where documents have their ids and texts, and the language of the texts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    #: Whether the job can detect the language of each document.
    detects: ClassVar[bool] = False

    id_column: Annotated[str | None, Shown(Panel.FILES, "NAME")] = Field(
        None,
        min_length=1,
        description="Column or JSON key of the ids.  [default: id; a document without it gets an id made of its file "
        "and row]",
    )
    text_column: Annotated[str, Shown(Panel.FILES, "NAME")] = Field(
        "text", description="Column or JSON key of the texts."
    )
    language: Annotated[str, Shown(Panel.FILES, "CODE")] = Field(
        "en", description="Language of the texts, for the sentence splitter: a code such as de, or its English name."
    )

    @property
    def columns(self) -> Columns:
        """Columns of the inputs."""
        return Columns(self.id_column or DEFAULT_ID, self.text_column, make_ids=self.id_column is None)

    def conflicts(self) -> list[str]:
        """Return a description of each combination of settings that is not possible."""
        same = (self.id_column or DEFAULT_ID) == self.text_column
        return [f"--id-column and --text-column are both {self.text_column!r}"] if same else []

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str) -> str:
        if cls.detects and value.strip().lower() == AUTO:
            load_detector()
            return AUTO
        try:
            return normalise_language(value)
        except CoreError as error:
            raise ValueError(error.text) from error

    @model_validator(mode="after")
    def _without_conflicts(self) -> Self:
        if conflicts := self.conflicts():
            raise ValueError("\n".join(conflicts))
        return self


class CardTexts(BaseModel):
    """Texts for the model card, which a training job or `spanmarker card` states."""

    name: CardText = Field(None, description="Name of the model.")
    description: CardText = Field(None, description="Description of the model.")
    licence: CardText = Field(None, description="Licence of the model, in plain text.")
    licence_id: CardText = Field(None, description="Licence identifier used by model hubs, such as cc-by-4.0.")
    language: CardText = Field(None, description="Language codes, such as en or en,de.")
    training_data: CardText = Field(None, description="Name and source of the training data.")
    data_licence: CardText = Field(None, description="Licence of the training data, in plain text.")
    dataset_id: CardText = Field(None, description="Repository of the data on a hub: owner/name.")
    encoder_name: CardText = Field(None, description="Name of the encoder.")
    encoder_id: CardText = Field(None, description="Repository of the encoder on a hub: owner/name.")
    not_for: CardText = Field(None, description="Uses that the model is not intended for.")
