"""Job model of `spanmarker train`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines.jobs.base import named_values
from spanmarker_core.architectures.registry import architecture_called, bundles_tags
from spanmarker_core.card.facts import TEXTS
from spanmarker_core.errors import CoreError
from spanmarker_core.training import TrainingSettings
from spanmarker_core.training.settings_checks import contradictions
from spanmarker_core.windows.packer import Context


class TrainJob(BaseModel):
    """The job of `spanmarker train`. The training defaults are those of the thesis (Appendix C, FewNERD, BERT-base)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: str = Field(
        description="annotated sentences: .jsonl, CoNLL, or a folder saved by `datasets`; or the output of `spanmarker "
        "prepare --annotated`, also in an object store"
    )
    dev: str = Field(description="annotated sentences that choose the best epoch")
    test: str | None = Field(None, description="annotated sentences that are scored once at the end, for the card")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    token_column: int | str | None = Field(
        None, description="CoNLL: column of the words, by number from 0 or name; default: the first but for an index"
    )
    tag_column: int | str | None = Field(
        None, description="CoNLL: column of the tags, by number (-1 is the last) or name; default: the last"
    )
    encoder: str = Field(description="folder of a pretrained transformers encoder")
    output: str = Field(description="folder for the bundle; must be empty or not exist")

    train_sentences: int | None = Field(None, ge=1, description="use only the first N training sentences")
    architecture: str = Field(
        "span_marker.v1", description="name of an architecture in docs/architectures.md; the version is optional"
    )
    options: dict[str, Any] = Field({}, description="options of the architecture, such as width_size")
    encoder_layers: int | None = Field(None, ge=1, description="keep only the first N layers of the encoder")
    pair_layers: int | None = Field(
        None, ge=0, description="pair markers in the top N layers only; default: in all layers"
    )
    gate: bool = Field(False, description="also train a gate, which predicts the words where entities start and end")
    gate_ends: bool = Field(
        True, description="with a gate: also learn ends; without them the gate is that of SmartSpanner"
    )
    gate_weight: float = Field(0.2, gt=0, lt=1, description="weight of the gate in the loss")
    gate_share: float = Field(0.05, ge=0, le=1, description="with a gate: share of spans at other words to train on")
    negatives: int | None = Field(
        None, ge=1, description="train on at most N non-entity spans per window; default: all"
    )
    boundary_smoothing: float = Field(
        0.0, ge=0, lt=1, description="share of a label's probability given to spans one word off"
    )
    tag_weight: float = Field(0.1, gt=0, lt=1, description="with a bundled tagging head: its weight in the loss")
    tune_threshold: bool = Field(False, description="store the score threshold that is best on dev")
    entity_max_length: int = Field(8, ge=1, description="maximum length of an entity, in words")
    max_tokens: int = Field(256, ge=16, description="maximum length of a window, in tokens")
    context: Literal["sentence", "document", "block"] = Field(
        "sentence",
        description="text of a window: one sentence, a sentence with its neighbours, or a block of sentences",
    )
    max_prev_context: int | None = Field(
        None, ge=0, description="maximum number of previous sentences; default: no limit"
    )
    max_next_context: int | None = Field(None, ge=0, description="maximum number of next sentences; default: no limit")
    splitter: Literal["words.v1", "tokenizer.v1"] = Field("words.v1", description="how raw text is split into words")
    decoder: Literal["flat.v1", "nested.v1", "all.v1"] = Field(
        "flat.v1", description="whether entities may nest or cross"
    )
    learning_rate: float = Field(5e-5, gt=0, allow_inf_nan=False)
    head_learning_rate: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="learning rate of weights that are not pretrained; default: learning_rate",
    )
    weight_decay: float = Field(0.01, ge=0)
    warmup_share: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    batch_size: int = Field(32, ge=1, description="windows per step, over all processes")
    batch_tokens: int | None = Field(None, ge=1, description="tokens per step, instead of batch_size")
    accumulation: int = Field(
        1, ge=1, description="parts per step and process, processed one after another to save memory"
    )
    precision: Literal["float32", "bf16", "fp16"] = Field("float32", description="number format of the computation")
    gradient_checkpointing: bool = Field(
        False, description="recompute marker states in the backward pass, to save memory"
    )
    save_steps: int | None = Field(
        None, ge=1, description="steps between checkpoints, in addition to the end of each epoch"
    )
    report_to: list[str] = Field([], description="logging integrations of transformers, such as tensorboard")
    max_misaligned: float = Field(
        0.01,
        ge=0,
        le=1,
        description="maximum share of misaligned annotations, and of rejected documents or sentences, in prepared "
        "data; training refuses more",
    )
    epochs: int = Field(3, ge=1)
    seed: int = Field(42, ge=0)
    weight_dtype: Literal["float32", "float16"] = Field("float32", description="number format of the stored weights")
    device: str = Field("auto", description="cpu, cuda or auto")

    name: str | None = Field(None, description="for the card: name of the model")
    description: str | None = Field(None, description="for the card: description of the model")
    licence: str | None = Field(None, description="for the card: licence, in plain text")
    licence_id: str | None = Field(None, description="for the card: licence identifier used by model hubs")
    language: str | None = Field(None, description="for the card: language codes, such as en or en,de")
    training_data: str | None = Field(None, description="for the card: name and source of the data")
    data_licence: str | None = Field(None, description="for the card: licence of the data, in plain text")
    dataset_id: str | None = Field(None, description="for the card: repository of the data on a hub")
    encoder_name: str | None = Field(None, description="for the card: name of the encoder")
    encoder_id: str | None = Field(None, description="for the card: repository of the encoder on a hub")
    not_for: str | None = Field(None, description="for the card: uses that the model is not intended for")

    @field_validator("architecture")
    @classmethod
    def _in_full(cls, name: str) -> str:
        try:
            return architecture_called(name)
        except CoreError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _consistent(self) -> "TrainJob":
        given = self.model_fields_set
        problems = contradictions(self.architecture, self.options, self)
        if not self.gate and (idle := sorted({"gate_ends", "gate_weight", "gate_share"} & given)):
            problems.append(f"{', '.join(idle)} given, and no gate is trained: give gate too, or leave them out")
        if {"batch_size", "batch_tokens"} <= given:
            problems.append("batch_size and batch_tokens given, and a step has one size: leave one of them out")
        if "tag_weight" in given and bundles_tags(self.architecture, self.options) is False:
            problems.append("tag_weight given, and no head of tags is bundled with spans: leave it out")
        if problems:
            raise ValueError("\n    ".join(problems))
        return self

    @field_validator("options", mode="before")
    @classmethod
    def _named_values(cls, given: object) -> object:
        """Accept the command line's list of NAME=VALUE, where VALUE is JSON or a plain string."""
        return named_values(given) if isinstance(given, list) else given

    @field_validator("report_to")
    @classmethod
    def _known_integrations(cls, names: list[str]) -> list[str]:
        if not names:
            return names

        # Imported late, because it imports torch.
        from transformers.integrations.integration_utils import (
            INTEGRATION_TO_CALLBACK,
            get_available_reporting_integrations,
        )

        if unknown := sorted(set(names) - set(INTEGRATION_TO_CALLBACK)):
            known = ", ".join(sorted(INTEGRATION_TO_CALLBACK))
            raise ValueError(f"{', '.join(unknown)} is not an integration of transformers. Known are: {known}")
        if missing := sorted(set(names) - set(get_available_reporting_integrations())):
            raise ValueError(f"{', '.join(missing)} can't be reported to: install its package first")
        return names

    def settings(self) -> TrainingSettings:
        """Return the settings for `spanmarker_core.training`."""
        given = set(TrainingSettings.__dataclass_fields__) - {"context", "report_to"}
        return TrainingSettings(
            context=Context(self.context, self.max_prev_context, self.max_next_context),
            report_to=tuple(self.report_to),
            **{name: getattr(self, name) for name in given},
        )

    def facts(self) -> dict[str, Any]:
        """Return the texts for the model card."""
        return {name: value for name in TEXTS if (value := getattr(self, name)) is not None}
