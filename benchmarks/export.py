"""Export of a bundle in the formats of the other contestants: `span_marker` 1.8.1 and transformers.

`span_marker` gives the first text token position id 2 for all encoders. If the bundle's first token has another id, the
position table is shifted by the difference, so that both add the same row to the same token. The table grows by the
same number of rows, so that the length of windows is unchanged.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from torch import Tensor

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.reader import CONFIG, TOKENIZER, WEIGHTS, read_config, read_info, write_digests

#: Encoder families that `span_marker` supports: it passes token type ids to all encoders.
FAMILIES = ("bert", "roberta", "xlm-roberta", "electra")

SPAN_MARKER_POSITION = 2  # position of the first text token in span_marker
MARKERS_A_SAMPLE = 128  # span_marker's default, also used in its published checkpoints
_MARKERS = ("<start>", "<end>")


class ExportError(Exception):
    """A bundle cannot be exported; the message is the reason."""


@dataclass(frozen=True)
class _Parts:
    """The parts of a bundle.

    Attributes:
        config: the model config.
        weights: tensors by name.
        tokenizer: the tokenizer.
    """

    config: ModelConfig
    weights: dict[str, Tensor]
    tokenizer: Tokenizer


def with_limits(bundle: Path, output: Path, **limits: int) -> Path:
    """Copy a bundle with another `max_tokens` or `entity_max_length`; the weights do not depend on them.

    Args:
        bundle: folder of the bundle.
        output: folder for the copy.
        limits: the new values.
    """
    values = json.loads((bundle / CONFIG).read_text(encoding="utf-8"))
    # Rejects limits that the encoder does not support
    config = read_config(json.dumps({**values, **limits}), str(bundle))
    shutil.copytree(bundle, output, dirs_exist_ok=True)
    (output / CONFIG).write_text(config.to_json(), encoding="utf-8")
    write_digests(output)
    return output


def export_span_marker(bundle: Path, output: Path) -> Path:
    """Write a bundle as a checkpoint of `span_marker` 1.8.1 to `output/checkpoint`.

    The encoder's config and tokenizer go to `output/encoder`. The checkpoint refers to that folder by path, so the
    output cannot be moved afterwards.

    Args:
        bundle: folder of the bundle.
        output: folder for the export.

    Raises:
        ExportError: span_marker cannot represent the model.
    """
    parts = _read(bundle)
    _check_span_marker_runs(parts.config)
    weights, tokenizer, rows = _vocabulary_with_markers(parts)
    shift = SPAN_MARKER_POSITION - parts.config.position_offset
    weights = _move_positions(weights, shift)
    checkpoint, encoder = output / "checkpoint", output / "encoder"
    encoder_values = {
        **parts.config.encoder,
        "_name_or_path": str(encoder.absolute()),
        "vocab_size": rows,
        "max_position_embeddings": parts.config.encoder["max_position_embeddings"] + shift,
        **_label_maps(parts.config.labels),
    }
    values = {
        "architectures": ["SpanMarkerModel"],
        "model_type": "span-marker",
        "encoder": encoder_values,
        "entity_max_length": parts.config.entity_max_length,
        "marker_max_length": MARKERS_A_SAMPLE,
        "max_prev_context": parts.config.context.max_prev,
        "max_next_context": parts.config.context.max_next,
        "model_max_length": parts.config.max_tokens,
        "span_marker_version": "1.8.1",
        "trained_with_document_context": parts.config.context.policy != "sentence",
        "vocab_size": rows,
        **_label_maps(parts.config.labels),
    }
    _write(checkpoint, values, weights, tokenizer, parts.config)
    _write(encoder, encoder_values, {}, tokenizer, parts.config)
    return checkpoint


def export_encoder(bundle: Path, output: Path) -> Path:
    """Write the encoder and the tokenizer of a bundle as a folder for transformers' Auto classes.

    Args:
        bundle: folder of the bundle.
        output: folder for the export.
    """
    parts = _read(bundle)
    # transformers saves an encoder without the prefix that its weights have in a larger model.
    weights = {
        name.removeprefix("encoder."): weight for name, weight in parts.weights.items() if name.startswith("encoder.")
    }
    _write(output, parts.config.encoder, weights, parts.tokenizer, parts.config)
    return output


def _read(bundle: Path) -> _Parts:
    info = read_info(bundle)
    weights = {name: weight.float() for name, weight in load_file(bundle / WEIGHTS).items()}
    return _Parts(info.config, weights, Tokenizer.from_file(str(bundle / TOKENIZER)))


def _check_span_marker_runs(config: ModelConfig) -> None:
    family = config.encoder["model_type"]
    if family not in FAMILIES:
        raise ExportError(f"span_marker runs encoders of the families {', '.join(FAMILIES)}, not {family}")
    if getattr(config, "pair_layers", None) is not None:
        raise ExportError("its markers pair in the top layers only, and span_marker's pair in every layer")
    if config.position_offset > SPAN_MARKER_POSITION:
        raise ExportError(f"its first token has position {config.position_offset}; span_marker's has 2")


def _vocabulary_with_markers(parts: _Parts) -> tuple[dict[str, Tensor], Tokenizer, int]:
    """Return (weights, tokenizer, rows) with markers as tokens; a bundle may have embedding rows for them only.

    The library adds `<start>` and `<end>` after the last token and resizes the embeddings to the tokenizer, in
    multiples of 8.
    """
    tokenizer = parts.tokenizer
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _MARKERS])
    n_tokens = tokenizer.get_vocab_size(with_added_tokens=True)
    rows = -(-n_tokens // 8) * 8
    name = next(name for name in parts.weights if name.endswith("embeddings.word_embeddings.weight"))
    ours = parts.weights[name]
    theirs = ours.new_zeros(rows, ours.shape[1])
    kept = min(rows, len(ours))
    theirs[:kept] = ours[:kept]
    for token, row in zip(_MARKERS, (parts.config.start_marker_id, parts.config.end_marker_id), strict=True):
        theirs[tokenizer.token_to_id(token)] = ours[row]
    weights = {key: value for key, value in parts.weights.items() if key.split(".")[0] in ("encoder", "classifier")}
    return {**weights, name: theirs}, tokenizer, rows


def _move_positions(weights: dict[str, Tensor], shift: int) -> dict[str, Tensor]:
    """Move the position table down by `shift` rows: row `p` becomes row `p + shift`. The new rows are zeros.

    >>> table = torch.tensor([[1.0], [2.0]])
    >>> _move_positions({"encoder.embeddings.position_embeddings.weight": table}, 2).popitem()[1].tolist()
    [[0.0], [0.0], [1.0], [2.0]]
    """
    name = next(name for name in weights if name.endswith("position_embeddings.weight"))
    table = weights[name]
    return {**weights, name: torch.cat([table.new_zeros(shift, table.shape[1]), table])}


def _label_maps(labels: list[str]) -> dict[str, Any]:
    return {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _write(
    folder: Path, values: dict[str, Any], weights: dict[str, Tensor], tokenizer: Tokenizer, config: ModelConfig
) -> None:
    """Write a folder in transformers' layout. The tokenizer is a generic fast one, which loads to the same result."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {
        "cls_token": config.prefix[0],
        "sep_token": config.suffix[-1],
        "pad_token": config.encoder.get("pad_token_id") or 0,
        "unk_token": config.unknown_id,
    }
    names = {name: tokenizer.id_to_token(index) for name, index in ids.items()}
    tokenizer_values = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.max_tokens, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_values, indent=1), encoding="utf-8")
    if weights:
        contiguous = {name: weight.contiguous() for name, weight in weights.items()}
        save_file(contiguous, str(folder / "model.safetensors"), metadata={"format": "pt"})
