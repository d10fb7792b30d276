"""What a network should say of a batch: the class of each span, or classes softened at the edges, and tags of words."""

import numpy as np

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.training.dataset import Gold
from spanmarker_core.windows.packer import Windows

#: Number of the class "O"; the source's labels follow.
OUTSIDE = 0
#: The tag of a word that the window's entities say nothing of, and of one without a token.
UNKNOWN = -100


def span_labels(windows: Windows, spans: Spans, gold: Gold) -> np.ndarray:
    """Return the class of each span, int64 [n_spans]; where it has several labels, the first."""
    labels = np.full(len(spans), OUTSIDE, np.int64)
    first = windows.word_offsets[gold.window] + gold.word_start
    place = spans.rows_of(first, first + gold.word_end - gold.word_start - 1)
    found = np.flatnonzero(place >= 0)
    found = found[np.argsort(-gold.label[found], kind="stable")]  # the last assignment to a place holds
    labels[place[found]] = gold.label[found] + 1
    return labels


def smoothed(spans: Spans, labels: np.ndarray, n_classes: int, epsilon: float) -> np.ndarray:
    """Return how much each span should be of each class, float32 [n_spans, n_classes]: a share `epsilon` of an
    entity's label goes to the spans whose one edge lies a word off, in four equal parts.

    A part whose span is no candidate stays with the entity. Source: boundary smoothing with distance 1 (Zhu and Li
    2022), as DSpERT uses it. In "a b c" with an entity over b, epsilon 0.2 gives b 0.9 of its label (b's shorter
    neighbours are none), and 0.05 each to "a b" and "b c".

    Args:
        spans: all candidate spans, in order.
        labels: int64 [n_spans], their classes.
    """
    targets = np.zeros((len(labels), n_classes), np.float32)
    gold = np.flatnonzero(labels != OUTSIDE)
    of = labels[gold]
    np.add.at(targets, (gold, of), np.float32(1 - epsilon))
    part = np.float32(epsilon / 4)
    for start, end in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        first, last = spans.first_word[gold] + start, spans.last_word[gold] + end
        place = spans.rows_of(first, last)
        np.add.at(targets, (np.where(place >= 0, place, gold), of), part)
    told = targets.sum(axis=1, keepdims=True)
    targets /= np.maximum(told, 1)
    targets[:, OUTSIDE] = 1 - targets.sum(axis=1)
    return targets


def select_negatives(spans: Spans, is_gold: np.ndarray, most: int, draws: np.ndarray) -> np.ndarray:
    """Return the rows of the spans to train on: all entities, and at most so many other spans of each window.

    Source: BL-NER, equation 20.

    Args:
        draws: [n_spans], from [0, 1); the spans with the lowest draws are taken.
    """
    window = np.repeat(np.arange(len(spans.offsets) - 1), np.diff(spans.offsets))
    by_draw = np.lexsort((draws, is_gold, window))  # of each window the others first, by their draws
    rank = np.empty(len(spans), np.int64)
    rank[by_draw] = np.arange(len(spans)) - spans.offsets[window[by_draw]]
    return np.flatnonzero(is_gold | (rank < most))


def word_tags(windows: Windows, gold: Gold, known: np.ndarray) -> np.ndarray:
    """Return the BIO tag of each word, int64 [n_words]: 0 is O, 1 + 2c begins and 2 + 2c goes on in label number c.

    Of entities that overlap, tags hold the one that begins first, of those the longest. Words without a token have no
    tag. What can't be given back, being no candidate span, is no gold here: its words are O.

    Args:
        known: bool [n_words], words of which the window's entities tell all; others are `UNKNOWN`.
    """
    has_token = windows.word_token_end > windows.word_token_start
    # Below, words are counted among those with a token.
    place, first = ragged_offsets(has_token), windows.word_offsets[gold.window]
    start, end = place[first + gold.word_start], place[first + gold.word_end]
    order = np.lexsort((gold.label, -end, start))
    order = order[start[order] < end[order]]
    start, end, label = start[order], end[order], gold.label[order]
    reached = np.maximum.accumulate(np.append(0, end))[:-1]
    while (crossed := start < reached).any():
        # An entity inside one that is left out may stand after all: leave out the first of each cluster's crossed ones.
        out = crossed & ~np.append(False, crossed[:-1])
        start, end, label = start[~out], end[~out], label[~out]
        reached = np.maximum.accumulate(np.append(0, end))[:-1]
    lengths = end - start
    words = np.repeat(start, lengths) + np.arange(lengths.sum()) - np.repeat(ragged_offsets(lengths)[:-1], lengths)
    of_tokens = np.zeros(place[-1], np.int64)
    of_tokens[words] = np.repeat(2 + 2 * label, lengths)
    of_tokens[start] = 1 + 2 * label
    tags = np.full(len(has_token), UNKNOWN)
    tags[has_token] = of_tokens
    tags[~known] = UNKNOWN
    return tags


def chains(batch: Batch, tags: np.ndarray) -> np.ndarray:
    """Return which stretch of words with a tag each word is in, int64 [n_words]: from 0, rising, -1 in none.

    A stretch ends with its run, and before a word that has a token but no tag.
    """
    tagged = tags != UNKNOWN
    begins = batch.has_token & ~tagged
    begins[batch.runs[:-1]] = True
    numbers = np.full(len(tags), -1)
    numbers[tagged] = np.unique(np.cumsum(begins)[tagged], return_inverse=True)[1]
    return numbers
