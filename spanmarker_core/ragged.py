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
    lengths = np.diff(offsets)[rows]
    taken = ragged_offsets(lengths)
    positions = np.arange(taken[-1]) + np.repeat(offsets[:-1][rows] - taken[:-1], lengths)
    return positions, taken
