"""Medians, and ratios of times that were taken side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """A median with the least and the greatest value."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the range.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0)
    """
    return Spread(median(values), min(values), max(values))


def speedup(seconds: Sequence[float], against: Sequence[float]) -> Spread:
    """How many times faster than `against`, round by round: what slows a machine down for a while slows both.

    Args:
        seconds: times of one contestant, one a round.
        against: times of the other in the same rounds.

    >>> speedup([1.0, 2.0, 1.0], against=[4.0, 6.0, 2.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """
    return spread([theirs / ours for ours, theirs in zip(seconds, against, strict=True)])
