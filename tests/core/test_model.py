"""The fast path against a plain dense reference: one padded row a window, a square mask, eager attention."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from spanmarker_core.batching import plan_batches
from spanmarker_core.bundle import packer_of
from spanmarker_core.errors import CoreError
from spanmarker_core.models import SpanMarkerModel
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.span_marker import check_encoder
from spanmarker_core.spans import candidate_spans
from spanmarker_core.windows import Context
from tests.tiny import FAMILIES, tiny_model

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


def dense_logits(network: SpanMarkerModel, config, batch: Batch) -> torch.Tensor:
    """The same scores the slow way: text and all markers in one row, padded to the longest, square mask."""
    values = dict(config.encoder)
    encoder = AutoModel.from_config(
        AutoConfig.for_model(values.pop("model_type"), **values), attn_implementation="eager"
    ).eval()
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    encoder.load_state_dict(network.encoder.state_dict())
    rows, longest = [], 0
    for window in range(len(batch.window_offsets) - 1):
        text = batch.token_ids[batch.window_offsets[window] : batch.window_offsets[window + 1]]
        spans = slice(batch.span_offsets[window], batch.span_offsets[window + 1])
        rows.append((text, batch.first_token[spans], batch.last_token[spans]))
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
        found = network(batch)
    assert len(found) > 100
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_offset_of_published_checkpoints_equals_dense_reference(family):
    config, network, packer = setup(family, position_offset=2)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        torch.testing.assert_close(network(batch), dense_logits(network, config, batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pairs", [1, 2, 7, 64, 10_000])
def test_chunking_changes_nothing(pairs):
    config, network, packer = setup("bert")
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        torch.testing.assert_close(network(batch, pairs_a_chunk=pairs), network(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("budget", [1, 100, 400, 10_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_batch_composition_and_order_change_nothing(budget, seed):
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words(SENTENCES), Context("document"))
    with torch.no_grad():
        whole = network(batch_of(windows, config))
    offsets = candidate_spans(windows, config.entity_max_length).offsets
    shuffled = np.random.default_rng(seed).permutation(len(windows))
    seen = []
    for indices in plan_batches(windows.take(shuffled), config.entity_max_length, budget):
        members = shuffled[indices]
        with torch.no_grad():
            part = network(batch_of(windows.take(members), config))
        expected = torch.cat([whole[offsets[i] : offsets[i + 1]] for i in members])
        torch.testing.assert_close(part, expected, atol=1e-5, rtol=0)
        seen += members.tolist()
    assert sorted(seen) == list(range(len(windows)))


def test_markers_do_not_change_the_text_and_spans_do_not_see_each_other():
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words(SENTENCES[:1]), Context())
    batch = batch_of(windows, config)
    one = Batch(batch.token_ids, batch.window_offsets, [0, 1], batch.first_token[3:4], batch.last_token[3:4])
    with torch.no_grad():
        torch.testing.assert_close(network(one)[0], network(batch)[3], atol=1e-5, rtol=0)


def test_gradient_reaches_every_parameter():
    config, network, packer = setup("bert")
    network.train()
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    network(batch).square().sum().backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []


def test_no_spans_gives_no_rows():
    config, network, packer = setup("bert")
    windows = packer.pack(packer.encode_words([["\u2063"]]), Context())
    assert network(batch_of(windows, config)).shape == (0, len(config.labels))


def test_refuses_encoders_that_cannot_carry_markers():
    for name, options, reason in [
        ("deberta-v2", {"relative_attention": True}, "relative"),
        ("t5", {}, "position ids"),
        ("bert", {"is_decoder": True}, "decoder"),
    ]:
        encoder_config = AutoConfig.for_model(
            name,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            vocab_size=30,
            **options,
        )
        with pytest.raises(CoreError, match=reason) as caught:
            check_encoder(AutoModel.from_config(encoder_config))
        assert caught.value.code == "encoder.no_position_ids"
