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

#: Number types for the computations of a loaded network.
DTYPES = ("float32", "bfloat16", "int8")

#: Number types for stored weights.
WEIGHT_DTYPES = ("float32", "float16")

#: Use the gate if the model was trained with one ("auto"), always, or never.
GATE_CHOICES = ("auto", "on", "off")


@dataclass(frozen=True)
class ModelConfig:
    """The full description of a model, apart from its weights.

    Attributes:
        labels: class names in the order of the classifier's outputs, including `outside`.
        entity_max_length: maximum words per candidate span.
        max_tokens: maximum tokens per window, special tokens included.
        position_offset: position id of a window's first token.
        prefix: ids of the special tokens before a window's text.
        suffix: ids of the special tokens after a window's text.
        unknown_id: id of the token that replaces a word too long for a window.
        start_marker_id: id of the start marker in the encoder's vocabulary; None for a model without markers.
        end_marker_id: id of the end marker in the encoder's vocabulary; None for a model without markers.
        encoder: the encoder's transformers config.
        splitter: word splitter for raw text, "words.v1" or "tokenizer.v1".
        context: the context policy that the model was trained with, and the default for tagging.
        decoder: default decoder: "flat.v1", "nested.v1" or "all.v1".
        threshold: default threshold: None (the best label of each span), a probability, or one per label.
        outside: the label of spans that are not entities.
        architecture: registered name of the architecture, with its version.
        options: options of the architecture; those left out have their defaults.
        pair_layers: top layers in which the two markers of a span attend to each other; None for all.
        gate: None, or a mapping: how the gate was `trained` ("joint" with the model, or "fitted" to it later), the
            `width` of its hidden layer, its `threshold`, the `curve` that the threshold was chosen on, and whether it
            also predicts the `ends` of spans (by default True).
        facts: metadata about training for the model card; no effect on the output.
        format_version: version of the bundle format.
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
        """Index of "O" among the labels."""
        return self.labels.index(self.outside)

    @property
    def gives_tags(self) -> bool:
        """Whether entities are decoded from tags, so that other spans are not scored."""
        return options_of(self.architecture, self.options).output == "tags"

    @property
    def gated(self) -> bool:
        """Whether the gate was trained with the model, rather than fitted later, which changes the model's output."""
        return self.gate is not None and self.gate["trained"] == "joint"

    def to_json(self) -> str:
        """Return the content of config.json."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def gate_threshold(config: ModelConfig, gate: str, path: str | Path) -> float | None:
    """Return the gate threshold of a model for a given choice; None for no gate.

    Args:
        config: the model's config.
        gate: one of `GATE_CHOICES`.
        path: the bundle's folder, for the error.

    Raises:
        CoreError: `call.no_gate`.
    """
    if gate == "on" and config.gate is None:
        raise CoreError("call.no_gate", path=path)
    use = gate == "on" or (gate == "auto" and config.gated)
    return config.gate["threshold"] if use and config.gate is not None else None


def decoder_of(config: ModelConfig, decoder: str | None) -> str:
    """Return the name of the decoder to use for a model.

    Args:
        config: the model's config.
        decoder: "flat.v1", "nested.v1" or "all.v1"; None for the bundle's own.

    Raises:
        CoreError: `call.unknown_option`, `call.flat_tags`.
    """
    chosen = check_decoder(decoder or config.decoder)
    if chosen != config.decoder and config.gives_tags:
        raise CoreError("call.flat_tags", decoder=chosen)
    return chosen


def describe_gate(threshold: float | None) -> str:
    """Return the text for a gate's threshold in job identities and reports.

    >>> describe_gate(None), describe_gate(0.25)
    ('off', 'on from 0.25')

    Args:
        threshold: the gate's threshold; None for no gate.
    """
    return "off" if threshold is None else f"on from {threshold}"


def packer_of(config: ModelConfig, tokenizer: Tokenizer) -> Packer:
    """Return the packer of a model.

    Args:
        config: the model's config.
        tokenizer: the model's tokenizer.
    """
    return Packer(
        tokenizer,
        prefix=config.prefix,
        suffix=config.suffix,
        unknown_id=config.unknown_id,
        max_tokens=config.max_tokens,
        entity_max_length=config.entity_max_length,
        splitter=config.splitter,
    )
