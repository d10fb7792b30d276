"""Significance of a difference between two systems: over documents (bootstrap) and over seeds (paired t).

The two answer different questions. Over documents: would the difference persist on other texts of the same kind, with
these trained models? Over seeds: would it persist if both models were trained again? A claim needs both.

Sources: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, 13.3 (percentile interval) and 16.2 (a test
resamples under the hypothesis of no difference: the resampled differences, shifted to be centred at 0); Koehn,
Statistical significance tests for machine translation evaluation, 2004 (paired over texts); Abramowitz & Stegun 26.7.3
and 26.7.4 (Student's t for integer degrees of freedom).
"""

import math
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

#: Number of weights of a block of resamples that are held in memory at once.
_BLOCK = 4_000_000
#: Bootstrap samples for the interval of one F1: their 2.5 % and 97.5 % quantiles vary by about 0.05 standard errors.
_INTERVAL_RESAMPLES = 2_000


@dataclass(frozen=True)
class Difference:
    """A difference of two means, first minus second.

    Attributes:
        difference: the observed difference.
        low: lower bound of the 95 % interval; NaN if it cannot be determined.
        high: upper bound of the 95 % interval; NaN if it cannot be determined.
        p: two-sided probability of a difference at least as large if there were none; NaN if it cannot be determined.
        n: number of documents, or of pairs of seeds.
    """

    difference: float
    low: float
    high: float
    p: float
    n: int

    def to_json(self) -> dict[str, float | None]:
        """Return JSON values, with None for NaN."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


def micro_f1(counts: np.ndarray) -> np.ndarray:
    """Return micro F1; 0 if the denominator is 0.

    Args:
        counts: [..., 3], numbers of gold, predicted and correct entities.

    >>> micro_f1(np.array([[4, 2, 2], [0, 0, 0]])).round(3).tolist()
    [0.667, 0.0]
    """
    whole = counts[..., 0] + counts[..., 1]
    return np.divide(2 * counts[..., 2], whole, out=np.zeros(whole.shape), where=whole > 0)


class DocumentCounts:
    """Counts of entities by document, for the interval of a system's F1; memory grows by 24 bytes per document.

    >>> counts = DocumentCounts()
    >>> for document, predicted in (("a", {1}), ("b", {1, 2}), ("b", set())):
    ...     counts.add(document, {1}, predicted)
    >>> counts.array().tolist(), counts.f1_interval()
    ([[1, 1, 1], [2, 2, 1]], (0.5, 1.0))
    """

    def __init__(self) -> None:
        self._counts = array("q")
        self._document: object = None

    def add(self, document: object, gold: Collection[object], predicted: Collection[object]) -> None:
        """Add a sentence; the sentences of a document must follow each other.

        Args:
            document: id of its document.
            gold: its gold entities, each once.
            predicted: its predictions, each once.
        """
        if not self._counts or document != self._document:
            self._document = document
            self._counts.extend((0, 0, 0))
        for place, count in ((-3, len(gold)), (-2, len(predicted)), (-1, len(set(gold).intersection(predicted)))):
            self._counts[place] += count

    def array(self) -> np.ndarray:
        """Return the numbers of gold, predicted and correct entities, int64 [n_documents, 3]."""
        return np.array(self._counts, np.int64).reshape(-1, 3)

    def f1_interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of micro F1 over documents; None for fewer than two documents.

        The bootstrap is that of `over_documents`, for one system: documents are drawn with replacement, always in the
        same way, and the interval holds the middle 95 % of the samples' F1.
        """
        counts = self.array()
        if len(counts) < 2:
            return None
        flat = counts.astype(np.float64)
        f1 = np.concatenate([micro_f1(sums) for sums in _resampled(flat, _INTERVAL_RESAMPLES, seed=0)])
        low, high = np.quantile(f1, (0.025, 0.975))
        return float(low), float(high)


