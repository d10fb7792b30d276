"""Imports a checkpoint of the `span_marker` library as a self-contained bundle.

The library's folder holds a config with `model_type: "span-marker"` and the encoder's config nested in
it, weights as safetensors or `.bin`, and a tokenizer with `<start>` and `<end>`. It offsets position
ids by 2 for every encoder, splits raw strings by the tokenizer's own pre-tokenizer, and for
XLM-RoBERTa splits punctuation off first. Nothing is fetched and no code of the checkpoint is run;
`.bin` files are read as weights only.
"""

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer, pre_tokenizers
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer

from spanmarker_core.bundle import ModelConfig
from spanmarker_core.errors import CoreError
from spanmarker_core.model_card import model_card
from spanmarker_core.models.span_marker import max_window_tokens
from spanmarker_core.saving import check_output, encoder_facts, save_bundle
from spanmarker_core.tagger import build_network
from spanmarker_core.training.encoder import special_tokens
from spanmarker_core.windows import Context

_POSITION_OFFSET = 2
_DEFAULT_MAX_TOKENS = 512


def import_span_marker(source: str | Path, output: str | Path) -> str:
    """Write the checkpoint in folder `source` as a bundle; return the model's digest.

    Raises:
        CoreError: `checkpoint.not_span_marker`, `checkpoint.no_outside_label`, `bundle.output_exists`,
            `encoder.*`.
    """
    source = Path(source)
    check_output(output)
    values = _read_json(source / "config.json", source)
    if values.get("model_type") != "span-marker" or not isinstance(values.get("encoder"), dict):
        found = values.get("model_type")
        raise CoreError(
            "checkpoint.not_span_marker",
            path=source,
            problem=f"its config says model_type {found!r}, not 'span-marker'",
        )
    weights = _read_weights(source)
    labels = _labels(values, len(weights["classifier.weight"]), source)
    tokenizer = _read_tokenizer(source, values["encoder"].get("model_type"))
    markers = [id_ for id_ in map(tokenizer.token_to_id, ("<start>", "<end>")) if id_ is not None]
    if len(markers) < 2:
        raise CoreError("checkpoint.not_span_marker", path=source, problem="its tokenizer has no <start> and <end>")
    config = _config(source, values, labels, tokenizer, markers, vocabulary=_embedding_rows(weights, source))
    network = build_network(config)
    expected = network.state_dict()
    # Poolers and buffers of older transformers are not part of the model.
    missing = sorted(name for name in expected if name not in weights)
    if missing:
        raise CoreError("checkpoint.not_span_marker", path=source, problem=f"it lacks weights {', '.join(missing[:5])}")
    other = sorted(name for name, weight in expected.items() if weight.shape != weights[name].shape)
    if other:
        problem = f"its weights have other shapes than its config says: {', '.join(other[:5])}"
        raise CoreError("checkpoint.not_span_marker", path=source, problem=problem)
    network.load_state_dict({name: weights[name] for name in expected})
    return save_bundle(output, config, network, tokenizer, model_card(config))


def _config(
    source: Path,
    values: dict[str, Any],
    labels: list[str],
    tokenizer: Tokenizer,
    markers: list[int],
    vocabulary: int,
) -> ModelConfig:
    encoder = dict(values["encoder"])
    encoder["vocab_size"] = vocabulary
    try:
        encoder_config = AutoConfig.for_model(encoder.pop("model_type"), **encoder)
    except (ValueError, TypeError) as error:
        problem = f"its encoder's config can't be used ({error})"
        raise CoreError("checkpoint.not_span_marker", path=source, problem=problem) from error
    entity_max_length = values.get("entity_max_length")
    if type(entity_max_length) is not int or entity_max_length < 1:
        problem = f"its config says entity_max_length {entity_max_length!r}"
        raise CoreError("checkpoint.not_span_marker", path=source, problem=problem)
    tokenizer_values = _read_json(source / "tokenizer_config.json", source)
    limits = [
        values.get("model_max_length") or _DEFAULT_MAX_TOKENS,
        max_window_tokens(encoder_config, _POSITION_OFFSET),
    ]
    if isinstance(tokenizer_values.get("model_max_length"), int):
        limits.append(tokenizer_values["model_max_length"])
    context = Context()
    if values.get("trained_with_document_context"):
        context = Context("document", values.get("max_prev_context"), values.get("max_next_context"))
    prefix, suffix = special_tokens(tokenizer)
    return ModelConfig(
        labels=labels,
        entity_max_length=entity_max_length,
        max_tokens=min(limits),
        position_offset=_POSITION_OFFSET,
        prefix=prefix,
        suffix=suffix,
        unknown_id=_unknown_id(tokenizer, tokenizer_values, source),
        start_marker_id=markers[0],
        end_marker_id=markers[1],
        encoder=encoder_facts(encoder_config),
        splitter="tokenizer.v1",
        context=context,
        facts={
            "description": "Imported from a checkpoint of the span_marker library.",
            "span_marker_version": values.get("span_marker_version"),
        },
    )


