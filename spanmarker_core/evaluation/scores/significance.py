"""Whether one system is better than another: over documents (bootstrap) and over seeds (paired t).

The two say different things. Over documents: would the difference hold on other texts of the kind, with these trained
models? Over seeds: would it hold if both were trained again? A claim wants both.

Sources: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, 13.3 (percentile interval) and 16.2 (a test
resamples under the hypothesis of no difference: the resampled differences, moved to have their middle at 0); Koehn,
Statistical significance tests for machine translation evaluation, 2004 (paired over texts); Abramowitz & Stegun 26.7.3
and 26.7.4 (Student's t for whole degrees of freedom).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

#: Weights of a block of resamples that are held at once, in numbers.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Difference:
    """A difference of two means, first less second.

    Attributes:
        difference: of what was measured.
        low, high: the 95 % interval; NaN where it can't be known.
        p: chance of a difference at least as large, either way, if there were none; NaN where it can't be known.
        n: documents, or pairs of seeds.
    """

    difference: float
    low: float
    high: float
    p: float
    n: int

    def to_json(self) -> dict[str, float | None]:
        """Return JSON values: NaN is None."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


def micro_f1(counts: np.ndarray) -> np.ndarray:
    """Return micro F1 of [..., 3] counts: gold, predicted, correct. Nothing to divide by is 0.

    >>> micro_f1(np.array([[4, 2, 2], [0, 0, 0]])).round(3).tolist()
    [0.667, 0.0]
    """
    whole = counts[..., 0] + counts[..., 1]
    return np.divide(2 * counts[..., 2], whole, out=np.zeros(whole.shape), where=whole > 0)


def over_documents(first: np.ndarray, second: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> Difference:
    """Compare micro F1 by a paired bootstrap: both systems are scored on the same documents, drawn with replacement.

    The F1 of a system with several seeds is the mean of its seeds' F1, within each resample too.

    Args:
        first, second: gold, predicted and correct of each seed and document, [n_seeds, n_documents, 3]; the
            documents are the same in both, the numbers of seeds may differ.
        resamples: how often documents are drawn; the least p is 1 / (resamples + 1).
        seed: of the drawing; it fixes the answer.

    Returns:
        Of a single document, a difference without an interval: all draws are the same.

    Raises:
        ValueError: shapes or gold disagree, or nothing is there to draw from.
    """
    _check(first, second)
    n_documents = first.shape[1]
    # float64 throughout: counts stay whole, so the order of the sums changes nothing.
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
    """Compare the F1 of each of several groups of entities, such as labels, by the same draws of documents.

    Each group is told as `over_documents` would with this seed. Nothing is corrected for how many groups there are: of
    twenty without a difference, one is expected to show p below 0.05.

    Args:
        first, second: gold, predicted and correct of each group and document, [n_groups, n_documents, 3].
        resamples, seed: as in `over_documents`.

    Raises:
        ValueError: shapes or gold disagree, or nothing is there to draw from.
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
    """Yield the sums of drawn documents, blocks of [n_draws, n_counts], for counts of [n_documents, n_counts]."""
    n_documents = len(flat)
    generator = np.random.default_rng(seed)
    shares = np.full(n_documents, 1 / n_documents)
    block = max(1, _BLOCK // n_documents)
    for at in range(0, resamples, block):
        times = generator.multinomial(n_documents, shares, size=min(block, resamples - at))
        yield times.astype(np.float64) @ flat


def _over_documents(observed: float, drawn: np.ndarray, n_documents: int) -> Difference:
    if n_documents < 2:  # Every draw is the same document, which says nothing of others.
        return Difference(observed, math.nan, math.nan, math.nan, n_documents)
    low, high = np.quantile(drawn, (0.025, 0.975))
    # A hair's breadth less, or rounding would tell equal differences apart.
    larger = int(np.count_nonzero(np.abs(drawn - observed) >= abs(observed) - 1e-12))
    return Difference(observed, float(low), float(high), (larger + 1) / (len(drawn) + 1), n_documents)


def over_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare two systems by Student's paired t over the same seeds.

    With three seeds the interval is wide and honest: it is 4.3 standard errors to either side.

    Args:
        first, second: a score of each seed, in the same order.

    Raises:
        ValueError: lengths differ, or no seeds.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError(f"{len(first)} and {len(second)} seeds are no pairs")
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return Difference(mean, math.nan, math.nan, math.nan, n)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-15 * max(1.0, abs(mean)):  # every seed differs by the same
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
    """Return mean F1 of the first seeds less that of the others; counts [..., n_all_seeds, 3]."""
    f1 = micro_f1(counts)
    return f1[..., :n_first].mean(axis=-1) - f1[..., n_first:].mean(axis=-1)


def _t_within(t: float, degrees: int) -> float:
    """Return the chance that |T| < t for Student's T with so many degrees of freedom."""
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
    """Return the t for which |T| < t has a chance of 95 %."""
    low, high = 0.0, 16.0  # of 1 degree: 12.7
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2
