"""What a network is told: softened classes, drawn spans and tags of words, against plain loops."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.architectures.registry import NetworkScores
from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.data import Sentence, Span
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import candidate_spans
from spanmarker_core.text.tag_schemes import spans_to_tags
from spanmarker_core.training.dataset import Gold, SentenceWindows
from spanmarker_core.training.loss import SpanLoss
from spanmarker_core.training.targets import UNKNOWN, chains, select_negatives, smoothed, span_labels, word_tags
from spanmarker_core.windows.packer import Context, Windows

LABELS = ["LOC", "PER"]


def windows_of(*lengths):
    """Windows of one sentence each, of one-token words, all owned."""
    words = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    sentence = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    offsets = ragged_offsets(np.array(lengths))
    unknown = np.full(len(words), -1, np.int64)
    tag, long_words = np.ones(len(words), np.bool_), np.zeros(len(words), np.bool_)
    documents = np.arange(len(lengths), dtype=np.int32)
    return Windows(
        document=documents,
        token_offsets=offsets,
        token_ids=words,
        word_offsets=offsets,
        word_token_start=words,
        word_token_end=words + 1,
        word_char_start=unknown,
        word_char_end=unknown,
        word_sentence=sentence,
        word_index=words,
        word_tag=tag,
        word_long=long_words,
    )


def gold_of(*entities):
    """Entities (window, start, end, label number)."""
    columns = np.array(sorted(entities), np.int64).reshape(-1, 4).T
    return Gold(columns[0], *(column.astype(np.int32) for column in columns[1:]))


def test_smoothing_by_hand():
    """Over "a b c": b is an entity, whose two neighbours within it are no spans."""
    windows = windows_of(3)
    spans = candidate_spans(windows, 2)  # a, ab, b, bc, c
    labels = span_labels(windows, spans, gold_of((0, 1, 2, 1)))
    assert labels.tolist() == [0, 0, 2, 0, 0]
    expected = [[1, 0, 0], [0.95, 0, 0.05], [0.1, 0, 0.9], [0.95, 0, 0.05], [1, 0, 0]]
    np.testing.assert_allclose(smoothed(spans, labels, 3, 0.2), expected, atol=1e-7)


@st.composite
def sentences_with_entities(draw):
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    entities = set()
    for window, length in enumerate(lengths):
        for _ in range(draw(st.integers(0, 4))):
            start = draw(st.integers(0, length - 1))
            end = draw(st.integers(start + 1, length))
            entities.add((window, start, end, draw(st.integers(0, 1))))
    return lengths, entities


@given(sentences_with_entities(), st.integers(1, 4), st.sampled_from([0.1, 0.3]))
def test_smoothing_as_the_paper_says_it(data, limit, epsilon):
    lengths, entities = data
    windows, gold = windows_of(*lengths), gold_of(*entities)
    spans = candidate_spans(windows, limit)
    labels = span_labels(windows, spans, gold)
    places = list(zip(spans.first_word.tolist(), spans.last_word.tolist(), strict=True))
    expected = np.zeros((len(places), 3))
    for (first, last), label in zip(places, labels.tolist(), strict=True):
        if label:
            around = [(first - 1, last), (first + 1, last), (first, last - 1), (first, last + 1)]
            there = [place for place in around if place in places]
            expected[places.index((first, last)), label] += 1 - epsilon * len(there) / 4
            for place in there:
                expected[places.index(place), label] += epsilon / 4
    expected /= np.maximum(expected.sum(axis=1, keepdims=True), 1)
    expected[:, 0] = 1 - expected.sum(axis=1)
    np.testing.assert_allclose(smoothed(spans, labels, 3, epsilon), expected, atol=1e-6)


@given(sentences_with_entities(), st.integers(1, 4), st.integers(1, 6), st.integers(0, 99))
def test_negatives_are_the_lowest_draws_of_each_window(data, limit, most, seed):
    lengths, entities = data
    windows, gold = windows_of(*lengths), gold_of(*entities)
    spans = candidate_spans(windows, limit)
    is_gold = span_labels(windows, spans, gold) > 0
    draws = np.random.default_rng(seed).random(len(spans))
    chosen = select_negatives(spans, is_gold, most, draws)
    assert chosen.tolist() == sorted(chosen.tolist())
    for start, end in zip(spans.offsets[:-1].tolist(), spans.offsets[1:].tolist(), strict=True):
        others = [row for row in range(start, end) if not is_gold[row]]
        expected = {*np.flatnonzero(is_gold), *sorted(others, key=lambda row: draws[row])[:most]}
        assert {row for row in chosen if start <= row < end} == {row for row in expected if start <= row < end}


@given(sentences_with_entities())
def test_tags_are_those_of_the_label_scheme(data):
    lengths, entities = data
    windows = windows_of(*lengths)
    found = word_tags(windows, gold_of(*entities), np.ones(sum(lengths), np.bool_))
    names = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    expected = []
    for window, length in enumerate(lengths):
        kept: list[Span] = []
        mine = sorted((e for e in entities if e[0] == window), key=lambda e: (e[1], -e[2], e[3]))
        for _, start, end, label in mine:
            if not kept or start >= kept[-1].end:
                kept.append(Span(start, end, LABELS[label]))
        expected += spans_to_tags(kept, length, "IOB2")
    assert [names[tag] for tag in found.tolist()] == expected


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(0, 999))
def test_chains_cover_known_words_and_stay_in_their_run(lengths, seed):
    tags = np.where(np.random.default_rng(seed).random(sum(lengths)) < 0.3, UNKNOWN, 0)
    has_token = (tags != UNKNOWN) | (np.random.default_rng(seed + 1).random(sum(lengths)) < 0.5)
    runs = np.unique(ragged_offsets(np.array(lengths, np.int64)))
    expected, number = [], -1
    for start, end in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
        open_chain = False
        for word in range(start, end):
            known = tags[word] != UNKNOWN
            number += known and not open_chain
            open_chain = known or (open_chain and not has_token[word])
            expected.append(number if known else -1)
    assert chains(SimpleNamespace(runs=runs, has_token=has_token), tags).tolist() == expected


def test_tags_leave_out_words_without_a_token():
    """Entities over words 0-2 and 5 of eight; words 1, 4 and 7 have no token."""
    windows = windows_of(8)
    ends = windows.word_token_end.copy()
    ends[[1, 4, 7]] = windows.word_token_start[[1, 4, 7]]
    windows = replace(windows, word_token_end=ends)
    gold = gold_of((0, 0, 3, 0), (0, 5, 6, 1))
    known = np.ones(8, np.bool_)
    assert word_tags(windows, gold, known).tolist() == [1, UNKNOWN, 2, 0, UNKNOWN, 3, 0, UNKNOWN]
    batch = Batch.build(windows, candidate_spans(windows, 3))
    assert chains(batch, word_tags(windows, gold, known)).tolist() == [0, -1, 0, 0, -1, 0, 0, -1]
    known[3] = False
    assert chains(batch, word_tags(windows, gold, known)).tolist() == [0, -1, 0, -1, -1, 1, 1, -1]


def test_tags_are_those_of_entities_that_could_be_given_back(tiny):
    """One of three words, of which the middle one has no token; one over the limit; one that begins without a token."""
    words = ["barack", "\u200b", "obama", "in", "\u200b", "barack", "obama", "of", "the", "city", "of", "paris"]
    entities = [Span(0, 3, "person"), Span(4, 7, "person"), Span(7, 12, "location")]
    assert tiny.config.entity_max_length == 4
    source = SentenceWindows([Sentence("d", 0, words, entities)], tiny.packer, Context())
    windows, gold = source.read(0)
    known = np.ones(len(words), np.bool_)
    assert word_tags(windows, gold, known).tolist() == [3, UNKNOWN, 4, 0, UNKNOWN, *[0] * 7]
    assert source.unreachable == 1


class Given(torch.nn.Module):
    """Gives scores; with a head of tags whose loss is 6 over 3 units."""

    tags = SimpleNamespace(
        loss=lambda emissions, tags, chains: torch.tensor(6.0, dtype=torch.float64), units=lambda tags, chains: 3
    )

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def forward(self, batch):
        return self.scores


NOWHERE = SimpleNamespace(to=lambda device: None)
#: Of the logits 0, 0 of class 1 and 2, 0 of class 0; and of a gate's 0 that should be 0, and 2 that should be 1.
FIRST, SECOND = 0.6931471805599453, 0.1269280110429726


@pytest.mark.parametrize(("gated", "expected"), [(False, 1.0), (True, 0.2 + 0.8)])
def test_loss_by_hand(gated, expected):
    """The gate's second word isn't asked for."""
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    gate = torch.tensor([[0.0, 2.0], [5.0, 5.0]], dtype=torch.float64)
    targets = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    asked = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    network = Given(NetworkScores(logits, None, gate if gated else None))
    loss = SpanLoss(network, 0.2)(NOWHERE, torch.tensor([1, 0]), targets, asked)["loss"]
    assert float(loss) == pytest.approx(expected * (FIRST + SECOND) / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("n_spans", "kept", "alpha", "expected"),
    [(1, None, 0.1, 0.1 * 2 + 0.9 * FIRST), (0, np.zeros(0, np.int64), 1.0, 2.0)],
)
def test_loss_with_tags_by_hand(n_spans, kept, alpha, expected):
    network = Given(NetworkScores(torch.zeros((n_spans, 2), dtype=torch.float64), kept, None, tags=torch.zeros(2, 3)))
    nothing = torch.zeros((2, 2), dtype=torch.float64)
    words = torch.tensor([0, 1]), np.array([0, 0])
    loss = SpanLoss(network, 0.2, alpha)(NOWHERE, torch.tensor([1]), nothing, nothing, *words)["loss"]
    assert float(loss) == pytest.approx(expected, abs=1e-12)
