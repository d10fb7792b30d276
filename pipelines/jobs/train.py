"""The job of `spanmarker train`."""

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
    """One `spanmarker train`. The training defaults are the thesis's (Appendix C, FewNERD, BERT-base)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: str = Field(
        description="annotated sentences: .jsonl, CoNLL, or a folder saved by `datasets`; or the output of "
        "`spanmarker prepare --annotated`, which may lie in a store"
    )
    dev: str = Field(description="annotated sentences that choose the best epoch")
    test: str | None = Field(None, description="annotated sentences scored once at the end, for the card")
    scheme: str | None = Field(None, description="label scheme of tagged data, such as IOB2")
    encoder: str = Field(description="folder of a pretrained transformers encoder")
    output: str = Field(description="folder for the bundle; must not exist or be empty")

    train_sentences: int | None = Field(None, ge=1, description="take the first so many training sentences")
    architecture: str = Field("span_marker.v1", description="one of docs/architectures.md; the version may be left out")
    options: dict[str, Any] = Field({}, description="what the architecture is told, such as width_size")
    encoder_layers: int | None = Field(None, ge=1, description="keep the encoder's first layers only")
    pair_layers: int | None = Field(None, ge=0, description="let markers pair in the top layers only; all if left out")
    gate: bool = Field(False, description="train a gate too: which words start and end entities")
    gate_ends: bool = Field(True, description="with a gate: learn ends too; without them it is SmartSpanner's")
    gate_weight: float = Field(0.2, gt=0, lt=1, description="share of the gate in the loss")
    gate_share: float = Field(0.05, ge=0, le=1, description="with a gate: share of spans at other words to train on")
    negatives: int | None = Field(None, ge=1, description="train on so many other spans a window; all if left out")
    boundary_smoothing: float = Field(0.0, ge=0, lt=1, description="share of a label that spans a word off get")
    tag_weight: float = Field(0.1, gt=0, lt=1, description="with a bundled head of tags: its share in the loss")
    tune_threshold: bool = Field(False, description="give the bundle the score threshold that is best on dev")
    entity_max_length: int = Field(8, ge=1, description="words of the longest entity")
    max_tokens: int = Field(256, ge=16, description="tokens of a window")
    context: Literal["sentence", "document", "block"] = Field("sentence", description="what a window shows and tags")
    max_prev_context: int | None = Field(None, ge=0, description="limit of previous sentences; none if left out")
    max_next_context: int | None = Field(None, ge=0, description="limit of next sentences; none if left out")
    splitter: Literal["words.v1", "tokenizer.v1"] = Field("words.v1", description="how raw text becomes words")
    decoder: Literal["flat.v1", "nested.v1", "all.v1"] = Field("flat.v1", description="may entities nest or cross?")
    learning_rate: float = Field(5e-5, gt=0, allow_inf_nan=False)
    head_learning_rate: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="of weights that are not pretrained; learning_rate if left out"
    )
    weight_decay: float = Field(0.01, ge=0)
    warmup_share: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the rate rises")
    batch_size: int = Field(32, ge=1, description="windows a step, over all processes")
    batch_tokens: int | None = Field(None, ge=1, description="tokens a step in place of windows")
    accumulation: int = Field(1, ge=1, description="parts of a step that each process works off in turn, for memory")
    precision: Literal["float32", "bf16", "fp16"] = Field("float32", description="of the computation")
    gradient_checkpointing: bool = Field(False, description="compute markers' states twice, for memory")
    save_steps: int | None = Field(None, ge=1, description="steps between checkpoints, beside the ends of epochs")
    report_to: list[str] = Field([], description="logging integrations of transformers, such as tensorboard")
    max_misaligned: float = Field(
        0.01,
        ge=0,
        le=1,
        description="share of prepared annotations whose ranges may be no words, and of documents or sentences that "
        "may be rejected; more are refused",
    )
    epochs: int = Field(3, ge=1)
    seed: int = Field(42, ge=0)
    weight_dtype: Literal["float32", "float16"] = Field("float32", description="how weights are stored")
    device: str = Field("auto", description="cpu, cuda or auto")

    name: str | None = Field(None, description="for the card: name of the model")
    description: str | None = Field(None, description="for the card: what it is")
    licence: str | None = Field(None, description="for the card: licence, in words")
    licence_id: str | None = Field(None, description="for the card: licence, as model hubs name it")
    language: str | None = Field(None, description="for the card: language codes, such as en or en,de")
    training_data: str | None = Field(None, description="for the card: name and source of the data")
    data_licence: str | None = Field(None, description="for the card: licence of the data, in words")
    dataset_id: str | None = Field(None, description="for the card: the data's repository on a hub")
    encoder_name: str | None = Field(None, description="for the card: name of the encoder")
    encoder_id: str | None = Field(None, description="for the card: the encoder's repository on a hub")
    not_for: str | None = Field(None, description="for the card: what the model must not be used for")

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
        """Read what the command line gives, NAME=VALUE, where VALUE is JSON or a word."""
        return named_values(given) if isinstance(given, list) else given

    @field_validator("report_to")
    @classmethod
    def _known_integrations(cls, names: list[str]) -> list[str]:
        if not names:
            return names

        # Only here, since it brings torch.
        from transformers.integrations.integration_utils import (
            INTEGRATION_TO_CALLBACK,
            get_available_reporting_integrations,
        )

        if unknown := sorted(set(names) - set(INTEGRATION_TO_CALLBACK)):
            known = ", ".join(sorted(INTEGRATION_TO_CALLBACK))
            raise ValueError(f"{', '.join(unknown)} is no integration of transformers. There are: {known}")
        if missing := sorted(set(names) - set(get_available_reporting_integrations())):
            raise ValueError(f"{', '.join(missing)} can't be reported to: install its package first")
        return names

    def settings(self) -> TrainingSettings:
        """Return the plain arguments that the core takes."""
        given = set(TrainingSettings.__dataclass_fields__) - {"context", "report_to"}
        return TrainingSettings(
            context=Context(self.context, self.max_prev_context, self.max_next_context),
            report_to=tuple(self.report_to),
            **{name: getattr(self, name) for name in given},
        )

    def facts(self) -> dict[str, Any]:
        """Return what the card tells in words."""
        return {name: value for name in TEXTS if (value := getattr(self, name)) is not None}
