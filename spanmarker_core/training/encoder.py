"""A new model around a pretrained encoder."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

from spanmarker_core.bundle import ModelConfig
from spanmarker_core.errors import CoreError
from spanmarker_core.models.span_marker import (
    SpanMarkerModel,
    check_encoder,
    max_window_tokens,
    native_position_offset,
)
from spanmarker_core.saving import encoder_facts
from spanmarker_core.training.settings import TrainingSettings

_MIN_WINDOW_TOKENS = 16


def new_model(
    encoder_path: str | Path, labels: Sequence[str], settings: TrainingSettings
) -> tuple[ModelConfig, nn.Module, Tokenizer]:
    """Build an untrained span-marker model on a pretrained encoder in a local folder.

    Args:
        encoder_path: a transformers encoder with a fast tokenizer.
        labels: entity types, without "O".
        settings: limits and policies that the bundle will carry.

    Returns:
        (config, network, tokenizer).

    Raises:
        CoreError: `encoder.*`.
    """
    encoder_config = AutoConfig.from_pretrained(encoder_path, trust_remote_code=False)
    if settings.encoder_layers is not None:
        encoder_config.num_hidden_layers = settings.encoder_layers
    # RoBERTa's vocabulary tells words by the space before them, which a list of words doesn't have.
    wrapped = AutoTokenizer.from_pretrained(encoder_path, add_prefix_space=True, trust_remote_code=False)
    if not wrapped.is_fast:
        raise CoreError("encoder.no_fast_tokenizer", path=encoder_path)
    encoder = AutoModel.from_pretrained(encoder_path, config=encoder_config, trust_remote_code=False)
    check_encoder(encoder)
    offset = native_position_offset(encoder.config)
    limit = max_window_tokens(encoder.config, offset)
    if settings.max_tokens > limit:
        raise CoreError("encoder.window_too_long", found=settings.max_tokens, limit=limit)
    if settings.max_tokens < _MIN_WINDOW_TOKENS:
        raise CoreError("encoder.window_too_short", found=settings.max_tokens, limit=_MIN_WINDOW_TOKENS)
    start_marker = encoder.get_input_embeddings().num_embeddings
    encoder.resize_token_embeddings(start_marker + 2, pad_to_multiple_of=8, mean_resizing=False)
    tokenizer = wrapped.backend_tokenizer
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
    )
    network = SpanMarkerModel(
        encoder,
        n_labels=len(config.labels),
        start_marker_id=config.start_marker_id,
        end_marker_id=config.end_marker_id,
        position_offset=offset,
    )
    return config, network, tokenizer


def special_tokens(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and after one text, such as ([CLS], [SEP])."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    around = tokenizer.encode("", add_special_tokens=True).ids
    middle = len(around) // 2
    return around[:middle], around[middle:]
