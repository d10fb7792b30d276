"""Precision, recall and F1 against the score threshold, from one pass of the model.

All decoders take candidates best first, and whether one is kept hangs on better ones alone. So what is decoded at a
threshold is what is decoded without one, less the entities that score below: one decoding holds the whole curve.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: The least threshold that is tried. Below it, candidates would be most of all pairs of spans and labels.
FLOOR = 0.01

#: Thresholds of the curve.
GRID = tuple(number / 100 for number in range(1, 100))

CONVENTIONS = (
    "Each point is what the model gives with that threshold for all labels: every pair of a span and a label that "
    "scores as much is a candidate, and the decoder chooses among them. A threshold is to be chosen on development "
    "data; the best one on the data that are scored says what there would be to gain, and its F1 is no result to "
    "report."
)


@dataclass(frozen=True)
class Point:
    """What a threshold comes to; `threshold` is None for what the model gives without one."""

    threshold: float | None
    precision: float
    recall: float
    f1: float
    predicted: int
    correct: int


def point(threshold: float | None, gold: int, predicted: int, correct: int) -> Point:
    """Return the point of these counts; a score with nothing to divide by is 0."""
    return Point(
        threshold,
        correct / predicted if predicted else 0.0,
        correct / gold if gold else 0.0,
        2 * correct / (gold + predicted) if gold + predicted else 0.0,
        predicted,
        correct,
    )


class ThresholdCurve:
    """Adds up what was decoded down to the lowest threshold; memory does not grow.

    >>> curve = ThresholdCurve([0.5, 0.9])
    >>> curve.add(gold=2, scores=[0.95, 0.6, 0.2], correct=[True, False, True])
    >>> [(point.threshold, point.precision, point.recall) for point in curve.points()]
    [(0.5, 0.5, 0.5), (0.9, 1.0, 0.5)]
    """

    def __init__(self, thresholds: Sequence[float] = GRID) -> None:
        self.thresholds = sorted(set(thresholds))
        self._edges = np.array(self.thresholds, np.float64)
        self._predicted = np.zeros(len(self.thresholds) + 1, np.int64)
        self._correct = np.zeros(len(self.thresholds) + 1, np.int64)
        self._gold = 0

    def add(self, gold: int, scores: Sequence[float], correct: Sequence[bool]) -> None:
        """Add some sentences: gold entities there are, and the score of each decoded entity and whether it is right."""
        self._gold += gold
        # How many thresholds an entity passes, compared as `decoding.select_pairs` compares.
        passed = np.searchsorted(self._edges, np.asarray(scores, np.float64), "right")
        size = len(self._predicted)
        self._predicted += np.bincount(passed, minlength=size)
        self._correct += np.bincount(passed[np.asarray(correct, np.bool_)], minlength=size)

    def points(self) -> list[Point]:
        """Return a point a threshold, rising."""
        predicted = np.cumsum(self._predicted[::-1])[::-1][1:].tolist()
        correct = np.cumsum(self._correct[::-1])[::-1][1:].tolist()
        return [
            point(threshold, self._gold, *counts)
            for threshold, *counts in zip(self.thresholds, predicted, correct, strict=True)
        ]

    def best(self) -> Point:
        """Return the point with the best F1, of equal ones that of the lowest threshold."""
        return max(self.points(), key=lambda point: point.f1)
