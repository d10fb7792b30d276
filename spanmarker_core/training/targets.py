"""Training targets of a batch: classes of spans, optionally with boundary smoothing, and tags of words."""

import numpy as np

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans
from spanmarker_core.training.dataset import Gold
from spanmarker_core.windows.packer import Windows

#: Number of the class "O"; the labels of the data follow.
OUTSIDE = 0
#: Tag of a word whose entities are not all known in the window, and of a word without a token.
UNKNOWN = -100


def span_labels(windows: Windows, spans: Spans, gold: Gold) -> np.ndarray:
    """Return the class of each span, int64 [n_spans]; if a span has several labels, the first one.

    Args:
        windows: the windows.
        spans: their candidate spans.
        gold: their entities.
    """
    labels = np.full(len(spans), OUTSIDE, np.int64)
    first = windows.word_offsets[gold.window] + gold.word_start
    place = spans.rows_of(first, first + gold.word_end - gold.word_start - 1)
    found = np.flatnonzero(place >= 0)
    found = found[np.argsort(-gold.label[found], kind="stable")]  # the last assignment to a row wins
    labels[place[found]] = gold.label[found] + 1
    return labels


def smoothed(spans: Spans, labels: np.ndarray, n_classes: int, epsilon: float) -> np.ndarray:
    """Return the target share of each class for each span, float32 [n_spans, n_classes].

    A share `epsilon` of an entity's label is distributed in four equal parts over the spans with one boundary shifted
    by one word. If such a span is not a candidate, its part stays with the entity. Source: boundary smoothing with
    distance 1 (Zhu and Li 2022), as DSpERT uses it. In "a b c" with an entity over b, epsilon 0.2 gives b 0.9 of its
    label (b has no shorter neighbours), and "a b" and "b c" 0.05 each.

    Args:
        spans: all candidate spans, in order.
        labels: int64 [n_spans], their classes.
        n_classes: number of classes, including "O".
        epsilon: share of the label to distribute, 0 to 1.
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
    totals = targets.sum(axis=1, keepdims=True)
    targets /= np.maximum(totals, 1)
    targets[:, OUTSIDE] = 1 - targets.sum(axis=1)
    return targets


def select_negatives(spans: Spans, is_gold: np.ndarray, most: int, draws: np.ndarray) -> np.ndarray:
    """Return the indices of the spans to train on: all entities, and a limited number of other spans of each window.

    Source: BL-NER, equation 20.

    Args:
        spans: all candidate spans.
        is_gold: bool [n_spans], whether each span is an entity.
        most: maximum number of other spans per window.
        draws: [n_spans], from [0, 1); the spans with the lowest draws are selected.
    """
    window = np.repeat(np.arange(len(spans.offsets) - 1), np.diff(spans.offsets))
    by_draw = np.lexsort((draws, is_gold, window))  # in each window the non-entities first, by draw
    rank = np.empty(len(spans), np.int64)
    rank[by_draw] = np.arange(len(spans)) - spans.offsets[window[by_draw]]
    return np.flatnonzero(is_gold | (rank < most))


def word_tags(windows: Windows, gold: Gold, known: np.ndarray) -> np.ndarray:
    """Return the BIO tag of each word, int64 [n_words]: 0 is O, 1 + 2c begins label c and 2 + 2c continues it.

    Of overlapping entities, the tags represent the one that begins first, and of those the longest. Words without a
    token have no tag. Entities that are not candidate spans cannot be predicted and are not gold here: their words are
    O.

    Args:
        windows: the windows.
        gold: their entities.
        known: bool [n_words], whether the window's entities include all entities of the word; other words are
            `UNKNOWN`.
    """
    has_token = windows.word_token_end > windows.word_token_start
    # From here on, words are counted among those with a token.
    place, first = ragged_offsets(has_token), windows.word_offsets[gold.window]
    start, end = place[first + gold.word_start], place[first + gold.word_end]
    order = np.lexsort((gold.label, -end, start))
    order = order[start[order] < end[order]]
    start, end, label = start[order], end[order], gold.label[order]
    reached = np.maximum.accumulate(np.append(0, end))[:-1]
    while (crossed := start < reached).any():
        # An entity inside an excluded one may remain: in each round, exclude the first crossed entity of each cluster.
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
    """Return the chain of tagged words that each word is in, int64 [n_words]: numbered from 0, rising; -1 for none.

    A chain ends with the words of its sentence in the window, and before a word that has a token but no tag.

    Args:
        batch: the batch.
        tags: int64 [n_words], tags from `word_tags`.
    """
    tagged = tags != UNKNOWN
    begins = batch.has_token & ~tagged
    begins[batch.runs[:-1]] = True
    numbers = np.full(len(tags), -1)
    numbers[tagged] = np.unique(np.cumsum(begins)[tagged], return_inverse=True)[1]
    return numbers
