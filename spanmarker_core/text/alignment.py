"""Alignment of character ranges with words."""

from typing import NamedTuple

import numpy as np


class WordRange(NamedTuple):
    """The words at the edges of a range of characters.

    Attributes:
        first: index of the first word that ends after the range's start; the number of words if none does.
        last: index of the last word that begins before the range's end; -1 if none does.
        begins: whether the range begins where `first` begins.
        ends: whether the range ends where `last` ends.
    """

    first: int
    last: int
    begins: bool
    ends: bool


def words_of_range(starts: np.ndarray, ends: np.ndarray, char_start: int, char_end: int) -> WordRange:
    """Return the words at the edges of a range. An empty word, which some tokenizers produce, is neither.

    >>> words_of_range(np.array([0, 4, 9]), np.array([3, 8, 12]), 4, 12)
    WordRange(first=1, last=2, begins=True, ends=True)

    Args:
        starts: int64 [n_words], first character of each word, in order.
        ends: int64 [n_words], last character plus one.
        char_start: first character of the range.
        char_end: its last character plus one.
    """
    first = int(np.searchsorted(ends, char_start, "right"))
    last = int(np.searchsorted(starts, char_end, "left")) - 1
    begins = first < len(starts) and int(starts[first]) == char_start
    return WordRange(first, last, begins, last >= 0 and int(ends[last]) == char_end)
