"""Initialisation of a new model from a pretrained encoder."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModel, PreTrainedModel

from spanmarker_core.architectures.options import MarkerOptions
from spanmarker_core.architectures.registry import architecture
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.config_checks import check_config, check_entity_fits, check_vocabulary
from spanmarker_core.bundle.pretrained import (
    encoder_config,
    not_finite,
    put_spaces_before_words,
    quiet_transformers,
    read_json,
    read_tokenizer,
    weight_files,
)
from spanmarker_core.bundle.repositories import find_encoder
from spanmarker_core.bundle.writer import encoder_facts
from spanmarker_core.errors import CoreError, UnusableError, as_core_error, wrap_errors
from spanmarker_core.models.encoders import check_encoder, max_window_tokens, native_position_offset
from spanmarker_core.models.gate import GATE_WIDTH
from spanmarker_core.models.probe import check_states
from spanmarker_core.training.settings import PackingFields, TrainingSettings
from spanmarker_core.windows.packer import Packer


def new_model(
    encoder_path: str | Path, labels: Sequence[str], settings: TrainingSettings
) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    """Build an untrained model on a pretrained encoder.

    Args:
        encoder_path: folder of a transformers encoder (safetensors) with a fast tokenizer, or its repository on the
            hub, "owner/name" or "owner/name@revision".
        labels: entity labels, without "O".
        settings: limits and policies of the bundle.

    Returns:
        (config, network, tokenizer).

    Raises:
        CoreError: `encoder.not_found`, `encoder.unreadable`, `encoder.no_fast_tokenizer`, `encoder.no_position_ids`,
            `encoder.not_independent`, `encoder.too_few_layers`, `encoder.too_many_pair_layers`,
            `encoder.entity_too_long`, `encoder.window_too_long`, `training.contradiction`.
    """
    path = find_encoder(encoder_path).path
    with as_core_error("encoder.unreadable", path=path):
        return _new_model(path, labels, settings)


def encoder_packer(encoder_path: str | Path, settings: PackingFields) -> Packer:
    """Return the packer of a new model on an encoder; reads its tokenizer and config, but not its weights.

    Args:
        encoder_path: folder of the encoder, or its repository, as in `new_model`.
        settings: limits and policies of the bundle.

    Raises:
        CoreError: `encoder.not_found`, `encoder.unreadable`, `encoder.no_fast_tokenizer`, `encoder.entity_too_long`,
            `encoder.window_too_long`.
    """
    path = find_encoder(encoder_path, weights=False).path
    with as_core_error("encoder.unreadable", path=path):
        config = encoder_config(read_json(path / "config.json"))
        with torch.device("meta"), wrap_errors("cannot build an encoder from its config"):
            encoder = AutoModel.from_config(config)
        return _packer(path, encoder, settings)


def _packer(path: Path, encoder: PreTrainedModel, settings: PackingFields) -> Packer:
    wrapped = read_tokenizer(path)
    tokenizer = wrapped.backend_tokenizer
    check_vocabulary(tokenizer, encoder.get_input_embeddings().num_embeddings)
    put_spaces_before_words(tokenizer)
    if wrapped.unk_token_id is None:
        raise UnusableError("its tokenizer has no unknown token")
    limit = max_window_tokens(encoder.config, native_position_offset(encoder))
    if settings.max_tokens > limit:
        raise CoreError("encoder.window_too_long", found=settings.max_tokens, limit=limit)
    prefix, suffix = special_tokens(tokenizer)
    check_entity_fits(settings.entity_max_length, settings.max_tokens, len(prefix) + len(suffix))
    return Packer(
        tokenizer,
        prefix=prefix,
        suffix=suffix,
        unknown_id=wrapped.unk_token_id,
        max_tokens=settings.max_tokens,
        entity_max_length=settings.entity_max_length,
        splitter=settings.splitter,
    )


def _new_model(
    path: Path, labels: Sequence[str], settings: TrainingSettings
) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    encoder = _read_encoder(path, settings.encoder_layers)
    check_encoder(encoder)
    if settings.pair_layers is not None and settings.pair_layers > encoder.config.num_hidden_layers:
        raise CoreError(
            "encoder.too_many_pair_layers", found=settings.pair_layers, limit=encoder.config.num_hidden_layers
        )
    options = settings.architecture_options
    if problem := options.encoder_problem(encoder.config.num_hidden_layers):
        raise CoreError("training.contradiction", problems=problem)
    packer = _packer(path, encoder, settings)
    markers: tuple[int, int] | tuple[None, None] = (None, None)
    if isinstance(options, MarkerOptions):
        first = encoder.get_input_embeddings().num_embeddings
        encoder.resize_token_embeddings(first + 2, pad_to_multiple_of=8, mean_resizing=False)
        _start_markers(encoder, first, path, options.marker_init)
        markers = (first, first + 1)
    config = ModelConfig(
        labels=["O", *labels],
        entity_max_length=settings.entity_max_length,
        max_tokens=settings.max_tokens,
        position_offset=native_position_offset(encoder),
        prefix=packer.prefix.tolist(),
        suffix=packer.suffix.tolist(),
        unknown_id=packer.unknown_id,
        start_marker_id=markers[0],
        end_marker_id=markers[1],
        encoder=encoder_facts(encoder.config),
        splitter=settings.splitter,
        context=settings.shown,
        decoder=settings.decoder,
        architecture=settings.architecture,
        options=options.non_defaults(),
        pair_layers=settings.pair_layers,
        # The best threshold is determined after training.
        gate=_new_gate(settings) if settings.gate else None,
    )
    check_config(config)
    network = architecture(settings.architecture)(encoder, config)
    check_states(network, packer.tokenizer, config.prefix, config.suffix)
    return config, network, packer.tokenizer


def _new_gate(settings: TrainingSettings) -> dict[str, object]:
    ends = {} if settings.gate_ends else {"ends": False}
    return {"trained": "joint", "width": GATE_WIDTH, "threshold": 0.5, "curve": [], **ends}


def _read_encoder(path: Path, layers: int | None) -> PreTrainedModel:
    """Return the pretrained encoder, or its first `layers` layers, with float32 weights."""
    config = encoder_config(read_json(path / "config.json"))
    if layers is not None:
        if layers > config.num_hidden_layers:
            raise CoreError("encoder.too_few_layers", found=layers, limit=config.num_hidden_layers, path=path)
        config.num_hidden_layers = layers
    if not weight_files(path, "model.safetensors"):
        raise UnusableError(
            "it has no model.safetensors. Pickled weights (pytorch_model.bin) are not supported: load them with "
            "transformers and save them with save_pretrained"
        )
    with quiet_transformers(), wrap_errors("cannot load its weights"):
        encoder, found = AutoModel.from_pretrained(
            path,
            config=config,
            dtype=torch.float32,
            attn_implementation="eager",
            trust_remote_code=False,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    if missing := sorted(name for name in found["missing_keys"] if not name.startswith("pooler.")):
        raise UnusableError(f"its weights lack {', '.join(missing[:5])}")
    if bad := not_finite(encoder.state_dict()):
        raise UnusableError(f"its weight {bad[0]} contains {bad[1]} values that are not finite")
    return encoder


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after a text, such as ([CLS], [SEP]).

    Args:
        tokenizer: a tokenizer; its truncation and padding are switched off.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    around = tokenizer.encode("", add_special_tokens=True).ids
    middle = len(around) // 2
    return around[:middle], around[middle:]


def _start_markers(encoder: PreTrainedModel, first_new: int, path: Path, marker_init: str) -> None:
    """Initialise new embedding rows, of which the first two are `<start>` and `<end>`.

    `mean`: the mean of the old rows, which has a small norm: a marker conveys its position. Random rows are noise that
    training must first unlearn: on wnut17 (1,200 sentences, 300 steps, 3 layers of MiniLM) F1 on dev was 34.8 with
    random rows and 44.5 with the mean, one seed each. `mask_and_entity`: the rows of the mask token and of the word
    "entity", the latter averaged over its tokens if it has several (PL-Marker; thesis 3.5, 4b).
    """
    with torch.no_grad():
        rows = encoder.get_input_embeddings().weight
        rows[first_new:] = rows[:first_new].mean(dim=0)
        if marker_init == "mask_and_entity":
            tokenizer = read_tokenizer(path)
            if tokenizer.mask_token_id is None:
                raise UnusableError(
                    "its tokenizer has no mask token, which option marker_init mask_and_entity requires"
                )
            put_spaces_before_words(tokenizer.backend_tokenizer)
            word = tokenizer.backend_tokenizer.encode(["entity"], is_pretokenized=True, add_special_tokens=False)
            rows[first_new], rows[first_new + 1] = rows[tokenizer.mask_token_id], rows[word.ids].mean(dim=0)
