"""Plans of windows against rules told sentence by sentence."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.windows.plan import plan_blocks, plan_sentences, plan_surroundings

LENGTHS = st.lists(st.lists(st.integers(0, 30) | st.integers(0, 3), max_size=25), max_size=4)
CAPACITY = st.sampled_from([2, 8, 14, 22])
LIMIT = st.none() | st.integers(0, 3) | st.just(10**30)


def arrays(documents):
    """Return the bounds and edges of documents that are lists of sentences' lengths; other tokens come first."""
    lengths = np.array([length for document in documents for length in document], np.int64)
    return 3 + ragged_offsets(lengths), ragged_offsets(np.array([len(document) for document in documents], np.int64))


def surroundings(lengths, number, capacity, max_prev, max_next):
    """The rule for one sentence, step by step: next then previous, until it is full; in the document's tokens."""
    starts = np.cumsum([0, *lengths]).tolist()
    left, right = starts[number], starts[number + 1]
    following = list(range(number + 1, len(lengths)))[:max_next]
    preceding = list(reversed(range(number)))[:max_prev]
    following = [n for n in following if lengths[n]]
    preceding = [n for n in preceding if lengths[n]]
    while (following or preceding) and right - left < capacity:
        if following:
            right = min(starts[following.pop(0) + 1], left + capacity)
        if preceding and right - left < capacity:
            left = max(starts[preceding.pop(0)], right - capacity)
    return left, right


def rows_of(plan):
    return list(zip(*(getattr(plan, name).tolist() for name in plan.__slots__), strict=True))


@given(LENGTHS, CAPACITY, LIMIT, LIMIT)
def test_surroundings_are_those_of_each_sentence_and_equal_ones_are_shared(documents, capacity, max_prev, max_next):
    bounds, edges = arrays(documents)
    expected = []
    for document, lengths in enumerate(documents):
        for number, length in enumerate(lengths):
            shown = surroundings(lengths, number, capacity, max_prev, max_next)
            if length > capacity:
                shown = sum(lengths[:number]), sum(lengths[: number + 1])
            left, right = (int(bounds[edges[document]]) + place for place in shown)
            sentence = int(edges[document]) + number
            if expected and expected[-1][0] == document and expected[-1][3:] == (left, right):
                expected[-1] = (document, expected[-1][1], sentence + 1, left, right)
            else:
                expected.append((document, sentence, sentence + 1, left, right))
    assert rows_of(plan_surroundings(bounds, edges, capacity, max_prev, max_next)) == expected


@given(LENGTHS, CAPACITY)
def test_blocks_cover_each_document_once_with_a_margin_around(documents, capacity):
    bounds, edges = arrays(documents)
    plan = plan_blocks(bounds, edges, capacity)
    margin = capacity // 8
    for document, lengths in enumerate(documents):
        rows = [row for row in rows_of(plan) if row[0] == document]
        sentences = [n for _, start, end, _, _ in rows for n in range(start, end)]
        assert sentences == list(range(edges[document], edges[document + 1]))
        lowest, highest = bounds[edges[document]], bounds[edges[document + 1]]
        if lengths and sum(lengths) <= capacity:
            assert rows == [(document, edges[document], edges[document + 1], lowest, highest)]
        for _, start, end, left, right in rows:
            own = bounds[end] - bounds[start]
            assert lowest <= left <= bounds[start] <= bounds[end] <= right <= highest
            if own > capacity:  # to be cut
                assert (end, left, right) == (start + 1, bounds[start], bounds[end])
                continue
            assert right - left <= capacity
            context = right - left - own
            assert context <= 2 * margin
            if own <= capacity - 2 * margin:
                assert left == max(lowest, bounds[start] - margin)
                assert right >= min(highest, bounds[end] + margin)
            else:  # all the context that there is room for
                assert context == min(capacity - own, highest - lowest - own) or left == max(
                    lowest, bounds[start] - margin
                )
        # Two blocks in a row have more sentences than one could hold, so blocks are few.
        for (_, start, _, _, _), (_, next_start, next_end, _, _) in pairwise(rows):
            first = bounds[next_start + 1] - bounds[start] if next_end > next_start else 0
            assert first > capacity - 2 * margin
        # So no document costs more than 5/3 of itself, and a margin or two.
        cost = sum(right - left for *_, left, right in rows)
        assert cost <= sum(lengths) * (1 + 4 * margin / (capacity - 2 * margin)) + 2 * margin


@pytest.mark.parametrize("length", [1, 5, 20, 30])
def test_a_long_document_of_usual_sentences_costs_about_its_own_length(length):
    bounds, edges = arrays([[length] * 2000])
    plan = plan_blocks(bounds, edges, 254)
    cost = int((plan.token_end - plan.token_start).sum())
    # Margins of 31 on both sides, and less than a sentence between them and the sentences.
    assert cost <= 2000 * length * (1 + 62 / (254 - 62 - (length - 1))) + 254


def test_blocks_by_hand():
    """Windows of 16 tokens, margins of 2."""
    #          0  3  8  12 15   28  30    49  52
    lengths = [3, 5, 4, 3, 13, 2, 19, 3, 4]
    bounds, edges = np.cumsum([0, *lengths]), np.array([0, len(lengths)])
    assert rows_of(plan_blocks(bounds, edges, 16)) == [
        (0, 0, 3, 0, 14),  # 12 tokens; the fourth sentence would leave no margin
        (0, 3, 4, 10, 17),  # 3 tokens and their margins: the next has 13
        (0, 4, 5, 14, 30),  # too long for two margins of 2: one token before and two after
        (0, 5, 6, 26, 32),
        (0, 6, 7, 30, 49),  # longer than a window: to be cut
        (0, 7, 9, 47, 56),  # no margin where the document ends
    ]


@given(LENGTHS)
def test_sentences_are_alone(documents):
    bounds, edges = arrays(documents)
    expected = [
        (document, n, n + 1, bounds[n], bounds[n + 1])
        for document in range(len(documents))
        for n in range(edges[document], edges[document + 1])
    ]
    assert rows_of(plan_sentences(bounds, edges)) == expected


@given(LENGTHS, CAPACITY)
def test_documents_do_not_touch(documents, capacity):
    """Together they are planned as each is alone."""
    bounds, edges = arrays(documents)

    def both(bounds, edges):
        return [
            *rows_of(plan_blocks(bounds, edges, capacity)),
            *rows_of(plan_surroundings(bounds, edges, capacity, 1, None)),
        ]

    alone = []
    for document in range(len(documents)):
        for _, *row in both(bounds[edges[document] : edges[document + 1] + 1], np.array([0, len(documents[document])])):
            alone.append((document, row[0] + edges[document], row[1] + edges[document], *row[2:]))
    assert sorted(alone) == sorted(both(bounds, edges))


@pytest.mark.parametrize("length", [0, 1, 30])
def test_plans_are_quick(length):
    bounds, edges = arrays([[length] * 50_000, *([[length]] * 10_000)])
    began = time.monotonic()
    plan_surroundings(bounds, edges, 254, None, None)
    plan_blocks(bounds, edges, 254)
    assert time.monotonic() - began < 2