def over_documents(first: np.ndarray, second: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> Difference:
    """Compare micro F1 by a paired bootstrap: both systems are scored on the same documents, drawn with replacement.

    The F1 of a system with several seeds is the mean of its seeds' F1, also within each resample.

    Args:
        first: gold, predicted and correct counts of the first system, [n_seeds, n_documents, 3].
        second: counts of the second system for the same documents; the number of seeds may differ.
        resamples: number of bootstrap samples of documents; the smallest possible p is 1 / (resamples + 1).
        seed: seed of the sampling; the same seed gives the same result.

    Returns:
        The difference. For a single document it has no interval, since all samples are equal.

    Raises:
        ValueError: the shapes or the gold counts disagree, or there are no documents.
    """
    _check(first, second)
    n_documents = first.shape[1]
    # float64 throughout: counts stay whole numbers, so the order of the sums is irrelevant.
    table = np.concatenate([first, second]).astype(np.float64)
    flat = np.ascontiguousarray(table.transpose(1, 0, 2)).reshape(n_documents, -1)  # [n_documents, n_all_seeds * 3]
    observed = float(_difference(table.sum(axis=1), len(first)))
    drawn = np.concatenate(
        [_difference(sums.reshape(-1, len(table), 3), len(first)) for sums in _resampled(flat, resamples, seed)]
    )
    return _over_documents(observed, drawn, n_documents)


def over_documents_each(
    first: np.ndarray, second: np.ndarray, *, resamples: int = 10_000, seed: int = 0
) -> list[Difference]:
    """Compare the F1 of several groups of entities, such as labels, with the same bootstrap samples of documents.

    The result of each group equals that of `over_documents` with this seed. There is no correction for the number of
    groups: of twenty groups without a difference, one is expected to show p below 0.05.

    Args:
        first: gold, predicted and correct counts of the first system, [n_groups, n_documents, 3].
        second: counts of the second system, same shape and same documents.
        resamples: number of bootstrap samples of documents.
        seed: seed of the sampling.

    Raises:
        ValueError: the shapes or the gold counts disagree, or there are no documents.
    """
    if first.shape != second.shape or first.ndim != 3 or first.shape[2] != 3 or 0 in first.shape:
        raise ValueError(f"counts are [n_groups, n_documents, 3], not {list(first.shape)} and {list(second.shape)}")
    if (first[..., 0] != second[..., 0]).any():
        raise ValueError("the gold entities of the documents differ, so these are not the same documents")
    n_groups, n_documents, _ = first.shape
    table = np.stack([first, second]).astype(np.float64)
    flat = np.ascontiguousarray(table.transpose(2, 0, 1, 3)).reshape(n_documents, -1)
    f1 = micro_f1(table.sum(axis=2))
    drawn = []
    for sums in _resampled(flat, resamples, seed):
        of_draw = micro_f1(sums.reshape(-1, 2, n_groups, 3))
        drawn.append(of_draw[:, 0] - of_draw[:, 1])
    columns = np.concatenate(drawn).T
    return [
        _over_documents(float(f1[0, group] - f1[1, group]), columns[group], n_documents) for group in range(n_groups)
    ]


def _resampled(flat: np.ndarray, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield sums over sampled documents, blocks of [n_draws, n_counts], given counts of [n_documents, n_counts]."""
    n_documents = len(flat)
    generator = np.random.default_rng(seed)
    shares = np.full(n_documents, 1 / n_documents)
    block = max(1, _BLOCK // n_documents)
    for at in range(0, resamples, block):
        times = generator.multinomial(n_documents, shares, size=min(block, resamples - at))
        yield times.astype(np.float64) @ flat


def _over_documents(observed: float, drawn: np.ndarray, n_documents: int) -> Difference:
    if n_documents < 2:  # all samples are the same document
        return Difference(observed, math.nan, math.nan, math.nan, n_documents)
    low, high = np.quantile(drawn, (0.025, 0.975))
    # The small tolerance keeps rounding from separating equal differences.
    larger = int(np.count_nonzero(np.abs(drawn - observed) >= abs(observed) - 1e-12))
    return Difference(observed, float(low), float(high), (larger + 1) / (len(drawn) + 1), n_documents)


def over_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare two systems by Student's paired t over the same seeds.

    With three seeds the interval is wide: 4.3 standard errors on either side.

    Args:
        first: score of the first system for each seed.
        second: score of the second system for the same seeds, in the same order.

    Raises:
        ValueError: the lengths differ, or there are no seeds.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError(f"expected the same seeds in both, got {len(first)} and {len(second)}")
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return Difference(mean, math.nan, math.nan, math.nan, n)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-15 * max(1.0, abs(mean)):  # all seeds have the same difference
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 0.0, n)
    half = _t_quantile(n - 1) * error
    return Difference(mean, mean - half, mean + half, 1 - _t_within(abs(mean) / error, n - 1), n)


def _check(first: np.ndarray, second: np.ndarray) -> None:
    for counts in (first, second):
        if counts.ndim != 3 or counts.shape[2] != 3 or 0 in counts.shape:
            raise ValueError(f"counts are [n_seeds, n_documents, 3], none of them 0, not {list(counts.shape)}")
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"{first.shape[1]} and {second.shape[1]} documents are not the same")
    gold = np.concatenate([first, second])[:, :, 0]
    if (gold != gold[0]).any():
        raise ValueError("the gold entities of the documents differ, so these are not the same documents")


def _difference(counts: np.ndarray, n_first: int) -> np.ndarray:
    """Return mean F1 of the first seeds minus that of the others, given counts of [..., n_all_seeds, 3]."""
    f1 = micro_f1(counts)
    return f1[..., :n_first].mean(axis=-1) - f1[..., n_first:].mean(axis=-1)


def _t_within(t: float, degrees: int) -> float:
    """Return the probability that |T| < t for Student's T with the given degrees of freedom.

    Uses the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4: scipy would add 35 MB to every installation.
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    if degrees == 1:
        return 2 * angle / math.pi
    odd = degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for k in range(2 if odd else 1, degrees - 2, 2):
        term *= square * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _t_quantile(degrees: int) -> float:
    """Return the t for which |T| < t has a probability of 95 %."""
    low, high = 0.0, 16.0  # 1 degree of freedom: 12.7
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2
