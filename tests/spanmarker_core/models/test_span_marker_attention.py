"""Who sees whom: the masks of the thesis's Figure 3.1 by hand, and how spans share samples."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.architectures.options import ATTENTIONS
from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.batch import Batch
from spanmarker_core.models.joint import SampledSpans, Sampling, sample_starts
from spanmarker_core.spans.candidates import Spans
from tests.spanmarker_core.models.dense_reference import figure_mask
from tests.spanmarker_core.models.networks import made

#: A window of three tokens, T, and two spans, markers S and E each. A row says what the item sees: TTT SE SE.
BY_HAND = {
    "paired": {"T": "111 00 00", "S1": "111 11 00", "E1": "111 11 00", "S2": "111 00 11", "E2": "111 00 11"},
    "text_to_markers": {"T": "111 11 11", "S1": "111 11 00", "E1": "111 11 00", "S2": "111 00 11", "E2": "111 00 11"},
    "no_diagonal": {"T": "111 00 00", "S1": "111 00 00", "E1": "111 00 00", "S2": "111 00 00", "E2": "111 00 00"},
    "no_self": {"T": "111 00 00", "S1": "111 01 00", "E1": "111 10 00", "S2": "111 00 01", "E2": "111 00 10"},
    "no_partner": {"T": "111 00 00", "S1": "111 10 00", "E1": "111 01 00", "S2": "111 00 10", "E2": "111 00 01"},
    "all_markers": {"T": "111 00 00", "S1": "111 11 11", "E1": "111 11 11", "S2": "111 11 11", "E2": "111 11 11"},
}


def by_hand(attention):
    rows = [BY_HAND[attention][name] for name in ("T", "T", "T", "S1", "E1", "S2", "E2")]
    return torch.tensor([[int(character) for character in row.replace(" ", "")] for row in rows])


def test_figure_mask_by_hand():
    """The reference itself; it has start markers first, then end markers."""
    order = torch.tensor([0, 1, 2, 3, 5, 4, 6])
    for attention in ATTENTIONS:
        assert figure_mask(attention, 3, 2).int().tolist() == by_hand(attention)[order][:, order].tolist()


def test_samples_by_hand():
    """Windows of 3 and 2 tokens with 3 and 1 spans, two a sample: T T T S E S E, T T T S E, T T S E."""
    first = np.array([0, 0, 1, 1])
    spans = Spans(np.array([0, 3, 4]), first, first, first, first)
    words = torch.arange(5)
    offsets, yes = np.array([0, 3, 5]), np.ones(5, np.bool_)
    batch = Batch(words, offsets, words, words, spans, offsets, np.array([False, False]), yes, yes)
    samples = SampledSpans(batch, spans, 0, 4, Sampling("all_markers", 2))
    assert samples.lengths.tolist() == [7, 5, 4]
    assert samples.text.tolist() == [0, 1, 2, 7, 8, 9, 12, 13]
    assert samples.tokens.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert samples.markers.tolist() == [3, 4, 5, 6, 10, 11, 14, 15]
    assert samples.begin.tolist() == [0, 0, 7, 12]
    padded = SampledSpans(batch, spans, 2, 4, Sampling("paired", 2, text_tokens=4))
    assert padded.lengths.tolist() == [8, 8]
    assert padded.text.tolist() == [0, 1, 2, 8, 9]
    assert padded.markers.tolist() == [4, 5, 12, 13]
    mask = padded.mask(torch.device("cpu"))[1].int().tolist()
    assert mask == [[1, 1, *[0] * 6]] * 4 + [[1, 1, 0, 0, 1, 1, 0, 0]] * 2 + [[1, 1, *[0] * 6]] * 2


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 5))
def test_samples_are_each_windows_spans_in_order(counts, group):
    offsets, expected = ragged_offsets(np.array(counts, np.int64)), []
    for window in range(len(counts)):
        expected += [(window, first) for first in range(offsets[window], offsets[window + 1], group)]
    assert list(zip(*(part.tolist() for part in sample_starts(offsets, group)), strict=True)) == expected


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_chunks_cut_no_sample(size):
    _, network, _ = made({"attention": "all_markers", "group": 3})
    offsets = np.array([0, 7, 7, 9, 15])
    spans = Spans(offsets, *[np.zeros(15, np.int64)] * 4)
    chunks = list(network.chunks(spans, size))
    assert [place for chunk in chunks for place in range(*chunk)] == list(range(15))
    edges = [0, 3, 6, 7, 9, 12]
    assert [start for start, _ in chunks] == edges[:: max(1, size // 3)]