def _labels(values: dict[str, Any], n_labels: int, source: Path) -> list[str]:
    """Return the classifier's labels in order.

    The library keeps reduced labels (PER for B-PER and I-PER) at the top and those that had no prefix in
    the encoder's config.
    """
    for place in (values, values["encoder"]):
        names = {int(index): name for index, name in (place.get("id2label") or {}).items()}
        if sorted(names) == list(range(n_labels)) and not _is_default(names):
            labels = [names[index] for index in range(n_labels)]
            if "O" not in labels:
                raise CoreError("checkpoint.no_outside_label", labels=", ".join(labels))
            return labels
    problem = f"its config names no labels for the {n_labels} outputs of its classifier"
    raise CoreError("checkpoint.not_span_marker", path=source, problem=problem)


def _is_default(names: dict[int, str]) -> bool:
    return all(name == f"LABEL_{index}" for index, name in names.items())


def _read_weights(source: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = source / f"{name}.index.json"
        files = sorted(set(_read_json(index, source)["weight_map"].values())) if index.is_file() else [name]
        if not all((source / file).is_file() for file in files):
            continue
        for file in files:
            weights.update({key: value.float() for key, value in _read_file(source / file, source).items()})
        if "classifier.weight" not in weights:
            raise CoreError("checkpoint.not_span_marker", path=source, problem="its weights have no classifier")
        return weights
    raise CoreError(
        "checkpoint.not_span_marker",
        path=source,
        problem="it holds no model.safetensors and no pytorch_model.bin",
    )


def _read_file(path: Path, source: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        problem = f"{path.name} can't be read as weights ({reason})"
        raise CoreError("checkpoint.not_span_marker", path=source, problem=problem) from error


def _embedding_rows(weights: dict[str, Tensor], source: Path) -> int:
    for name, weight in weights.items():
        if name.endswith("embeddings.word_embeddings.weight"):
            return len(weight)
    raise CoreError("checkpoint.not_span_marker", path=source, problem="its weights have no word embeddings")


def _read_tokenizer(source: Path, encoder_type: str) -> Tokenizer:
    """Return the tokenizer as the library would have it after loading."""
    if (source / "tokenizer.json").is_file():
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    else:
        wrapped = AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=True)
        if not wrapped.is_fast:
            raise CoreError("encoder.no_fast_tokenizer", path=source)
        tokenizer = wrapped.backend_tokenizer
    if isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        tokenizer.pre_tokenizer.add_prefix_space = True
    elif encoder_type == "xlm-roberta":
        # A second Punctuation in front changes nothing, so a tokenizer saved with one is safe.
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), tokenizer.pre_tokenizer])
    return tokenizer


def _unknown_id(tokenizer: Tokenizer, tokenizer_values: dict[str, Any], source: Path) -> int:
    token = tokenizer_values.get("unk_token")
    token = token.get("content") if isinstance(token, dict) else token
    unknown = tokenizer.token_to_id(token) if token else None
    if unknown is None:
        raise CoreError("checkpoint.not_span_marker", path=source, problem="its tokenizer names no unknown token")
    return unknown


def _read_json(path: Path, source: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"{path.name} can't be read ({error})"
        raise CoreError("checkpoint.not_span_marker", path=source, problem=problem) from error
    if not isinstance(values, dict):
        raise CoreError("checkpoint.not_span_marker", path=source, problem=f"{path.name} is not a JSON object")
    return values
