"""Medians, and ratios of times that were measured in the same rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """A median with its range.

    Attributes:
        median: the median.
        low: the smallest value.
        high: the largest value.
    """

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the range.

    Args:
        values: the values.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0)
    """
    return Spread(median(values), min(values), max(values))


def speedup(seconds: Sequence[float], against: Sequence[float]) -> Spread:
    """Return the factor by which one contestant is faster than another, computed per round.

    Pairing by round cancels out temporary slowdowns of the machine, which affect both contestants.

    Args:
        seconds: times of the contestant, one per round.
        against: times of the other contestant in the same rounds.

    >>> speedup([1.0, 2.0, 1.0], against=[4.0, 6.0, 2.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """
    return spread([theirs / ours for ours, theirs in zip(seconds, against, strict=True)])
