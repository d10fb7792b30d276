"""Window plans: the sentences that each window tags and the tokens that it shows.

A plan depends only on the lengths of sentences, for any number of documents at once: sentence `i` is tokens
`bounds[i]:bounds[i + 1]`, document `d` is sentences `edges[d]:edges[d + 1]`. A plan takes 40 bytes per window
and can be divided between any two windows, so that the windows of a large document can be built in parts.
"""

from dataclasses import dataclass

import numpy as np

#: With policy `block`, 1/BLOCK_MARGIN of a window is context before its sentences, and the same share after them.
BLOCK_MARGIN = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Planned windows, in the order of the text. Each sentence is tagged in exactly one of them.

    A window with more tokens than fit is a single sentence, to be cut into several windows.

    Attributes:
        document: int64 [n], index of the window's document.
        sentence_start: int64 [n], first sentence that the window tags.
        sentence_end: int64 [n], exclusive.
        token_start: int64 [n], first token that the window shows, including the tokens of its sentences.
        token_end: int64 [n], exclusive.
    """

    document: np.ndarray
    sentence_start: np.ndarray
    sentence_end: np.ndarray
    token_start: np.ndarray
    token_end: np.ndarray

    def __len__(self) -> int:
        return len(self.document)

    def __getitem__(self, windows: slice) -> "Plan":
        return Plan(*(getattr(self, name)[windows] for name in self.__slots__))


def plan_sentences(bounds: np.ndarray, edges: np.ndarray) -> Plan:
    """Plan one window per sentence, without context.

    Args:
        bounds: int64 [n_sentences + 1]; sentence `i` is tokens `bounds[i]:bounds[i + 1]`.
        edges: int64 [n_documents + 1]; document `d` is sentences `edges[d]:edges[d + 1]`.
    """
    number = np.arange(len(bounds) - 1)
    return Plan(_documents(edges), number, number + 1, bounds[:-1], bounds[1:])


def plan_surroundings(
    bounds: np.ndarray, edges: np.ndarray, capacity: int, max_prev: int | None, max_next: int | None
) -> Plan:
    """Plan windows that show each sentence in the context of its document.

    Neighbours are added alternately, next then previous, until the window is full (the last one may be cut at a
    token) or the limits are reached. Consecutive sentences that would show the same tokens share a window.

    Three sentences of 2 tokens and a fourth of 6, in windows of 6 tokens:

    >>> plan = plan_surroundings(np.array([0, 2, 4, 6, 12]), np.array([0, 4]), 6, None, None)
    >>> plan.sentence_start.tolist(), plan.token_start.tolist(), plan.token_end.tolist()
    ([0, 2, 3], [0, 4, 6], [6, 10, 12])

    Args:
        bounds: int64 [n_sentences + 1]; sentence `i` is tokens `bounds[i]:bounds[i + 1]`.
        edges: int64 [n_documents + 1]; document `d` is sentences `edges[d]:edges[d + 1]`.
        capacity: maximum tokens per window, without special tokens.
        max_prev: sentences of context before; None for as many as fit.
        max_next: sentences of context after; None for as many as fit.
    """
    number, document = np.arange(len(bounds) - 1), _documents(edges)
    first, last = edges[document], edges[document + 1]
    if max_prev is not None:
        first = np.maximum(first, number - min(max_prev, len(number)))
    if max_next is not None:
        last = np.minimum(last, number + 1 + min(max_next, len(number)))
    # Sentences without tokens are skipped: `place` indexes the distinct ends of sentences.
    ends, place = np.unique(bounds, return_inverse=True)
    left, right, lowest, highest = place[:-1], place[1:], place[first], place[last]

    def width(rounds: np.ndarray) -> np.ndarray:
        return ends[np.minimum(right + rounds, highest)] - ends[np.maximum(left - rounds, lowest)]

    # The largest number of rounds, each adding a sentence on both sides, that still fits; found bit by bit.
    rounds = np.zeros(len(number), np.int64)
    for bit in reversed(range(len(ends).bit_length())):
        more = rounds + (1 << bit)
        rounds = np.where(width(more) <= capacity, more, rounds)
    # One more round fills the window.
    token_start = ends[np.maximum(left - rounds, lowest)]
    token_end = np.minimum(ends[np.minimum(right + rounds + 1, highest)], token_start + capacity)
    token_start = np.maximum(ends[np.maximum(left - rounds - 1, lowest)], token_end - capacity)
    too_long = np.diff(bounds) > capacity
    token_start, token_end = np.where(too_long, bounds[:-1], token_start), np.where(too_long, bounds[1:], token_end)

    new = np.ones(len(number), np.bool_)
    new[1:] = np.any([values[1:] != values[:-1] for values in (document, token_start, token_end)], axis=0)
    start = np.flatnonzero(new)
    return Plan(document[start], start, np.append(start, len(number))[1:], token_start[start], token_end[start])


def plan_blocks(bounds: np.ndarray, edges: np.ndarray, capacity: int) -> Plan:
    """Plan windows filled with consecutive sentences, with a margin of context at both ends.

    A margin is an eighth of the window (`BLOCK_MARGIN`) and may begin or end in the middle of a sentence. There is
    no margin at the beginning and end of the document; a document that fits in a window gets one window. A sentence
    that leaves no room for margins gets its own window, with the remaining room divided equally between both sides.

    Args:
        bounds: int64 [n_sentences + 1]; sentence `i` is tokens `bounds[i]:bounds[i + 1]`.
        edges: int64 [n_documents + 1]; document `d` is sentences `edges[d]:edges[d + 1]`.
        capacity: maximum tokens per window, without special tokens.

    Six sentences of 4 tokens in windows of 16 with margins of 2: the first window tags 3 of them and shows a margin,
    the second tags the other 3, with a margin before them.

    >>> plan = plan_blocks(np.array([0, 4, 8, 12, 16, 20, 24]), np.array([0, 6]), 16)
    >>> plan.sentence_start.tolist(), plan.token_start.tolist(), plan.token_end.tolist()
    ([0, 3], [0, 10], [14, 24])
    """
    margin = capacity // BLOCK_MARGIN
    rows = []
    for document, (start, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        lowest, highest = int(bounds[start]), int(bounds[stop])
        while start < stop:
            own = int(bounds[start])
            left = max(lowest, own - margin)
            if highest <= left + capacity:
                end, right = stop, highest
            else:
                end = start + int(np.searchsorted(bounds[start : stop + 1], left + capacity - margin, "right")) - 1
                right = min(highest, int(bounds[end]) + margin)
            if end == start:  # The sentence does not fit between margins.
                end = start + 1
                room = capacity - (int(bounds[end]) - own)
                if room < 0:
                    left, right = own, int(bounds[end])
                else:
                    right = min(highest, max(lowest, own - room // 2) + capacity)
                    left = max(lowest, right - capacity)
            rows.append((document, start, end, left, right))
            start = end
    return Plan(*np.array(rows, np.int64).reshape(-1, 5).T)


def _documents(edges: np.ndarray) -> np.ndarray:
    """Return the document of each sentence."""
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges))
