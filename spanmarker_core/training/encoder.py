"""A new model around a pretrained encoder."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoModel, PreTrainedModel

from spanmarker_core.bundle import ModelConfig
from spanmarker_core.config_checks import MIN_WINDOW_TOKENS, check_config, check_vocabulary
from spanmarker_core.errors import CoreError, UnusableError, refusing, unusable
from spanmarker_core.gate import GATE_WIDTH
from spanmarker_core.models.span_marker import (
    SpanMarkerModel,
    check_encoder,
    max_window_tokens,
    native_position_offset,
)
from spanmarker_core.pretrained import (
    encoder_config,
    not_finite,
    put_spaces_before_words,
    quiet_transformers,
    read_json,
    read_tokenizer,
    weight_files,
)
from spanmarker_core.saving import encoder_facts
from spanmarker_core.training.settings import TrainingSettings


def new_model(
    encoder_path: str | Path, labels: Sequence[str], settings: TrainingSettings
) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    """Build an untrained span-marker model on a pretrained encoder in a local folder.

    Args:
        encoder_path: a transformers encoder (safetensors) with a fast tokenizer.
        labels: entity types, without "O".
        settings: limits and policies that the bundle will carry.

    Returns:
        (config, network, tokenizer).

    Raises:
        CoreError: `encoder.*`, with what is wrong with the encoder, the limits or the labels.
    """
    path = Path(encoder_path)
    if not path.is_dir():
        raise CoreError("encoder.not_found", path=path)
    with refusing("encoder.unreadable", path=path):
        return _new_model(path, labels, settings)


def _new_model(
    path: Path, labels: Sequence[str], settings: TrainingSettings
) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    encoder = _read_encoder(path, settings.encoder_layers)
    check_encoder(encoder)
    if settings.pair_layers is not None and not 0 <= settings.pair_layers <= encoder.config.num_hidden_layers:
        raise CoreError(
            "encoder.too_many_pair_layers", found=settings.pair_layers, limit=encoder.config.num_hidden_layers
        )
    wrapped = read_tokenizer(path)
    tokenizer = wrapped.backend_tokenizer
    start_marker = encoder.get_input_embeddings().num_embeddings
    check_vocabulary(tokenizer, start_marker)
    put_spaces_before_words(tokenizer)
    if wrapped.unk_token_id is None:
        raise UnusableError("its tokenizer names no unknown token")
    offset = native_position_offset(encoder)
    limit = max_window_tokens(encoder.config, offset)
    if settings.max_tokens > limit:
        raise CoreError("encoder.window_too_long", found=settings.max_tokens, limit=limit)
    if settings.max_tokens < MIN_WINDOW_TOKENS:
        raise CoreError("encoder.window_too_short", found=settings.max_tokens, limit=MIN_WINDOW_TOKENS)
    encoder.resize_token_embeddings(start_marker + 2, pad_to_multiple_of=8, mean_resizing=False)
    _start_markers_from_the_mean(encoder, start_marker)
    prefix, suffix = special_tokens(tokenizer)
    config = ModelConfig(
        labels=["O", *labels],
        entity_max_length=settings.entity_max_length,
        max_tokens=settings.max_tokens,
        position_offset=offset,
        prefix=prefix,
        suffix=suffix,
        unknown_id=wrapped.unk_token_id,
        start_marker_id=start_marker,
        end_marker_id=start_marker + 1,
        encoder=encoder_facts(encoder.config),
        splitter=settings.splitter,
        context=settings.context,
        pair_layers=settings.pair_layers,
        # Which threshold is best is seen when the model is trained.
        gate={"trained": "joint", "width": GATE_WIDTH, "threshold": 0.5, "curve": []} if settings.gate else None,
    )
    check_config(config)
    network = SpanMarkerModel(
        encoder,
        n_labels=len(config.labels),
        start_marker_id=config.start_marker_id,
        end_marker_id=config.end_marker_id,
        position_offset=offset,
        pair_layers=config.pair_layers,
        gate_width=None if config.gate is None else config.gate["width"],
    )
    return config, network, tokenizer


def _read_encoder(path: Path, layers: int | None) -> PreTrainedModel:
    """Return the pretrained encoder, or its first `layers` layers, with weights in float32."""
    config = encoder_config(read_json(path / "config.json"))
    if layers is not None:
        if not 1 <= layers <= config.num_hidden_layers:
            raise CoreError("encoder.too_few_layers", found=layers, limit=config.num_hidden_layers, path=path)
        config.num_hidden_layers = layers
    if not weight_files(path, "model.safetensors"):
        raise UnusableError(
            "it has no model.safetensors. Pickled weights (pytorch_model.bin) are not read: "
            "load them with transformers and save them with save_pretrained"
        )
    with quiet_transformers(), unusable("its weights can't be loaded"):
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
        raise UnusableError(f"its weight {bad[0]} holds {bad[1]} values that are not finite")
    return encoder


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and after one text, such as ([CLS], [SEP])."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    around = tokenizer.encode("", add_special_tokens=True).ids
    middle = len(around) // 2
    return around[:middle], around[middle:]


def _start_markers_from_the_mean(encoder: PreTrainedModel, first_new: int) -> None:
    """Give new embedding rows the mean of the old ones, which is short: what a marker shows is its position.

    A random row is noise that training must first unlearn: on wnut17 (1,200 sentences, 300 steps, 3 layers of
    MiniLM) F1 on dev was 34.8 with random rows and 44.5 with the mean, one seed each.
    """
    with torch.no_grad():
        rows = encoder.get_input_embeddings().weight
        rows[first_new:] = rows[:first_new].mean(dim=0)
