"""The thesis's ablations and experiments: against dense references, masks by hand, and as invariants."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from spanmarker_core.architectures.options import ATTENTIONS
from spanmarker_core.bundle.config_checks import check_config
from spanmarker_core.errors import UnusableError
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.span_marker import _random_positions
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.windows.packer import Context
from tests.spanmarker_core.models.dense_reference import dense_logits
from tests.spanmarker_core.models.networks import (
    FEATURES,
    JOINT,
    LONG,
    MARKER_OPTIONS,
    SENTENCES,
    batch_of,
    case,
    made,
    windows_of,
)
from tests.support.tiny import FAMILIES, GATE, tiny_model


def splitmix_positions(batch):
    """Random positions in plain integers: a hash of the window's tokens, then of it, the span's edges and the kind."""
    mask = 2**64 - 1

    def mixed(*values):
        state = 0
        for value in values:
            state = ((state ^ int(value)) + 0x9E3779B97F4A7C15) & mask
            state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
            state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
            state ^= state >> 31
        return state

    positions, spans = [], batch.spans
    for window in range(len(batch.token_offsets) - 1):
        text = batch.token_ids[batch.token_offsets[window] : batch.token_offsets[window + 1]].tolist()
        seed = sum(mixed(token, place) for place, token in enumerate(text)) & mask
        for row in range(spans.offsets[window], spans.offsets[window + 1]):
            edges = spans.first_token[row], spans.last_token[row]
            positions.append([(mixed(seed, *edges, kind) >> 11) * len(text) >> 53 for kind in (0, 1)])
    return np.array(positions)


CASES = [
    case("span_marker.v1"),
    case("span_marker.v1", position_offset=2),  # as in published checkpoints
    case("span_marker.v1", pair_layers=1),
    case("span_marker.v1", {"attention": "all_markers", "group": 3, "positions": "random"}),
    case("span_marker.v1", pair_layers=0),
    case("span_marker.v1", pair_layers=2),
    case("span_marker.v1", {"positions": "random"}, pair_layers=1),
    *(case("span_marker.v1", options) for options in MARKER_OPTIONS),
]


@pytest.mark.parametrize(
    ("case", "family"), [*product(CASES[:4], FAMILIES), *((each, "bert") for each in CASES[4:])], ids=str
)
def test_equals_a_dense_reference(case, family):
    config, network, packer = case.build(family=family, **LONG)
    network.double()
    batch = batch_of(windows_of(packer), config)
    assert max(np.diff(batch.spans.offsets)) > 128 > min(np.diff(batch.spans.offsets)) == 1
    given = {name: case.options[name] for name in ("attention", "group", "text_features") if name in case.options}
    positions = splitmix_positions(batch) if case.options.get("positions") == "random" else None
    with torch.no_grad():
        expected = dense_logits(network, config, batch, positions=positions, pair_layers=config.pair_layers, **given)
        found = network(batch).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


def test_attention_and_positions_differ_from_the_default_and_from_each_other():
    outputs = []
    several = [{}, *({"attention": attention} for attention in ATTENTIONS[1:]), {"positions": "random"}]
    for options in [*several, {"attention": "all_markers", "group": 5}, {"attention": "text_to_markers", "group": 5}]:
        config, network, packer = made(options)
        batch = batch_of(windows_of(packer), config)
        with torch.no_grad():
            outputs.append(network(batch).logits)
    differences = torch.cdist(torch.stack(outputs).flatten(1), torch.stack(outputs).flatten(1), p=torch.inf)
    assert differences[~torch.eye(len(outputs), dtype=torch.bool)].min() > 1e-3


def test_options_at_their_defaults_change_nothing():
    defaults = {"attention": "paired", "group": None, "positions": "words", "width_size": 0, "text_features": False}
    outputs = []
    for options in ({}, defaults, {"marker_init": "mask_and_entity"}):
        config, network, packer = made(options)
        with torch.no_grad():
            outputs.append(network(batch_of(windows_of(packer), config)).logits)
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def three_tokens_two_spans():
    """Spans of words 0 and 0-1."""
    first, last = np.array([0, 0]), np.array([0, 1])
    words = torch.arange(3)
    spans = Spans(np.array([0, 2]), first, last, first, last)
    offsets, yes = np.array([0, 3]), np.ones(3, np.bool_)
    return Batch(words, offsets, words, words, spans, offsets, np.array([False]), yes, yes)


def test_random_positions_are_drawn_from_the_window_alike_to_all_of_it():
    config, _, packer = made({"positions": "random"}, **LONG)
    # Two windows that are equal, one that is not.
    windows = packer.pack(packer.encode_words([SENTENCES[4], SENTENCES[1], SENTENCES[4]]), Context())
    batch = batch_of(windows, config)
    lengths, n_spans = np.diff(batch.token_offsets), np.diff(batch.spans.offsets)
    tokens = np.stack([batch.spans.first_token, batch.spans.last_token], axis=1)
    found = _random_positions(batch, (0, 3), n_spans, tokens)
    assert found.tolist() == splitmix_positions(batch).tolist()
    assert (found >= 0).all()
    assert (found < np.repeat(lengths, n_spans)[:, None]).all()
    assert found[: n_spans[0]].tolist() == found[-n_spans[2] :].tolist()
    # As often at each place, of start and of end, apart from each other and from the span's own.
    many = np.stack(np.meshgrid(np.arange(200), np.arange(200)), axis=-1).reshape(-1, 2)
    start, end = _random_positions(batch, (0, 1), np.array([len(many)]), many).T
    for drawn in (start, end):
        counts = np.bincount(drawn, minlength=lengths[0])
        assert abs(counts / len(many) * lengths[0] - 1).max() < 0.15
        assert abs(np.corrcoef(drawn, many[:, 0])[0, 1]) < 0.02
    assert abs(np.corrcoef(start, end)[0, 1]) < 0.02


def test_features_by_hand():
    """Spans of words 0 and 0-1: 2 · 32 states of markers, 2 · 32 of the text, 3 for the length."""
    config, network, _ = made(FEATURES)
    batch = three_tokens_two_spans()
    with torch.no_grad():
        text = network.encode_text(batch)
        found = network.encode_spans(batch, batch.spans, text, 0, 2)
        plain = made({})[1]
        markers = plain.encode_spans(batch, batch.spans, plain.encode_text(batch), 0, 2)
    assert found.shape == (2, 4 * 32 + 3) == (2, network.feature_size(network.options, 32))
    assert torch.equal(found[:, :64], markers)
    assert torch.equal(found[:, 64:128], torch.cat([text.states[[0, 0]], text.states[[0, 1]]], dim=-1))
    assert network.widths.weight.shape == (config.entity_max_length, 3)
    assert torch.equal(found[:, 128:], network.widths.weight[:2])


@pytest.mark.parametrize(
    ("options", "overrides", "reason"),
    [
        ({"attention": "everything"}, {}, "attention is 'everything', not one of paired, text_to_markers"),
        ({"group": 64}, {}, "group is 64, but spans see each other only with"),
        ({"attention": "all_markers", "group": 0}, {}, "group is 0, not an integer from 1"),
        ({"width_size": -1}, {}, "width_size is -1"),
        ({"text_features": 1}, {}, "text_features is 1, not true or false"),
        ({"positions": None}, {}, "positions is None"),
        *(({"attention": name}, {"pair_layers": 1}, "pair_layers is 1, .*paired") for name in ATTENTIONS[1:]),
        *(({"attention": name}, {"gate": GATE}, "gate, but spans see each other") for name in JOINT),
    ],
)
def test_refuses_what_does_not_go_together(options, overrides, reason):
    config, _, _ = tiny_model()
    with pytest.raises(UnusableError, match=reason):
        check_config(replace(config, options=options, **overrides))
