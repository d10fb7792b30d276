"""Settings of a training run. Each is declared here once: for the library, for job files and for the command line.

Defaults are those of the thesis (Appendix C, FewNERD with BERT-base). A description is the help text of the option.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from spanmarker_core.architectures.options import Options
from spanmarker_core.architectures.registry import architecture_called, options_of
from spanmarker_core.bundle.config import WEIGHT_DTYPES
from spanmarker_core.bundle.config_checks import MIN_WINDOW_TOKENS
from spanmarker_core.errors import CoreError
from spanmarker_core.shown import Panel, Shown
from spanmarker_core.spans.decoding import DECODERS
from spanmarker_core.text.versions import versioned
from spanmarker_core.text.words import SPLITTERS
from spanmarker_core.training.settings_checks import contradictions
from spanmarker_core.windows.packer import CONTEXT_POLICIES, Context

#: Formats of the computation. The format of stored weights is `weight_dtype`.
PRECISIONS = ("float32", "bf16", "fp16")


def _one_of(choices: Iterable[str]) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        found = versioned(value, choices)
        if found not in choices:
            raise _invalid(
                CoreError("call.unknown_option", option=info.field_name, value=value, choices=", ".join(choices))
            )
        return found

    return AfterValidator(check)


def _invalid(error: CoreError) -> PydanticCustomError:
    """Return a coded error as one that pydantic reports together with the others."""
    return PydanticCustomError(error.code, error.text, error.values)


class PackingFields(BaseModel):
    """How sentences become windows: settings of training data and of the model that is trained on them."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    entity_max_length: Annotated[int, Shown(Panel.MODEL, "WORDS")] = Field(
        8, ge=1, description="Maximum length of an entity, in words."
    )
    max_tokens: Annotated[int, Shown(Panel.MODEL, "N")] = Field(
        256, description="Maximum length of a window, in tokens."
    )
    context: Annotated[str, _one_of(CONTEXT_POLICIES), Shown(Panel.MODEL, "NAME")] = Field(
        "sentence", description="sentence, document or block."
    )
    max_prev_context: Annotated[int | None, Shown(Panel.MODEL, "N")] = Field(
        None, ge=0, description="Maximum number of previous sentences.  [default: none]"
    )
    max_next_context: Annotated[int | None, Shown(Panel.MODEL, "N")] = Field(
        None, ge=0, description="Maximum number of next sentences.  [default: none]"
    )
    splitter: Annotated[str, _one_of(SPLITTERS), Shown(Panel.MODEL, "NAME")] = Field(
        "words.v1", description="words.v1 or tokenizer.v1, for documents."
    )

    @field_validator("max_tokens")
    @classmethod
    def _long_enough(cls, value: int) -> int:
        if value < MIN_WINDOW_TOKENS:
            raise _invalid(CoreError("encoder.window_too_short", found=value, limit=MIN_WINDOW_TOKENS))
        return value

    @property
    def shown(self) -> Context:
        """Return the context shown in the window of a sentence.

        Raises:
            CoreError: `call.limit_without_context`.
        """
        return Context(self.context, self.max_prev_context, self.max_next_context)


