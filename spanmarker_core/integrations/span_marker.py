"""Import of checkpoints of the `span_marker` library as self-contained bundles.

The library's folder holds a config with `model_type: "span-marker"` that contains the encoder's config, weights as
safetensors or `.bin`, and a tokenizer with `<start>` and `<end>`. The library offsets position ids by 2 for every
encoder, splits raw strings with the tokenizer's own pre-tokenizer, and for XLM-RoBERTa splits off punctuation first.
The import runs no code of the checkpoint; `.bin` files are read as weights only.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, pre_tokenizers
from torch import Tensor, nn

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.config_checks import check_config, check_vocabulary, read_context
from spanmarker_core.bundle.pretrained import (
    encoder_config,
    not_finite,
    put_spaces_before_words,
    read_json,
    read_tokenizer,
    weight_files,
)
from spanmarker_core.bundle.repositories import find_checkpoint
from spanmarker_core.bundle.writer import check_output, encoder_facts, save_bundle
from spanmarker_core.card import card_files, model_card
from spanmarker_core.card.origin import checkpoint_origin
from spanmarker_core.errors import UnusableError, as_core_error, wrap_errors
from spanmarker_core.models.encoders import max_window_tokens, position_kind
from spanmarker_core.models.probe import check_states
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.training.initialise import special_tokens

_POSITION_OFFSET = 2
_DEFAULT_MAX_TOKENS = 512
_NO_LIMIT = 10**9

#: The library rounds the number of embeddings up from the size of the tokenizer.
_MAX_SPARE_EMBEDDINGS = 64


def import_span_marker(source: str | Path, output: str | Path) -> str:
    """Convert a checkpoint into a bundle.

    Args:
        source: folder of the checkpoint, or its repository on the hub: "owner/name" or "owner/name@revision".
        output: the bundle's folder; must not exist or be empty.

    Returns:
        The digest of the model.

    Raises:
        CoreError: `checkpoint.not_found`, `hub.*` as in `find_checkpoint`, `checkpoint.not_span_marker`,
            `checkpoint.no_outside_label`,
            `bundle.output_exists`, `bundle.output_not_writable`, `encoder.no_fast_tokenizer`,
            `encoder.no_position_ids`, `encoder.not_independent`, `encoder.entity_too_long`.
    """
    check_output(output)
    found = find_checkpoint(source)
    with as_core_error("checkpoint.not_span_marker", path=found.name):
        config, network, tokenizer = _read_checkpoint(found.path)
    facts = {"bundle_name": Path(output).absolute().name, **checkpoint_origin(found)}
    files = card_files(config, facts)
    return save_bundle(output, config, network, tokenizer, model_card(config, facts), files=files)


def _read_checkpoint(source: Path) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    values = read_json(source / "config.json")
    if values.get("model_type") != "span-marker" or not isinstance(values.get("encoder"), dict):
        raise UnusableError(f"its config says model_type {values.get('model_type')!r}, not 'span-marker'")
    weights = _read_weights(source)
    labels = _labels(values, len(weights["classifier.weight"]))
    tokenizer = _read_tokenizer(source, values["encoder"].get("model_type"))
    config = _config(source, values, labels, tokenizer, _embedding_rows(weights))
    with wrap_errors("cannot build its encoder"):
        network = SpanMarkerModel.from_config(config)
    expected = network.state_dict()
    # Poolers and buffers of older transformers are not part of the model.
    if missing := sorted(name for name in expected if name not in weights):
        raise UnusableError(f"it lacks weights {', '.join(missing[:5])}")
    if other := sorted(name for name, weight in expected.items() if weight.shape != weights[name].shape):
        raise UnusableError(f"the shapes of these weights do not match its config: {', '.join(other[:5])}")
    network.load_state_dict({name: weights[name] for name in expected})
    check_states(network, tokenizer, config.prefix, config.suffix)
    return config, network, tokenizer


def _config(
    source: Path, values: dict[str, Any], labels: list[str], tokenizer: Tokenizer, embeddings: int
) -> ModelConfig:
    start_marker, end_marker = map(tokenizer.token_to_id, ("<start>", "<end>"))
    if start_marker is None or end_marker is None:
        raise UnusableError("its tokenizer has no <start> and <end>")
    tokens = check_vocabulary(tokenizer, embeddings)
    if tokens <= embeddings - _MAX_SPARE_EMBEDDINGS:
        raise UnusableError(f"its tokenizer has {tokens} tokens, but its encoder has {embeddings} embeddings")
    encoder = encoder_config({**values["encoder"], "vocab_size": embeddings})
    if position_kind(encoder) == "none":
        raise UnusableError(f"its encoder ({encoder.model_type}) does not support position ids for markers")
    tokenizer_values = read_json(source / "tokenizer_config.json")
    limits = [
        _limit(values, "model_max_length", _DEFAULT_MAX_TOKENS),
        _limit(tokenizer_values, "model_max_length", _NO_LIMIT),
        max_window_tokens(encoder, _POSITION_OFFSET),
    ]
    context: dict[str, Any] = {"policy": "sentence"}
    if values.get("trained_with_document_context"):
        limit_names = {"max_prev": "max_prev_context", "max_next": "max_next_context"}
        context = {"policy": "document", **{name: values.get(theirs) for name, theirs in limit_names.items()}}
    prefix, suffix = special_tokens(tokenizer)
    config = ModelConfig(
        labels=labels,
        entity_max_length=values.get("entity_max_length"),  # type: ignore[arg-type]  # checked below
        max_tokens=min(limits),
        position_offset=_POSITION_OFFSET,
        prefix=prefix,
        suffix=suffix,
        unknown_id=_unknown_id(tokenizer, tokenizer_values),
        start_marker_id=start_marker,
        end_marker_id=end_marker,
        encoder=encoder_facts(encoder),
        splitter="tokenizer.v1",
        context=read_context(context),
        facts={
            "description": "Imported from a checkpoint of the span_marker library.",
            "span_marker_version": values.get("span_marker_version"),
        },
    )
    check_config(config)
    return config


def _limit(values: dict[str, Any], name: str, default: int) -> int:
    """Return a limit in tokens. Tokenizers without a limit state 10^30."""
    limit = values.get(name)
    if limit is None:
        return default
    if type(limit) not in (int, float) or not limit >= 1:
        raise UnusableError(f"{name} is {limit!r}, not a number of tokens")
    return int(min(limit, _NO_LIMIT))


def _labels(values: dict[str, Any], n_labels: int) -> list[str]:
    """Return the classifier's labels in order.

    The library stores reduced labels (PER for B-PER and I-PER) at the top level of the config, and labels that had no
    prefix in the encoder's config.
    """
    indices = [str(index) for index in range(n_labels)]
    for place in (values, values["encoder"]):
        names = place.get("id2label")
        if isinstance(names, dict) and set(names) == set(indices):
            labels = [names[index] for index in indices]
            if labels != [f"LABEL_{index}" for index in indices]:
                return labels
    raise UnusableError(f"its config has no labels for the {n_labels} outputs of its classifier")


def _read_weights(source: Path) -> dict[str, Tensor]:
    for name in ("model.safetensors", "pytorch_model.bin"):
        weights: dict[str, Tensor] = {}
        for file in weight_files(source, name):
            with wrap_errors(f"{file.name} does not contain weights"):
                found = load_file(file) if file.suffix == ".safetensors" else torch.load(file, "cpu", weights_only=True)
                weights.update({key: value.float() for key, value in found.items()})
        if not weights:
            continue
        if "classifier.weight" not in weights or weights["classifier.weight"].dim() != 2:
            raise UnusableError("its weights have no classifier")
        if bad := not_finite(weights):
            raise UnusableError(f"its weight {bad[0]} contains {bad[1]} values that are not finite")
        return weights
    raise UnusableError("it has neither model.safetensors nor pytorch_model.bin")


def _embedding_rows(weights: dict[str, Tensor]) -> int:
    for name, weight in weights.items():
        if name.endswith("embeddings.word_embeddings.weight") and weight.dim() == 2:
            return len(weight)
    raise UnusableError("its weights have no word embeddings")


def _read_tokenizer(source: Path, encoder_type: object) -> Tokenizer:
    """Return the tokenizer in the state in which the library uses it."""
    if (source / "tokenizer.json").is_file():
        with wrap_errors("cannot read tokenizer.json"):
            tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    else:
        tokenizer = read_tokenizer(source).backend_tokenizer
    put_spaces_before_words(tokenizer)
    if encoder_type == "xlm-roberta":
        # A second Punctuation has no effect, so this is safe for a tokenizer saved with one.
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), tokenizer.pre_tokenizer])
    return tokenizer


def _unknown_id(tokenizer: Tokenizer, tokenizer_values: dict[str, Any]) -> int:
    token = tokenizer_values.get("unk_token")
    token = token.get("content") if isinstance(token, dict) else token
    unknown = tokenizer.token_to_id(token) if isinstance(token, str) else None
    if unknown is None:
        raise UnusableError("its tokenizer has no unknown token")
    return unknown
