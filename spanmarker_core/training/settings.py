"""What a training run can be told. Defaults are the thesis's (Appendix C, FewNERD with BERT-base)."""

from dataclasses import dataclass, field

from spanmarker_core.errors import CoreError
from spanmarker_core.saving import WEIGHT_DTYPES
from spanmarker_core.windows import Context
from spanmarker_core.words import SPLITTERS


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one training run.

    Attributes:
        entity_max_length: words of the longest candidate span.
        max_tokens: tokens of a window, special tokens included.
        context: what a window shows around its sentence; the bundle is tagged with the same.
        splitter: how raw text becomes words when the bundle tags text.
        encoder_layers: keep the encoder's first layers only; None keeps all.
        pair_layers: top layers in which the two markers of a span attend to each other; None is all, the thesis's.
            Below them one start and one end marker a word stand for all spans, which is far less work.
        gate: learn which words start and end entities, and train on the spans that this leaves: those at the first
            word of an entity, and a share of the others (SmartSpanner).
        gate_weight: w of the loss w · gate + (1 - w) · spans (SmartSpanner, equation 7).
        gate_share: sp, the share of the other spans (SmartSpanner, equation 8).
        learning_rate, weight_decay, warmup_share: AdamW, with a linear schedule that rises over the
            first `warmup_share` of the steps.
        batch_size: windows a step.
        epochs: passes over the training data.
        seed: of weights, order and dropout; same seed, same result on a CPU with as many threads.
        weight_dtype: how weights are stored, "float32" or "float16".
        device: "cpu", "cuda" or "auto".

    Raises:
        CoreError: `call.unknown_option`.
    """

    entity_max_length: int = 8
    max_tokens: int = 256
    context: Context = field(default_factory=Context)
    splitter: str = "words.v1"
    encoder_layers: int | None = None
    pair_layers: int | None = None
    gate: bool = False
    gate_weight: float = 0.2
    gate_share: float = 0.05
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    batch_size: int = 32
    epochs: int = 3
    seed: int = 42
    weight_dtype: str = "float32"
    device: str = "auto"

    def __post_init__(self) -> None:
        for option, choices in (("splitter", SPLITTERS), ("weight_dtype", tuple(WEIGHT_DTYPES))):
            value = getattr(self, option)
            if value not in choices:
                raise CoreError("call.unknown_option", option=option, value=value, choices=", ".join(choices))