class TrainingFields(PackingFields):
    """All settings of a training run; `TrainingSettings` and the job of `spanmarker train` inherit them."""

    decoder: Annotated[str, _one_of(DECODERS), Shown(Panel.MODEL, "NAME")] = Field(
        "flat.v1", description="flat.v1, nested.v1 or all.v1: whether entities may nest or cross."
    )
    encoder_layers: Annotated[int | None, Shown(Panel.MODEL, "N")] = Field(
        None, ge=1, description="Keep only the first N layers of the encoder.  [default: all]"
    )
    architecture: Annotated[str, Shown(Panel.MODEL, "NAME")] = Field(
        "span_marker.v1", description="How spans are scored; docs/explanation/architectures.md lists the choices."
    )
    options: Annotated[dict[str, Any], Shown(Panel.MODEL, "NAME=VALUE", "--option")] = Field(
        {}, description="NAME=VALUE, an option of the architecture. Can be repeated."
    )
    # Below these layers one start and one end marker per word represent all spans. The thesis pairs in all layers.
    pair_layers: Annotated[int | None, Shown(Panel.SPEED, "N")] = Field(
        None, ge=0, description="Pair markers in the top N layers only, for speed.  [default: all]"
    )
    gate: Annotated[bool, Shown(Panel.SPEED)] = Field(False, description="Also train a gate, for speed.")
    # SmartSpanner's gate learns first words only.
    gate_ends: Annotated[bool, Shown(Panel.MODEL)] = Field(
        True, description="With a gate: also predict where entities end."
    )
    # w of the loss w · gate + (1 - w) · spans: SmartSpanner, equation 7.
    gate_weight: Annotated[float, Shown(Panel.TRAINING, "WEIGHT")] = Field(
        0.2, gt=0, lt=1, description="Weight of the gate in the loss."
    )
    # sp of SmartSpanner, equation 8.
    gate_share: Annotated[float, Shown(Panel.TRAINING, "SHARE")] = Field(
        0.05, ge=0, le=1, description="With a gate: share of the spans at other words that are trained on too."
    )
    # Drawn in each epoch: BL-NER, equation 20, where it is 100.
    negatives: Annotated[int | None, Shown(Panel.TRAINING, "N")] = Field(
        None, ge=1, description="Train on at most N non-entity spans per window.  [default: all]"
    )
    # Epsilon of Zhu and Li 2022; 0.1 in DSpERT.
    boundary_smoothing: Annotated[float, Shown(Panel.TRAINING, "SHARE")] = Field(
        0.0, ge=0, lt=1, description="Share of a label's probability moved to spans that differ by one word."
    )
    # Alpha of BL-NER, equation 19.
    tag_weight: Annotated[float, Shown(Panel.TRAINING, "WEIGHT")] = Field(
        0.1, gt=0, lt=1, description="Weight of a bundled tagging head in the loss."
    )
    tune_threshold: Annotated[bool, Shown(Panel.TRAINING)] = Field(
        False, description="Store the score threshold that is best on dev."
    )
    learning_rate: Annotated[float, Shown(Panel.TRAINING, "RATE")] = Field(
        5e-5, gt=0, allow_inf_nan=False, description="Peak learning rate; it rises and falls linearly."
    )
    # DSpERT, appendix C.
    head_learning_rate: Annotated[float | None, Shown(Panel.TRAINING, "RATE")] = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Learning rate of weights that are not pretrained.  [default: --learning-rate]",
    )
    weight_decay: Annotated[float, Shown(Panel.TRAINING, "DECAY")] = Field(
        0.01, ge=0, description="Weight decay of AdamW."
    )
    warmup_share: Annotated[float, Shown(Panel.TRAINING, "SHARE")] = Field(
        0.1, ge=0, lt=1, description="Share of the steps during which the learning rate rises."
    )
    batch_size: Annotated[int, Shown(Panel.TRAINING, "N")] = Field(
        32, ge=1, description="Windows per step, over all processes."
    )
    batch_tokens: Annotated[int | None, Shown(Panel.TRAINING, "N")] = Field(
        None, ge=1, description="Tokens per step, instead of --batch-size."
    )
    # The steps stay the same.
    accumulation: Annotated[int, Shown(Panel.SPEED, "N")] = Field(
        1, ge=1, description="Parts into which a process divides each step, to save memory."
    )
    # Mixed precision keeps weights and their sums in float32.
    precision: Annotated[str, _one_of(PRECISIONS), Shown(Panel.SPEED, "NAME")] = Field(
        "float32", description="float32, bf16 or fp16."
    )
    gradient_checkpointing: Annotated[bool, Shown(Panel.SPEED)] = Field(
        False, description="Recompute marker states in the backward pass, to save memory."
    )
    epochs: Annotated[int, Shown(Panel.TRAINING, "N")] = Field(3, ge=1, description="Passes over the data.")
    save_steps: Annotated[int | None, Shown(Panel.RELIABILITY, "N")] = Field(
        None, ge=1, description="Steps between checkpoints.  [default: at the end of each epoch]"
    )
    report_to: Annotated[list[str], Shown(Panel.OBSERVABILITY, "NAME")] = Field(
        [], description="A logging integration, such as tensorboard. Can be repeated."
    )
    # On a CPU; and the number of threads must be the same too.
    seed: Annotated[int, Shown(Panel.TRAINING, "N")] = Field(
        42, ge=0, description="Random seed; the same seed gives the same model."
    )
    weight_dtype: Annotated[str, _one_of(WEIGHT_DTYPES), Shown(Panel.MODEL, "NAME")] = Field(
        "float32", description="Stored number format, float32 or float16."
    )
    device: Annotated[str, Shown(Panel.SPEED, "DEVICE")] = Field("auto", description="cpu, cuda or auto.")

    @field_validator("architecture")
    @classmethod
    def _in_full(cls, name: str) -> str:
        try:
            return architecture_called(name)
        except CoreError as error:
            raise _invalid(error) from error

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if problems := contradictions(self):
            lines = "\n    ".join(problems)
            raise PydanticCustomError("training.contradiction", lines, {"problems": "; ".join(problems)})
        return self

    @property
    def architecture_options(self) -> Options:
        """Return the options of the architecture, including defaults."""
        return options_of(self.architecture, self.options)

    @property
    def given(self) -> dict[str, Any]:
        """Return the settings that were given, without those left at their defaults."""
        return {name: getattr(self, name) for name in TrainingFields.model_fields if name in self.model_fields_set}


class TrainingSettings(TrainingFields):
    """Settings of a training run, as the library takes them. The fields are those of `TrainingFields`.

    Raises:
        CoreError: `call.unknown_option`, `call.out_of_range`, `call.limit_without_context`,
            `encoder.window_too_short`, `training.contradiction`.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _coded(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return check(values)
        except ValidationError as error:
            raise _coded_error(error) from None

    @model_validator(mode="after")
    def _limits_fit_the_context(self) -> Self:
        _ = self.shown  # only here: a job may take its context from prepared windows
        return self

    def replace(self, **changes: Any) -> Self:
        """Return these settings with some of them changed.

        Args:
            changes: new values, by name.

        Raises:
            CoreError: as the class.
        """
        return type(self)(**{**self.given, **changes})

    def to_json(self) -> dict[str, Any]:
        """Return the settings as checkpoints and bundles store them."""
        values = self.model_dump(exclude={"max_prev_context", "max_next_context"})
        return {**values, "context": asdict(self.shown)}


def _coded_error(error: ValidationError) -> CoreError:
    """Return the first error that has a code, or `call.out_of_range` with all that have none."""
    problems = error.errors(include_url=False)
    for problem in problems:
        if problem["type"] in CoreError.MESSAGES:
            return CoreError(problem["type"], **problem["ctx"])
    lines = [f"{'.'.join(map(str, problem['loc']))} {problem['input']}: {problem['msg']}" for problem in problems]
    return CoreError("call.out_of_range", problems="; ".join(lines))
