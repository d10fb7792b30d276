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
from spanmarker_core.models.gate import Gate, gate_targets, least_probability, passing, select_spans
from spanmarker_core.models.span_marker import SpanMarkerModel
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.networks import batch_of, made, windows_of
from tests.support.tiny import tiny_model


def test_pairing_later_is_another_model_and_in_all_layers_the_one_that_names_none():
    outputs = []
    for pair_layers in (0, 1, 2, None):
        config, network, packer = made(pair_layers=pair_layers)
        with torch.no_grad():
            outputs.append(network(batch_of(windows_of(packer), config)).logits)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-3
    assert (outputs[1] - outputs[2]).abs().max() > 1e-3
    assert torch.equal(outputs[2], outputs[3])


def test_an_encoder_that_runs_one_layer_again_and_again_cannot_pair_late():
    size = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "embedding_size": 16}
    encoder = AutoModel.from_config(
        AutoConfig.for_model("albert", num_hidden_layers=3, vocab_size=30, max_position_embeddings=64, **size),
        attn_implementation="eager",
    )
    with pytest.raises(UnusableError, match="no list of layers"):
        SpanMarkerModel(encoder, replace(tiny_model()[0], pair_layers=1))


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


@pytest.mark.slow
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_taking_spans_keeps_them_in_their_windows(lengths, seed):
    windows, spans = spans_of(lengths)
    rows = np.flatnonzero(np.random.default_rng(seed).random(len(spans)) < 0.4)
    taken = spans.take(rows)
    window_of = np.searchsorted(spans.offsets, np.arange(len(spans)), "right") - 1
    expected = [int((window_of[rows] == window).sum()) for window in range(len(windows))]
    assert np.diff(taken.offsets).tolist() == expected
    assert taken.first_word.tolist() == spans.first_word[rows].tolist()
