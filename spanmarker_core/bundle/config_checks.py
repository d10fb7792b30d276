"""Validation of a model's config: types, ranges and consistency. Nothing here imports torch.

Bundles, imported checkpoints and new models all pass through `check_config`, so that every bundle written
can be loaded and every model loaded can tag.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from spanmarker_core.architectures.options import Options
from spanmarker_core.architectures.registry import ARCHITECTURES, options_of
from spanmarker_core.errors import CoreError, UnusableError, plain
from spanmarker_core.spans.decoding import DECODERS, threshold_vector
from spanmarker_core.text.shortened import shortened
from spanmarker_core.text.tag_schemes import label_problem
from spanmarker_core.text.words import SPLITTERS
from spanmarker_core.windows.packer import Context

if TYPE_CHECKING:
    from spanmarker_core.bundle.config import ModelConfig

#: A smaller window has too little room for a word and its neighbours between the special tokens.
MIN_WINDOW_TOKENS = 16

#: Ways to train a gate: together with the model, or for a finished model.
GATE_KINDS = ("joint", "fitted")

#: Values at a point of a gate's curve: the threshold, the share of candidate spans that pass, the share of the
#: ungated model's entities that are still found, the share of gold entities that pass, and F1 on gold.
CURVE_COLUMNS = ("threshold", "kept", "recall_of_model", "recall_of_gold", "f1")

#: Keys by which an encoder's config could make transformers load code or weights of another kind.
_CODE_KEYS = frozenset(
    {"attn_implementation", "experts_implementation", "quantization_config", "auto_map", "dtype", "torch_dtype"}
)


def check_config(config: "ModelConfig") -> None:
    """Check that a model can be built from a config and can tag.

    Args:
        config: the config to check.

    Raises:
        UnusableError: a field is invalid; names the field, its value and the limit.
        CoreError: `checkpoint.no_outside_label`, `encoder.entity_too_long`.
    """
    _check_labels(config.labels, config.outside)
    encoder = config.encoder
    if not isinstance(encoder, dict) or not isinstance(encoder.get("model_type"), str):
        raise UnusableError(f"encoder is {_short(encoder)}, not a transformers config with a model_type")
    if keys := sorted(set(_code_keys(encoder))):
        raise UnusableError(
            f"encoder has {', '.join(keys)}, but a bundle must not select code, weights or a number type"
        )
    rows = _whole("encoder.vocab_size", encoder.get("vocab_size"), 1)
    positions = _whole("encoder.max_position_embeddings", encoder.get("max_position_embeddings"), 1)
    for name, choices in (("architecture", ARCHITECTURES), ("splitter", SPLITTERS), ("decoder", DECODERS)):
        value = getattr(config, name)
        if value not in tuple(choices):
            raise UnusableError(f"{name} {_short(value)} is not one of {', '.join(choices)}")
    offset = _whole("position_offset", config.position_offset, 0)
    max_tokens = _whole("max_tokens", config.max_tokens, MIN_WINDOW_TOKENS)
    if max_tokens + offset > positions:
        raise UnusableError(f"max_tokens is {max_tokens}, but the encoder has {positions - offset} positions")
    for name in ("prefix", "suffix"):
        ids = getattr(config, name)
        if not isinstance(ids, list):
            raise UnusableError(f"{name} is {_short(ids)}, not a list of token ids")
        for id_ in ids:
            _whole(f"an id of {name}", id_, 0, rows - 1)
    _whole("unknown_id", config.unknown_id, 0, rows - 1)
    options = options_of(config.architecture, config.options)
    _check_markers(config, options, rows)
    _whole("entity_max_length", config.entity_max_length, 1)
    check_entity_fits(config.entity_max_length, max_tokens, len(config.prefix) + len(config.suffix))
    _check_threshold(config.threshold, config.labels)
    if options.output == "tags" and config.decoder != "flat.v1":
        raise UnusableError(f"decoder is {config.decoder}, but entities come from tags, which cannot nest or cross")
    if config.pair_layers is not None:
        if problem := options.pairing_problem(config.pair_layers):
            raise UnusableError(f"pair_layers is {_short(config.pair_layers)}, but {problem}")
        layers = encoder.get("num_hidden_layers", encoder.get("n_layers"))
        _whole("pair_layers", config.pair_layers, 0, layers if type(layers) is int else None)
    if config.gate is not None:
        if options.gate_problem:
            raise UnusableError(f"the model has a gate, but {options.gate_problem}")
        check_gate(config.gate)
    if not isinstance(config.facts, dict):
        raise UnusableError(f"facts is {_short(config.facts)}, not an object")


def _check_markers(config: "ModelConfig", options: Options, rows: int) -> None:
    for name in ("start_marker_id", "end_marker_id"):
        value = getattr(config, name)
        if options.markers:
            _whole(name, value, 0, rows - 1)
        elif value is not None:
            raise UnusableError(f"{name} is {_short(value)}, but {config.architecture} has no markers")
    if options.markers and config.start_marker_id == config.end_marker_id:
        raise UnusableError(f"start_marker_id and end_marker_id are both {config.start_marker_id}")


def check_entity_fits(entity_max_length: int, max_tokens: int, n_special: int) -> None:
    """Check that overlapping windows can hold every candidate span, assuming one token per word.

    Args:
        entity_max_length: maximum words per candidate span.
        max_tokens: maximum tokens per window, special tokens included.
        n_special: special tokens per window.

    Raises:
        CoreError: `encoder.entity_too_long`.
    """
    limit = (max_tokens - n_special) // 2
    if entity_max_length > limit:
        raise CoreError("encoder.entity_too_long", found=entity_max_length, limit=limit, max_tokens=max_tokens)


def check_gateable(config: "ModelConfig") -> None:
    """Check that a gate can be fitted to a model.

    Args:
        config: the model's config.

    Raises:
        CoreError: `gate.no_choice`.
    """
    if options_of(config.architecture, config.options).gate_problem:
        raise CoreError("gate.no_choice", architecture=config.architecture)


def check_gate(gate: object) -> None:
    """Check the description of a gate in a bundle's config.

    Args:
        gate: the value to check.

    Raises:
        UnusableError: a field is invalid; names the field and its value.
    """
    if not isinstance(gate, dict) or set(gate) - {"ends"} != {"trained", "width", "threshold", "curve"}:
        raise UnusableError(f"gate is {_short(gate)}, not an object with trained, width, threshold and curve")
    if gate["trained"] not in GATE_KINDS:
        raise UnusableError(f"gate.trained {_short(gate['trained'])} is not one of {', '.join(GATE_KINDS)}")
    _whole("gate.width", gate["width"], 1, 1 << 16)
    if type(gate.get("ends", True)) is not bool:
        raise UnusableError(f"gate.ends is {_short(gate['ends'])}, not true or false")
    threshold = gate["threshold"]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UnusableError(f"gate.threshold is {_short(threshold)}, not a number from 0 to 1")
    curve = gate["curve"]
    numbers = isinstance(curve, list) and all(
        isinstance(point, dict)
        and {"threshold", "kept"} <= set(point) <= set(CURVE_COLUMNS)
        and all(type(value) in (int, float) and 0 <= value <= 1 for value in point.values())
        for point in curve
    )
    if not numbers:
        raise UnusableError(f"gate.curve is {_short(curve)}, not a list of points with threshold and kept, from 0 to 1")


def read_context(values: object) -> Context:
    """Return a config's context policy.

    Args:
        values: the JSON value of the field `context`.

    Raises:
        UnusableError: it is invalid; names the value.
    """
    if not isinstance(values, dict):
        raise UnusableError(f"context is {_short(values)}, not an object")
    try:
        return Context(**values)
    except (TypeError, CoreError) as error:
        raise UnusableError(f"context {_short(values)}: {plain(error)}") from error


def check_vocabulary(tokenizer: Tokenizer, rows: int) -> int:
    """Return the number of tokens of a tokenizer, after checking that the encoder has embeddings for all ids.

    Args:
        tokenizer: the tokenizer.
        rows: rows of the encoder's embedding matrix.

    Raises:
        UnusableError: an id is too high, or there are no tokens; names the highest id and the limit.
    """
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if not ids or max(ids) >= rows:
        found = f"ids up to {max(ids)}" if ids else "no tokens"
        raise UnusableError(f"the tokenizer has {found}, but the encoder has embeddings for ids up to {rows - 1}")
    return len(ids)


def without_code(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an encoder's config without the keys that could select code, at any depth.

    Args:
        values: the encoder's config.
    """
    return {
        key: without_code(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if not _chooses_code(key)
    }


def _code_keys(values: object) -> Iterator[str]:
    if isinstance(values, dict):
        yield from filter(_chooses_code, values)
    if isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _code_keys(value)


def _chooses_code(key: object) -> bool:
    return str(key).startswith("_") or key in _CODE_KEYS


def _check_labels(labels: object, outside: object) -> None:
    if not isinstance(labels, list) or len(labels) < 2:
        raise UnusableError(f"labels is {_short(labels)}, not a list of two or more names")
    for label in labels:
        problem = None if label == outside == "O" else label_problem(label)
        if problem:
            raise UnusableError(f"label {label!r}: {problem}")
    if len(set(labels)) < len(labels):
        twice = sorted(label for label, count in Counter(labels).items() if count > 1)
        raise UnusableError(f"labels contains {', '.join(twice)} more than once")
    if outside not in labels:
        raise CoreError("checkpoint.no_outside_label", labels=", ".join(labels))


def _check_threshold(threshold: Any, labels: list[str]) -> None:
    try:
        threshold_vector(threshold, labels)
    except CoreError as error:
        raise UnusableError(error.text) from error


def _whole(name: str, value: object, low: int, high: int | None = None) -> int:
    if type(value) is not int or value < low or (high is not None and value > high):
        limit = f"from {low} to {high}" if high is not None else f"of {low} or more"
        raise UnusableError(f"{name} is {_short(value)}, not an integer {limit}")
    return value


def _short(value: object) -> str:
    return shortened(repr(value), 80)
