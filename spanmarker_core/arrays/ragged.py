"""Rows of different lengths as one flat array of values and the offsets of the rows."""

import numpy as np


def ragged_offsets(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of rows with these lengths.

    >>> ragged_offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ragged_take(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions of the values of `rows`, the new offsets).

    >>> positions, new = ragged_take(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> positions.tolist(), new.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    return ragged_ranges(offsets[:-1][rows], offsets[1:][rows])


def ragged_ranges(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions in the ranges `starts[i]:ends[i]`, end to end, the offsets of the ranges among them).

    >>> positions, offsets = ragged_ranges(np.array([4, 0]), np.array([6, 3]))
    >>> positions.tolist(), offsets.tolist()
    ([4, 5, 0, 1, 2], [0, 2, 5])
    """
    lengths = ends - starts
    offsets = ragged_offsets(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets
