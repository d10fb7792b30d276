"""Pretrained encoders: which can read packed texts and carry markers, where their layers are, how they place tokens."""

import inspect

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from spanmarker_core.errors import CoreError, UnusableError


def encoder_layers(encoder: PreTrainedModel, purpose: str) -> nn.ModuleList:
    """Return the encoder's layers, first to last.

    Args:
        purpose: what needs them, for the message.

    Raises:
        UnusableError: if it has no list of layers, such as ALBERT, which runs one again and again.
    """
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == encoder.config.num_hidden_layers:
            return module
    raise UnusableError(f"{type(encoder).__name__} has no list of layers, which {purpose} takes")


def check_encoder(encoder: PreTrainedModel) -> None:
    """Refuse an encoder that can't read packed texts and carry levitated markers; all architectures ask for both.

    Raises:
        CoreError: `encoder.no_position_ids`, with what is missing.
    """
    config = encoder.config
    reason = None
    if "position_ids" not in inspect.signature(encoder.forward).parameters:
        reason = "it takes no position ids, which are how a marker points at its word"
    elif _is_decoder(encoder):
        reason = "it is a decoder, which doesn't see the words to the right"
    elif getattr(config, "relative_attention", False) or position_kind(config) != "absolute":
        reason = "its positions are relative, so position ids don't place a marker on its word"
    elif not getattr(encoder, "_supports_attention_backend", False):
        reason = "its attention can't be replaced through transformers' attention interface"
    elif getattr(config, "local_attention", None) or _sliding_window(config):
        reason = "its local layers see a few neighbours only, and markers would have to follow their windows"
    elif getattr(config, "trigram_input", False):
        reason = "its embeddings take in the tokens on either side, and a marker has none"
    elif getattr(config, "num_key_value_heads", None) not in (None, config.num_attention_heads):
        reason = "its queries share keys and values, which levitated attention keeps one a head"
    if reason:
        raise CoreError("encoder.no_position_ids", encoder=type(encoder).__name__, reason=reason)


def _sliding_window(config: PretrainedConfig) -> object:
    """Return what a config says of the neighbours that its layers see; one that says it layer by layer has some."""
    try:
        return getattr(config, "sliding_window", None)
    except RuntimeError:
        return "by layer"


def _is_decoder(encoder: PreTrainedModel) -> bool:
    """Say whether a model was made to see the words to the left only.

    By its config, by its attention, and, for attention that doesn't say, by having a causal head in transformers
    and no masked one.
    """
    if getattr(encoder.config, "is_decoder", False):
        return True
    if any(getattr(module, "is_causal", False) for module in encoder.modules()):
        return True
    model_type = encoder.config.model_type
    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def position_kind(config: PretrainedConfig) -> str:
    """Return how an encoder places tokens: `absolute`, or another kind that markers can't use."""
    if getattr(config, "max_position_embeddings", None) is None:
        return "none"
    return getattr(config, "position_embedding_type", None) or "absolute"


def native_position_offset(encoder: PreTrainedModel) -> int:
    """Return the position id that this encoder gave its first token in pretraining.

    RoBERTa and its kin have a position for padding and count from the one after it; the others count from 0.
    """
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return module.padding_idx + 1
    return 0


def max_window_tokens(config: PretrainedConfig, position_offset: int) -> int:
    """Return how many tokens fit the encoder's positions, special tokens included."""
    return config.max_position_embeddings - position_offset
