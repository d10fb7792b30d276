"""Encoders that cannot carry markers, and the position of the first token in those that can."""

import pytest
import torch
from transformers import AutoConfig, AutoModel

from spanmarker_core.errors import CoreError, UnusableError
from spanmarker_core.models.encoders import check_encoder, native_position_offset
from spanmarker_core.models.span_marker import SpanMarkerModel
from tests.support.tiny import tiny_model

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 30,
    "max_position_embeddings": 64,
}


def encoder_of(family, **options):
    return AutoModel.from_config(AutoConfig.for_model(family, **{**TINY, **options}), attn_implementation="eager")


@pytest.mark.parametrize(
    ("family", "options", "reason"),
    [
        ("deberta-v2", {"relative_attention": True}, "relative"),
        ("t5", {}, "position ids"),
        ("bert", {"is_decoder": True}, "decoder"),
        ("bert", {"position_embedding_type": "relative_key"}, "relative"),
        ("llama", {}, "decoder"),
        ("qwen2", {}, "decoder"),
        ("gpt2", {}, "decoder"),
        ("opt", {"ffn_dim": 16, "word_embed_proj_dim": 16}, "decoder"),
        ("doge", {}, "decoder"),  # its attention doesn't say that it is causal
        ("eurobert", {"num_key_value_heads": 1, "pad_token_id": 1}, "share keys"),
        ("modernbert", {"pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "cls_token_id": 1}, "local"),
    ],
)
def test_refuses_encoders_that_cannot_carry_markers(family, options, reason):
    with pytest.raises(CoreError, match=reason) as caught:
        check_encoder(encoder_of(family, **options))
    assert caught.value.code == "encoder.no_position_ids"


@pytest.mark.parametrize(
    ("family", "offset"),
    [
        *((family, 0) for family in ("bert", "electra", "distilbert", "albert")),
        *((family, 2) for family in ("roberta", "xlm-roberta", "camembert", "data2vec-text", "xlm-roberta-xl")),
        *((family, 2) for family in ("roberta-prelayernorm", "xmod", "esm")),
    ],
)
def test_position_of_the_first_token_is_that_of_pretraining(family, offset):
    """Return the first token's position as the encoder itself assigns it, found by changing position embeddings."""
    options = {"pad_token_id": 1, "embedding_size": 16, "initializer_range": 0.5}
    if family == "distilbert":
        options |= {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
    if family == "xmod":
        options |= {"default_language": "en_XX", "languages": ["en_XX"]}
    encoder = encoder_of(family, **options).eval()
    check_encoder(encoder)
    assert native_position_offset(encoder) == offset
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        expected = encoder(input_ids=ids).last_hidden_state
        found = encoder(input_ids=ids, position_ids=torch.arange(3)[None] + offset).last_hidden_state
        elsewhere = encoder(input_ids=ids, position_ids=torch.arange(3)[None] + offset + 1).last_hidden_state
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(elsewhere, expected)


def test_an_encoder_that_cannot_run_is_refused_when_it_is_built():
    encoder = encoder_of("xmod", pad_token_id=1, languages=["en_XX"])  # without default_language
    with pytest.raises(UnusableError, match="language"):
        SpanMarkerModel(encoder, tiny_model()[0])
