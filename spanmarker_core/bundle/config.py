"""The config of a model bundle: everything about a model apart from its weights."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spanmarker_core.architectures.registry import options_of
from spanmarker_core.errors import CoreError
from spanmarker_core.spans.decoding import check_decoder
from spanmarker_core.windows.packer import Context, Packer

FORMAT_VERSION = 3

#: Numbers that a loaded network computes with.
DTYPES = ("float32", "bfloat16", "int8")

#: Number formats that weights are stored in.
WEIGHT_DTYPES = ("float32", "float16")

#: Use the gate as the model was trained; use it; don't.
GATE_CHOICES = ("auto", "on", "off")


@dataclass(frozen=True)
class ModelConfig:
    """What a model is, apart from its weights.

    Attributes:
        labels: class names in the order of the classifier's outputs, `outside` among them.
        entity_max_length: words of the longest candidate span.
        max_tokens: tokens of a window, special tokens included.
        position_offset: position id of a window's first token.
        prefix, suffix: ids of the special tokens around a window's text.
        unknown_id: id shown for a word too long for a window.
        start_marker_id, end_marker_id: ids of the markers in the encoder's vocabulary; None where there are none.
        splitter: how raw text becomes words, one of `words.SPLITTERS`.
        context: how windows show a sentence's neighbours; tag as trained.
        decoder: one of `decoding.DECODERS`.
        threshold: None, a number, or a number a label; see `decoding`.
        architecture: one of `models.ARCHITECTURES`.
        options: what the architecture is told, see `models.options`; those left out have their defaults.
        pair_layers: top layers in which the two markers of a span attend to each other; None is all.
        gate: None, or how the gate was `trained` ("joint" with the model, or "fitted" to it later), the `width` of
            its hidden layer, its `threshold`, the `curve` that the threshold was chosen on, and whether it looks at the
            `ends` of spans too, which is so where that is left out.
        encoder: the encoder's own transformers config.
        facts: what the card tells about training; changes nothing.
    """

    labels: list[str]
    entity_max_length: int
    max_tokens: int
    position_offset: int
    prefix: list[int]
    suffix: list[int]
    unknown_id: int
    start_marker_id: int | None
    end_marker_id: int | None
    encoder: dict[str, Any]
    splitter: str = "words.v1"
    context: Context = field(default_factory=Context)
    decoder: str = "flat.v1"
    threshold: float | dict[str, float] | None = None
    outside: str = "O"
    architecture: str = "span_marker.v1"
    options: dict[str, Any] = field(default_factory=dict)
    pair_layers: int | None = None
    gate: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def outside_index(self) -> int:
        """Column of "O" among the labels."""
        return self.labels.index(self.outside)

    @property
    def gives_tags(self) -> bool:
        """Whether entities are put together from tags, so that there are no other spans than these."""
        return options_of(self.architecture, self.options).output == "tags"

    @property
    def gated(self) -> bool:
        """Whether the gate is part of the model as it was trained, not an addition that changes its output."""
        return self.gate is not None and self.gate["trained"] == "joint"

    def to_json(self) -> str:
        """Return the text of config.json."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def gate_threshold(config: ModelConfig, gate: str, path: str | Path) -> float | None:
    """Return the threshold that a choice of `GATE_CHOICES` comes to for a model; None is no gate.

    Raises:
        CoreError: `call.no_gate`.
    """
    if gate == "on" and config.gate is None:
        raise CoreError("call.no_gate", path=path)
    use = gate == "on" or (gate == "auto" and config.gated)
    return config.gate["threshold"] if use and config.gate is not None else None


def decoder_of(config: ModelConfig, decoder: str | None) -> str:
    """Return the decoder that a choice of `decoding.DECODERS`, or None for the bundle's own, comes to for a model.

    Raises:
        CoreError: `call.unknown_option`, `call.flat_tags`.
    """
    chosen = check_decoder(decoder or config.decoder)
    if chosen != config.decoder and config.gives_tags:
        raise CoreError("call.flat_tags", decoder=chosen)
    return chosen


def describe_gate(threshold: float | None) -> str:
    """Return what a gate's threshold is called in an identity and in reports.

    >>> describe_gate(None), describe_gate(0.25)
    ('off', 'on from 0.25')
    """
    return "off" if threshold is None else f"on from {threshold}"


def packer_of(config: ModelConfig, tokenizer: Tokenizer) -> Packer:
    """Return the packer that a config describes: tokenizer, splitter, window limits."""
    return Packer(
        tokenizer,
        prefix=config.prefix,
        suffix=config.suffix,
        unknown_id=config.unknown_id,
        max_tokens=config.max_tokens,
        entity_max_length=config.entity_max_length,
        splitter=config.splitter,
    )
