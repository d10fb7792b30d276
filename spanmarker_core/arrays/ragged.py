"""Ragged arrays: rows of different lengths, stored as a flat array of values and an array of row offsets."""

import numpy as np


def ragged_offsets(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of rows with the given lengths, int64 [n_rows + 1].

    Args:
        lengths: integers [n_rows].

    >>> ragged_offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ragged_take(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions of the values of `rows`, offsets of these rows among them).

    Args:
        offsets: int64 [n_rows + 1]; row `i` is values `offsets[i]:offsets[i + 1]`.
        rows: indices of the rows to take, in any order.

    >>> positions, new = ragged_take(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> positions.tolist(), new.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    return ragged_ranges(offsets[:-1][rows], offsets[1:][rows])


def ragged_ranges(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate the ranges `starts[i]:ends[i]`; return (positions, offsets of the ranges among them).

    Args:
        starts: int64 [n_ranges].
        ends: int64 [n_ranges], exclusive.

    >>> positions, offsets = ragged_ranges(np.array([4, 0]), np.array([6, 3]))
    >>> positions.tolist(), offsets.tolist()
    ([4, 5, 0, 1, 2], [0, 2, 5])
    """
    lengths = ends - starts
    offsets = ragged_offsets(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets
