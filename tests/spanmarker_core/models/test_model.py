"""The fast path against a plain dense reference: one padded row a window, a square mask, eager attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from spanmarker_core.architectures.registry import ARCHITECTURES, architecture
from spanmarker_core.bundle.config import packer_of
from spanmarker_core.errors import CoreError, UnusableError
from spanmarker_core.inference.batching import BatchPlan
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.encoders import check_encoder, native_position_offset
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.windows.packer import Context
from tests.support.tiny import FAMILIES, tiny_model

SENTENCES = [
    ["Barack", "Obama", "flew", "to", "Paris", "on", "the", "4th", "of", "May"],
    ["Zürich"],
    ["he", "was", "in", "New", "York", "for", "it"],
    ["the", "city", "of", "London"],
    [
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "h",
        "i",
        "j",
        "k",
        "l",
        "m",
        "n",
        "o",
        "p",
        "q",
        "r",
        "s",
        "t",
        "u",
        "v",
        "w",
        "x",
        "y",
        "z",
    ],
]


def setup(family, **overrides):
    config, network, tokenizer = tiny_model(family, **overrides)
    return config, network, packer_of(config, tokenizer)


def batch_of(windows, config):
    return Batch.build(windows, candidate_spans(windows, config.entity_max_length))


def dense_encoder(network: SpanMarkerModel, config):
    """The network's encoder with transformers' own attention."""
    values = dict(config.encoder)
    encoder = AutoModel.from_config(
        AutoConfig.for_model(values.pop("model_type"), **values), attn_implementation="eager"
    ).eval()
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    encoder.load_state_dict(network.encoder.state_dict())
    return encoder


def dense_logits(network: SpanMarkerModel, config, batch: Batch, encoder=None) -> torch.Tensor:
    """The same scores the slow way: text and all markers in one row, padded to the longest, square mask."""
    encoder = encoder or dense_encoder(network, config)
    rows, longest = [], 0
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]]
        spans = slice(batch.spans.offsets[window], batch.spans.offsets[window + 1])
        first, last = (torch.from_numpy(x[spans]).long() for x in (batch.spans.first_token, batch.spans.last_token))
        rows.append((text, first, last))
        longest = max(longest, len(text) + 2 * len(rows[-1][1]))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    positions = torch.full_like(ids, config.position_offset)
    allowed = torch.zeros(len(rows), longest, longest, dtype=torch.bool)
    for row, (text, first, last) in enumerate(rows):
        t, s = len(text), len(first)
        ids[row, :t] = text
        ids[row, t : t + s], ids[row, t + s : t + 2 * s] = config.start_marker_id, config.end_marker_id
        positions[row, :t] = torch.arange(t) + config.position_offset
        positions[row, t : t + s] = first + config.position_offset
        positions[row, t + s : t + 2 * s] = last + config.position_offset
        allowed[row, : t + 2 * s, :t] = True
        marker = torch.arange(t, t + s)
        for a, b in ((0, 0), (0, s), (s, 0), (s, s)):
            allowed[row, marker + a, marker + b] = True
        padding = torch.arange(t + 2 * s, longest)
        allowed[row, padding, padding] = True
    mask = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[:, None]
    states = encoder(input_ids=ids, position_ids=positions, attention_mask=mask).last_hidden_state
    features = []
    for row, (text, first, _) in enumerate(rows):
        t, s = len(text), len(first)
        features.append(torch.cat([states[row, t : t + s], states[row, t + s : t + 2 * s]], dim=-1))
    return network.classifier(torch.cat(features))


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_dense_reference(family):
    config, network, packer = setup(family)
    windows = packer.pack(packer.encode_words(SENTENCES), Context("document", 1, 1))
    batch = batch_of(windows, config)
    with torch.no_grad():
        expected = dense_logits(network, config, batch)
        found = network(batch).logits
    assert len(found) > 100
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_offset_of_published_checkpoints_equals_dense_reference(family):
    config, network, packer = setup(family, position_offset=2)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        torch.testing.assert_close(network(batch).logits, dense_logits(network, config, batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pairs", [1, 2, 7, 64, 10_000])
def test_chunking_changes_nothing(pairs):
    config, network, packer = setup("bert")
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        torch.testing.assert_close(network(batch, spans_a_chunk=pairs).logits, network(batch).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("budget", [1, 100, 400, 10_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_batch_composition_and_order_change_nothing(budget, seed):
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words(SENTENCES), Context("document"))
    with torch.no_grad():
        whole = network(batch_of(windows, config)).logits
    offsets = candidate_spans(windows, config.entity_max_length).offsets
    shuffled = np.random.default_rng(seed).permutation(len(windows))
    seen = []
    for indices in BatchPlan(windows.take(shuffled), config.entity_max_length, budget):
        members = shuffled[indices]
        with torch.no_grad():
            part = network(batch_of(windows.take(members), config)).logits
        expected = torch.cat([whole[offsets[i] : offsets[i + 1]] for i in members])
        torch.testing.assert_close(part, expected, atol=1e-5, rtol=0)
        seen += members.tolist()
    assert sorted(seen) == list(range(len(windows)))


def test_markers_do_not_change_the_text_and_spans_do_not_see_each_other():
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words(SENTENCES[:1]), Context())
    batch = batch_of(windows, config)
    one = replace(batch, spans=batch.spans.take(np.array([3])))
    with torch.no_grad():
        torch.testing.assert_close(network(one).logits[0], network(batch).logits[3], atol=1e-5, rtol=0)


def test_gradient_reaches_every_parameter():
    config, network, packer = setup("bert")
    network.train()
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    network(batch).logits.square().sum().backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []


def test_no_spans_gives_no_rows():
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words([["\u2063"]]), Context())
    assert network(batch_of(windows, config)).logits.shape == (0, len(config.labels))


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
        ("bert", 0),
        ("electra", 0),
        ("distilbert", 0),
        ("albert", 0),
        ("roberta", 2),
        ("xlm-roberta", 2),
        ("camembert", 2),
        ("data2vec-text", 2),
        ("xlm-roberta-xl", 2),
        ("roberta-prelayernorm", 2),
        ("xmod", 2),
        ("esm", 2),
    ],
)
def test_position_of_the_first_token_is_that_of_pretraining(family, offset):
    """What the encoder itself would give the first token, seen by what changes with the row of that position."""
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


def test_every_architecture_is_there():
    for name in ARCHITECTURES:
        assert callable(architecture(name).from_config)
