"""Late pairing and the gate against plain dense references, by hand, and as invariants."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel

from spanmarker_core.bundle.config import packer_of
from spanmarker_core.errors import UnusableError
from spanmarker_core.models.encoders import encoder_layers
from spanmarker_core.models.gate import Gate, gate_targets, least_probability, passing, select_spans
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.test_model import SENTENCES, batch_of, dense_encoder
from tests.support.tiny import FAMILIES, tiny_model
from tests.support.variants import pairs as every_pair


def late(family, pair_layers, gate_width=None):
    """The tiny model of two layers, pairing late, with the weights of the one that pairs everywhere."""
    config, network, tokenizer = tiny_model(family)
    config = replace(
        config,
        pair_layers=pair_layers,
        gate=gate_width and {"trained": "joint", "width": gate_width, "threshold": 0.5, "curve": []},
    )
    torch.manual_seed(3)
    model = SpanMarkerModel.from_config(config).eval()
    model.load_state_dict(network.state_dict(), strict=gate_width is None)
    return config, model, packer_of(config, tokenizer)


def dense_late_logits(network, config, batch, pair_layers):
    """`dense_logits`, with the partner hidden in the layers below the top `pair_layers`."""
    encoder = dense_encoder(network, config)
    masks = {}

    def hide(layer, args, kwargs, place):
        name = "attention_mask" if "attention_mask" in kwargs else "attn_mask"
        if name in kwargs:
            kwargs[name] = masks[place]
        else:
            args = (args[0], masks[place], *args[2:])
        return args, kwargs

    layers = encoder_layers(encoder, "the test")
    for place, layer in enumerate(layers):
        layer.register_forward_pre_hook(lambda m, a, k, place=place: hide(m, a, k, place), with_kwargs=True)
    features = []
    spans = batch.spans
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]]
        rows = range(spans.offsets[window], spans.offsets[window + 1])
        t = len(text)
        for row in rows:
            ids = torch.cat([text, torch.tensor([config.start_marker_id, config.end_marker_id])])[None]
            places = [*range(t), int(spans.first_token[row]), int(spans.last_token[row])]
            positions = torch.tensor([places]) + config.position_offset
            for paired, name in ((True, "late"), (False, "early")):
                allowed = torch.zeros(t + 2, t + 2, dtype=torch.bool)
                allowed[:, :t] = True
                allowed[t, t] = allowed[t + 1, t + 1] = True
                allowed[t, t + 1] = allowed[t + 1, t] = paired
                masks[name] = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[None, None]
            for place in range(len(layers)):
                masks[place] = masks["late" if place >= len(layers) - pair_layers else "early"]
            states = encoder(input_ids=ids, position_ids=positions, attention_mask=masks["late"]).last_hidden_state[0]
            features.append(states[t:].flatten())
    return network.classifier(torch.stack(features))


@pytest.mark.parametrize(("family", "pair_layers"), every_pair(FAMILIES, [1, 0, 2]))
def test_late_pairing_equals_a_dense_reference(family, pair_layers):
    config, network, packer = late(family, pair_layers)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES[:4]), Context("document", 1, 1)), config)
    with torch.no_grad():
        expected = dense_late_logits(network, config, batch, pair_layers)
        found = network(batch).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_pairing_later_is_another_model():
    outputs = []
    for pair_layers in (0, 1, 2):
        config, network, packer = late("bert", pair_layers)
        batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
        with torch.no_grad():
            outputs.append(network(batch).logits)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-3
    assert (outputs[1] - outputs[2]).abs().max() > 1e-3


def test_pairing_in_all_layers_is_the_model_that_names_no_layers():
    config, network, _ = tiny_model("bert")
    _, same, packer = late("bert", 2)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    with torch.no_grad():
        assert torch.equal(network(batch).logits, same(batch).logits)


@pytest.mark.parametrize("pairs", [1, 3, 64, 10_000])
def test_chunks_change_nothing_when_pairing_late(pairs):
    config, network, packer = late("bert", 1)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context("document")), config)
    with torch.no_grad():
        torch.testing.assert_close(network(batch, spans_a_chunk=pairs).logits, network(batch).logits, atol=1e-5, rtol=0)


def test_gradient_reaches_every_parameter_when_pairing_late():
    config, network, packer = late("bert", 1, gate_width=8)
    network.train()
    scores = network(batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config))
    (scores.logits.square().sum() + scores.gate.square().sum()).backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []


def test_an_encoder_that_runs_one_layer_again_and_again_cannot_pair_late():
    size = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "embedding_size": 16}
    encoder = AutoModel.from_config(
        AutoConfig.for_model("albert", num_hidden_layers=3, vocab_size=30, max_position_embeddings=64, **size),
        attn_implementation="eager",
    )
    with pytest.raises(UnusableError, match="no list of layers"):
        SpanMarkerModel(encoder, replace(tiny_model()[0], pair_layers=1))


@pytest.mark.parametrize("pair_layers", [0, 1, 2])
def test_the_gate_only_leaves_out(pair_layers):
    """Spans that pass score as without a gate; those that don't are those that it says."""
    config, network, packer = late("bert", pair_layers, gate_width=8)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context("document")), config)
    with torch.no_grad():
        every = network(batch)
        probabilities = every.gate.sigmoid().numpy()
        threshold = float(np.median(least_probability(batch.spans, probabilities)))
        some = network(batch, threshold)
    assert every.kept is None
    may = probabilities >= threshold
    expected = [
        row
        for row in range(len(batch.spans))
        if may[batch.spans.first_word[row], 0] and may[batch.spans.last_word[row], 1]
    ]
    assert some.kept.tolist() == expected
    assert 0 < len(expected) < len(batch.spans)
    torch.testing.assert_close(some.logits, every.logits[expected], atol=1e-5, rtol=0)
    with torch.no_grad():
        assert len(network(batch, 1.1).logits) == 0
        torch.testing.assert_close(network(batch, 0.0).logits, every.logits, atol=1e-5, rtol=0)


