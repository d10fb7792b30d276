"""Calibration of scores: whether a fraction x of the predictions with a score near x are correct.

Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, section 2: reliability diagrams, and the
expected calibration error (equation 3) over bins of equal width.
"""

from collections.abc import Sequence

import numpy as np

N_BINS = 10

CONVENTIONS = (
    "All predictions, by the score of their label, in ten bins of equal width; a score on an edge belongs to the "
    "upper bin. The expected calibration error is the mean, over predictions, of the difference between the mean "
    "score of a bin and its share of correct predictions (Guo et al. 2017, equation 3)."
)


class Calibration:
    """Accumulator of predictions by score; memory is constant.

    >>> calibration = Calibration()
    >>> calibration.add([0.95, 0.92, 0.55], [True, False, True])
    >>> round(calibration.to_json()["expected_calibration_error"], 4)  # 2/3 * |0.935 - 0.5| + 1/3 * |0.55 - 1|
    0.44
    """

    def __init__(self) -> None:
        self._counts = np.zeros(N_BINS, np.int64)
        self._correct = np.zeros(N_BINS, np.int64)
        self._scores = np.zeros(N_BINS)

    def add(self, scores: Sequence[float], correct: Sequence[bool]) -> None:
        """Add predictions.

        Args:
            scores: score of each prediction, 0 to 1.
            correct: whether each prediction is correct.
        """
        values = np.asarray(scores, np.float64)
        bins = np.minimum((values * N_BINS).astype(np.int64), N_BINS - 1)
        self._counts += np.bincount(bins, minlength=N_BINS)
        self._correct += np.bincount(bins[np.asarray(correct, np.bool_)], minlength=N_BINS)
        self._scores += np.bincount(bins, values, N_BINS)

    def to_json(self) -> dict[str, object]:
        """Return the table, one row per bin (means are None in empty bins), and the expected calibration error."""
        total = int(self._counts.sum())
        bins: list[dict[str, object]] = []
        error = 0.0
        for number, (count, correct, scores) in enumerate(zip(self._counts, self._correct, self._scores, strict=True)):
            n = int(count)
            bins.append(
                {
                    "from": number / N_BINS,
                    "to": (number + 1) / N_BINS,
                    "predictions": n,
                    "correct": int(correct),
                    "mean_score": float(scores) / n if n else None,
                    "precision": int(correct) / n if n else None,
                }
            )
            error += abs(float(scores) - int(correct))
        return {
            "predictions": total,
            "expected_calibration_error": error / total if total else None,
            "bins": bins,
        }
