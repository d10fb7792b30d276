"""What a training run can be told. Defaults are the thesis's (Appendix C, FewNERD with BERT-base)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spanmarker_core.architectures.options import Options
from spanmarker_core.architectures.registry import ARCHITECTURES, options_of
from spanmarker_core.bundle.config import WEIGHT_DTYPES
from spanmarker_core.errors import CoreError
from spanmarker_core.spans.decoding import DECODERS
from spanmarker_core.text.words import SPLITTERS
from spanmarker_core.training.settings_checks import contradictions
from spanmarker_core.windows.packer import Context

#: Of the computation. What is stored is told by `weight_dtype`.
PRECISIONS = ("float32", "bf16", "fp16")

#: What a number may be, in words and as a test.
_Range = tuple[str, Callable[[float], bool]]
_COUNT: _Range = ("1 or more", lambda value: value >= 1)
_NATURAL: _Range = ("0 or more", lambda value: value >= 0)
_SHARE: _Range = ("between 0 and 1", lambda value: 0 < value < 1)
_PART: _Range = ("from 0 up to 1", lambda value: 0 <= value < 1)
_RATE: _Range = ("a number above 0", lambda value: 0 < value < math.inf)
_RANGES: dict[str, _Range] = {
    "entity_max_length": _COUNT,
    "encoder_layers": _COUNT,
    "pair_layers": _NATURAL,
    "gate_weight": _SHARE,
    "gate_share": ("from 0 to 1", lambda value: 0 <= value <= 1),
    "negatives": _COUNT,
    "boundary_smoothing": _PART,
    "tag_weight": _SHARE,
    "learning_rate": _RATE,
    "head_learning_rate": _RATE,
    "weight_decay": _NATURAL,
    "warmup_share": _PART,
    "batch_size": _COUNT,
    "batch_tokens": _COUNT,
    "accumulation": _COUNT,
    "epochs": _COUNT,
    "save_steps": _COUNT,
    "seed": _NATURAL,
}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one training run.

    Attributes:
        entity_max_length: words of the longest candidate span.
        max_tokens: tokens of a window, special tokens included.
        context: what a window shows around its sentence; the bundle is tagged with the same.
        splitter: how raw text becomes words when the bundle tags text.
        decoder: one of `decoding.DECODERS`, what the bundle makes entities of scores with, and dev is scored with.
        encoder_layers: keep the encoder's first layers only; None keeps all.
        architecture: one of `models.ARCHITECTURES`.
        options: what the architecture is told, see `models.options`.
        pair_layers: top layers in which the two markers of a span attend to each other; None is all, the thesis's.
            Below them one start and one end marker a word stand for all spans, which is far less work.
        gate: learn which words start and end entities, and train on the spans that this leaves: those at the first
            word of an entity, and a share of the others (SmartSpanner).
        gate_ends: whether the gate learns ends too; without, it is SmartSpanner's, which knows entities' first words.
        gate_weight: w of the loss w · gate + (1 - w) · spans (SmartSpanner, equation 7).
        gate_share: sp, the share of the other spans (SmartSpanner, equation 8).
        negatives: train on the entities and on at most so many other spans of each window, drawn anew each epoch
            (BL-NER, equation 20, where it is 100); None is on all.
        boundary_smoothing: epsilon, the share of an entity's label that spans with an edge a word off get (Zhu and Li
            2022; DSpERT's is 0.1).
        tag_weight: alpha, the share of a bundled head of tags in the loss (BL-NER, equation 19).
        head_learning_rate: the peak for weights that are not pretrained; None is `learning_rate` (DSpERT, appendix C).
        tune_threshold: give the bundle the score threshold with the best F1 on dev, where one is better than none.
        learning_rate, weight_decay, warmup_share: AdamW, with a linear schedule that rises over the
            first `warmup_share` of the steps.
        batch_size: windows a step, over all processes.
        batch_tokens: tokens a step, of the text, in place of `batch_size`.
        accumulation: parts of a step that each process works off in turn, for memory. The steps stay the same.
        precision: "float32", or "bf16" or "fp16" for mixed precision: weights and their sums stay in float32.
        gradient_checkpointing: keep no states of markers, and compute them again on the way back: less memory, a
            third more work.
        epochs: passes over the training data.
        save_steps: steps after which there is a checkpoint, beside the ends of epochs; None is there only.
        report_to: transformers' logging integrations, such as "tensorboard" or "wandb", which must be installed.
        seed: of weights, order and dropout; same seed, same result on a CPU with as many threads.
        weight_dtype: how weights are stored, "float32" or "float16".
        device: "cpu", "cuda" or "auto".

    Raises:
        CoreError: `call.unknown_option`, `call.out_of_range`, `training.contradiction`.
    """

    entity_max_length: int = 8
    max_tokens: int = 256
    context: Context = field(default_factory=Context)
    splitter: str = "words.v1"
    decoder: str = "flat.v1"
    encoder_layers: int | None = None
    architecture: str = "span_marker.v1"
    options: Mapping[str, Any] = field(default_factory=dict)
    pair_layers: int | None = None
    gate: bool = False
    gate_ends: bool = True
    gate_weight: float = 0.2
    gate_share: float = 0.05
    negatives: int | None = None
    boundary_smoothing: float = 0.0
    tag_weight: float = 0.1
    tune_threshold: bool = False
    learning_rate: float = 5e-5
    head_learning_rate: float | None = None
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    batch_size: int = 32
    batch_tokens: int | None = None
    accumulation: int = 1
    precision: str = "float32"
    gradient_checkpointing: bool = False
    epochs: int = 3
    save_steps: int | None = None
    report_to: tuple[str, ...] = ()
    seed: int = 42
    weight_dtype: str = "float32"
    device: str = "auto"

    @property
    def told(self) -> Options:
        """What the architecture is told, defaults included."""
        return options_of(self.architecture, self.options)

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_ranges()
        if problems := contradictions(self.architecture, self.options, self):
            raise CoreError("training.contradiction", problems="; ".join(problems))

    def _check_choices(self) -> None:
        for option, choices in (
            ("architecture", tuple(ARCHITECTURES)),
            ("splitter", SPLITTERS),
            ("decoder", tuple(DECODERS)),
            ("weight_dtype", WEIGHT_DTYPES),
            ("precision", PRECISIONS),
        ):
            value = getattr(self, option)
            if value not in choices:
                raise CoreError("call.unknown_option", option=option, value=value, choices=", ".join(choices))

    def _check_ranges(self) -> None:
        given = [(name, value, *fits) for name, fits in _RANGES.items() if (value := getattr(self, name)) is not None]
        if wrong := [f"{name} {value} is not {words}" for name, value, words, fits in given if not fits(value)]:
            raise CoreError("call.out_of_range", problems="; ".join(wrong))