def test_gate_by_hand():
    """Word 1 is tokens 1 to 2: its features are the states of token 1 and of token 2."""
    gate = Gate(hidden_size=1, width=1).double()
    with torch.no_grad():
        gate.hidden.weight.copy_(torch.tensor([[1.0, 10.0]]))
        gate.hidden.bias.fill_(0.5)
        gate.output.weight.copy_(torch.tensor([[2.0], [-1.0]]))
        gate.output.bias.copy_(torch.tensor([0.0, 3.0]))
    states = torch.tensor([[5.0], [0.1], [0.2]], dtype=torch.float64)
    found = gate(states, torch.tensor([1]), torch.tensor([2]))
    hidden = 0.1 + 10 * 0.2 + 0.5
    active = hidden * 0.5 * (1 + torch.erf(torch.tensor(hidden / 2**0.5, dtype=torch.float64)))
    torch.testing.assert_close(found, torch.stack([2 * active, 3 - active])[None])


def spans_of(sentence_lengths, entity_max_length=3):
    config, _, tokenizer = tiny_model("bert", entity_max_length=entity_max_length)
    packer = packer_of(config, tokenizer)
    windows = packer.pack(packer.encode_words([["a"] * n for n in sentence_lengths]), Context())
    return windows, candidate_spans(windows, entity_max_length)


def test_passing_and_targets_by_hand():
    """Three words: spans 0-0, 0-1, 0-2, 1-1, 1-2, 2-2."""
    _, spans = spans_of([3])
    probabilities = np.array([[0.9, 0.1], [0.2, 0.6], [0.5, 0.5]])
    assert passing(spans, probabilities, 0.5).tolist() == [1, 2, 5]
    assert least_probability(spans, probabilities).tolist() == [0.1, 0.6, 0.5, 0.2, 0.2, 0.5]
    entity = np.array([0.0, 0.7, 0.1, 0.2, 0.0, 0.3])
    np.testing.assert_allclose(gate_targets(spans, entity, 3), [[0.7, 0.0], [0.2, 0.7], [0.3, 0.3]], atol=1e-6)


def test_selection_by_hand():
    """With no share, only the spans at the head of the gold span 1-2; with all, every span."""
    _, spans = spans_of([3])
    gold = np.array([False, False, False, False, True, False])
    random = np.random.default_rng(0)
    assert select_spans(spans, gold, 0.0, random.random(6)).tolist() == [3, 4]
    assert select_spans(spans, gold, 1.0, random.random(6)).tolist() == [0, 1, 2, 3, 4, 5]
    drawn = [len(select_spans(spans, gold, 0.25, random.random(6))) for _ in range(2000)]
    assert np.mean(drawn) == pytest.approx(2 + 0.25 * 4, abs=0.1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_taking_spans_keeps_them_in_their_windows(lengths, seed):
    windows, spans = spans_of(lengths)
    rows = np.flatnonzero(np.random.default_rng(seed).random(len(spans)) < 0.4)
    taken = spans.take(rows)
    window_of = np.searchsorted(spans.offsets, np.arange(len(spans)), "right") - 1
    expected = [int((window_of[rows] == window).sum()) for window in range(len(windows))]
    assert np.diff(taken.offsets).tolist() == expected
    assert taken.first_word.tolist() == spans.first_word[rows].tolist()


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("pair_layers", [None, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_gpu_equals_cpu(family, pair_layers):
    config, network, packer = late(family, pair_layers, gate_width=8)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context("document", 1, 1)), config)
    with torch.no_grad():
        here = network(batch, 0.45)
        network.cuda()
        there = network(batch.to(torch.device("cuda")), 0.45)
    assert here.kept.tolist() == there.kept.tolist()
    torch.testing.assert_close(there.logits.cpu(), here.logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("pair_layers", [None, 1])
def test_bfloat16_is_near(pair_layers):
    config, network, packer = late("bert", pair_layers, gate_width=8)
    batch = batch_of(packer.pack(packer.encode_words(SENTENCES), Context()), config)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device)
    with torch.no_grad():
        exact = network(batch.to(device)).logits.float()
        with torch.autocast(device.type, torch.bfloat16):
            near = network(batch.to(device)).logits.float()
    difference = (near - exact).norm() / exact.norm()
    assert 1e-5 < difference < 2e-2
