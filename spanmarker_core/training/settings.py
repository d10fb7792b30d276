"""Settings of a training run. Defaults are those of the thesis (Appendix C, FewNERD with BERT-base)."""

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

#: Formats of the computation. The format of stored weights is `weight_dtype`.
PRECISIONS = ("float32", "bf16", "fp16")

#: Range of a number: a description and a test.
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
    """Settings of a training run.

    Attributes:
        entity_max_length: longest candidate span, in words.
        max_tokens: tokens per window, including special tokens.
        context: context policy of the windows; the bundle uses the same for tagging.
        splitter: a name in `SPLITTERS`: how the bundle splits raw text into words.
        decoder: a name in `DECODERS`: how the bundle decodes scores into entities, also used for scoring on dev.
        encoder_layers: number of encoder layers to keep, from the first; None keeps all.
        architecture: a name in `ARCHITECTURES`.
        options: options of the architecture; missing ones have their defaults.
        pair_layers: number of top layers in which the two markers of a span attend to each other; None is all, as in
            the thesis. Below them, one start and one end marker per word represent all spans, which is far less work.
        gate: learn which words start and end entities, and train only on the spans at the first word of an entity and
            on a share of the others (SmartSpanner).
        gate_ends: whether the gate also learns ends; without them it is SmartSpanner's, which learns first words only.
        gate_weight: w of the loss w · gate + (1 - w) · spans (SmartSpanner, equation 7).
        gate_share: sp, the share of the other spans (SmartSpanner, equation 8).
        negatives: train on the entities and on at most this number of other spans of each window, drawn in each epoch
            (BL-NER, equation 20, where it is 100); None trains on all.
        boundary_smoothing: epsilon, the share of an entity's label given to spans with one boundary shifted by one word
            (Zhu and Li 2022; 0.1 in DSpERT).
        tag_weight: alpha, the weight of a bundled sequence head in the loss (BL-NER, equation 19).
        tune_threshold: store the score threshold with the best F1 on dev in the bundle, if it improves on none.
        learning_rate: peak learning rate of AdamW, with a linear schedule.
        head_learning_rate: peak learning rate of weights that are not pretrained; None is `learning_rate` (DSpERT,
            appendix C).
        weight_decay: weight decay of AdamW.
        warmup_share: share of the steps during which the learning rate rises.
        batch_size: windows per step, over all processes.
        batch_tokens: text tokens per step, in place of `batch_size`.
        accumulation: number of parts into which each process divides its share of a step, to save memory. The steps
            stay the same.
        precision: "float32", or "bf16" or "fp16" for mixed precision, which keeps weights and their sums in float32.
        gradient_checkpointing: recompute the states of markers in the backward pass instead of storing them: less
            memory, a third more work.
        epochs: passes over the training data.
        save_steps: steps between checkpoints, in addition to those at the ends of epochs; None saves only at the ends.
        report_to: logging integrations of transformers, such as "tensorboard" or "wandb", which must be installed.
        seed: seed of weights, order and dropout; the same seed gives the same result on a CPU with the same number of
            threads.
        weight_dtype: format of stored weights, "float32" or "float16".
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
        """Options of the architecture, including defaults."""
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
