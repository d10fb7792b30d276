"""Properties of pretrained encoders: support of packed texts and markers, layers, position ids."""

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
        encoder: the encoder.
        purpose: the feature that needs them, for the message.

    Raises:
        UnusableError: the encoder has no list of layers (ALBERT, for example, runs one layer repeatedly).
    """
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == encoder.config.num_hidden_layers:
            return module
    raise UnusableError(f"{type(encoder).__name__} has no list of layers, which {purpose} requires")


def check_encoder(encoder: PreTrainedModel) -> None:
    """Check that an encoder supports packed texts and levitated markers, which all architectures require.

    Args:
        encoder: the encoder.

    Raises:
        CoreError: `encoder.no_position_ids`, with the reason.
    """
    config = encoder.config
    reason = None
    if "position_ids" not in inspect.signature(encoder.forward).parameters:
        reason = "it does not accept position ids, with which a marker points at its word"
    elif _is_decoder(encoder):
        reason = "it is a decoder, which does not see the words to the right"
    elif getattr(config, "relative_attention", False) or position_kind(config) != "absolute":
        reason = "its positions are relative, so position ids cannot place a marker on its word"
    elif not getattr(encoder, "_supports_attention_backend", False):
        reason = "its attention cannot be replaced through the attention interface of transformers"
    elif getattr(config, "local_attention", None) or _sliding_window(config):
        reason = "its local layers see only a few neighbours, and markers do not follow their windows"
    elif getattr(config, "trigram_input", False):
        reason = "its embeddings depend on the adjacent tokens, which a marker does not have"
    elif getattr(config, "num_key_value_heads", None) not in (None, config.num_attention_heads):
        reason = "its queries share keys and values, but levitated attention requires one of each per head"
    if reason:
        raise CoreError("encoder.no_position_ids", encoder=type(encoder).__name__, reason=reason)


def _sliding_window(config: PretrainedConfig) -> object:
    """Return a true value if a config limits attention to neighbours, in all layers or in some."""
    try:
        return getattr(config, "sliding_window", None)
    except RuntimeError:
        return "by layer"


def _is_decoder(encoder: PreTrainedModel) -> bool:
    """Return whether a model attends to previous words only.

    This is determined from its config and its attention modules; if neither indicates it, a model type is a decoder
    if transformers has a causal head for it and no masked head.
    """
    if getattr(encoder.config, "is_decoder", False):
        return True
    if any(getattr(module, "is_causal", False) for module in encoder.modules()):
        return True
    model_type = encoder.config.model_type
    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def position_kind(config: PretrainedConfig) -> str:
    """Return the kind of an encoder's positions: "absolute", or another kind that markers can't use.

    Args:
        config: the encoder's config.
    """
    if getattr(config, "max_position_embeddings", None) is None:
        return "none"
    return getattr(config, "position_embedding_type", None) or "absolute"


def native_position_offset(encoder: PreTrainedModel) -> int:
    """Return the position id of the first token in the encoder's pretraining.

    RoBERTa and similar encoders reserve a position for padding and start after it; the others start at 0.

    Args:
        encoder: the encoder.
    """
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return module.padding_idx + 1
    return 0


def max_window_tokens(config: PretrainedConfig, position_offset: int) -> int:
    """Return the maximum number of tokens per window, special tokens included.

    Args:
        config: the encoder's config.
        position_offset: position id of a window's first token.
    """
    return config.max_position_embeddings - position_offset
