"""Precision, recall and F1 by score threshold, from a single pass of the model.

All decoders take candidates best first, and whether a candidate is kept depends only on better ones. The entities
decoded with a threshold are therefore those decoded without one, minus the entities that score below it: one decoding
gives the whole curve.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: The lowest threshold. Below it, most pairs of spans and labels would be candidates.
FLOOR = 0.01

#: Thresholds of the curve.
GRID = tuple(number / 100 for number in range(1, 100))

CONVENTIONS = (
    "Each point is the result of the model with that threshold for all labels: every pair of a span and a label with "
    "at least this score is a candidate, and the decoder chooses among the candidates. Choose a threshold on "
    "development data. The best one on the scored data shows the possible gain, but its F1 is not a result to report."
)


@dataclass(frozen=True)
class Point:
    """Scores at a threshold.

    Attributes:
        threshold: the threshold, 0 to 1; None for the model's result without one.
        precision: correct / predicted.
        recall: correct / gold.
        f1: harmonic mean of precision and recall.
        predicted: number of predictions.
        correct: number of correct predictions.
    """

    threshold: float | None
    precision: float
    recall: float
    f1: float
    predicted: int
    correct: int


def point(threshold: float | None, gold: int, predicted: int, correct: int) -> Point:
    """Compute a point from counts; a score with a denominator of 0 is 0.

    Args:
        threshold: the threshold, 0 to 1; None if there is none.
        gold: number of gold entities.
        predicted: number of predictions.
        correct: number of correct predictions.
    """
    return Point(
        threshold,
        correct / predicted if predicted else 0.0,
        correct / gold if gold else 0.0,
        2 * correct / (gold + predicted) if gold + predicted else 0.0,
        predicted,
        correct,
    )


class ThresholdCurve:
    """Accumulator of entities decoded with the lowest threshold; memory is constant.

    Args:
        thresholds: thresholds of the curve.

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
        """Add one or more sentences.

        Args:
            gold: number of gold entities.
            scores: score of each decoded entity, 0 to 1.
            correct: whether each decoded entity is correct.
        """
        self._gold += gold
        # Number of thresholds that an entity passes, compared as decoding compares them.
        passed = np.searchsorted(self._edges, np.asarray(scores, np.float64), "right")
        size = len(self._predicted)
        self._predicted += np.bincount(passed, minlength=size)
        self._correct += np.bincount(passed[np.asarray(correct, np.bool_)], minlength=size)

    def points(self) -> list[Point]:
        """Return one point per threshold, in rising order."""
        predicted = np.cumsum(self._predicted[::-1])[::-1][1:].tolist()
        correct = np.cumsum(self._correct[::-1])[::-1][1:].tolist()
        return [
            point(threshold, self._gold, *counts)
            for threshold, *counts in zip(self.thresholds, predicted, correct, strict=True)
        ]

    def best(self) -> Point:
        """Return the point with the best F1; of equal ones, the one with the lowest threshold."""
        return max(self.points(), key=lambda point: point.f1)
