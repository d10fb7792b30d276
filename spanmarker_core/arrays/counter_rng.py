"""A stateless random number generator: the same inputs give the same draw, on any machine and in any order."""

import numpy as np
from numpy.typing import ArrayLike


def uniform(*values: ArrayLike) -> np.ndarray:
    """Return draws from [0, 1) that depend only on the given integers, float64 of their common shape.

    Args:
        values: integers or integer arrays, broadcast together; at least one is an array.

    >>> draws = uniform(1, 0, np.zeros(100_000, np.int64), np.arange(100_000))
    >>> round(float(draws.mean()), 2), round(float((draws < 0.05).mean()), 2)
    (0.5, 0.05)
    """
    return (mixed(*values) >> np.uint64(11)) * 2.0**-53


def mixed(*values: ArrayLike) -> np.ndarray:
    """Return a hash of the given integers, uint64 of their common shape.

    One round of splitmix64 (Steele, Lea and Flood 2014) per integer.

    Args:
        values: integers or integer arrays, broadcast together; at least one is an array.
    """
    state = np.zeros(np.broadcast_shapes(*map(np.shape, values)), np.uint64)
    for value in values:
        state = _mix(state ^ np.asarray(value).astype(np.uint64))
    return state


def _mix(state: np.ndarray) -> np.ndarray:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
