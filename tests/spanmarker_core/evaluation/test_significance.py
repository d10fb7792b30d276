"""Significance against numbers worked by hand, against scipy, and against what p means."""

import math

import numpy as np
import pytest
from scipy import stats

from spanmarker_core.evaluation.scores.significance import DocumentCounts, micro_f1, over_documents, over_seeds


def system(generator, gold, share):
    """Counts [n_documents, 3] of one seed that finds this share of the gold."""
    correct = generator.binomial(gold, share)
    return np.stack([gold, correct + generator.poisson(0.3, len(gold)), correct], axis=-1)


def test_two_documents_by_hand():
    """F1 of the first is 1 on every document, of the second 1 and 0. A resample is AA, AB, BA or BB."""
    first = np.array([[[1, 1, 1], [1, 1, 1]]])
    second = np.array([[[1, 1, 1], [1, 1, 0]]])
    found = over_documents(first, second, resamples=20_000, seed=3)
    # The differences are 0 (AA, 1/4), 1/2 (AB and BA) and 1 (BB, 1/4); moved by the observed 1/2, half lie 1/2 away.
    assert found.difference == 0.5
    assert (found.low, found.high, found.n) == (0.0, 1.0, 2)
    assert found.p == pytest.approx(0.5, abs=0.02)


def test_one_document_has_no_interval():
    found = over_documents(np.array([[[4, 4, 4]]]), np.array([[[4, 4, 3]]]), resamples=50)
    assert (found.difference, found.n) == (0.25, 1)
    assert found.to_json() == {"difference": 0.25, "low": None, "high": None, "p": None, "n": 1}


def test_seeds_are_averaged_within_a_resample():
    first = np.array([[[2, 2, 2], [2, 2, 0]], [[2, 2, 0], [2, 2, 2]]])  # each seed right on one document
    second = np.array([[[2, 2, 1], [2, 2, 1]]])
    found = over_documents(first, second, resamples=500)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_the_interval_is_that_of_scipy():
    generator = np.random.default_rng(1)
    gold = generator.poisson(3, 120)
    first, second = (np.stack([system(generator, gold, share) for _ in range(2)]) for share in (0.8, 0.75))
    found = over_documents(first, second, resamples=4000, seed=2)

    def difference(documents):
        sums = [side[:, documents.astype(int)].sum(axis=1) for side in (first, second)]
        return micro_f1(sums[0]).mean() - micro_f1(sums[1]).mean()

    theirs = stats.bootstrap(
        (np.arange(120),), difference, n_resamples=4000, method="percentile", vectorized=False, rng=5
    )
    assert found.difference == difference(np.arange(120))
    width = found.high - found.low
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.06 * width)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.06 * width)


def test_the_interval_of_one_f1_is_that_of_scipy():
    random = np.random.default_rng(4)
    counts = DocumentCounts()
    for document in range(150):
        gold = set(range(int(random.integers(0, 9))))
        found = {each for each in gold if random.random() < 0.7} | set(range(100, 100 + int(random.integers(0, 4))))
        for part in (0, 1):  # two sentences of one document
            counts.add(document, {e for e in gold if e % 2 == part}, {e for e in found if e % 2 == part})
    table = counts.array()
    assert len(table) == 150
    theirs = stats.bootstrap(
        (np.arange(150),),
        lambda documents: micro_f1(table[documents.astype(int)].sum(axis=0)),
        n_resamples=4000,
        method="percentile",
        vectorized=False,
        rng=5,
    ).confidence_interval
    width = theirs.high - theirs.low
    assert counts.f1_interval() == pytest.approx((theirs.low, theirs.high), abs=0.06 * width)
    low, high = counts.f1_interval()
    assert low < micro_f1(table.sum(axis=0)) < high


def test_one_document_has_no_interval_of_f1():
    counts = DocumentCounts()
    assert counts.f1_interval() is None
    counts.add("a", {1}, {1})
    counts.add("a", {2}, set())
    assert (counts.array().tolist(), counts.f1_interval()) == ([[2, 1, 1]], None)


@pytest.mark.slow
def test_under_no_difference_p_is_uniform_and_a_difference_is_found():
    generator = np.random.default_rng(4)

    def p(shares):
        gold = generator.poisson(2, 100)
        sides = [system(generator, gold, share)[None] for share in shares]
        return over_documents(*sides, resamples=400).p

    none = np.array([p((0.7, 0.7)) for _ in range(400)])
    # Bounds are about three standard errors of 400 draws.
    assert 0.02 < np.mean(none < 0.05) < 0.09
    assert 0.15 < np.mean(none < 0.2) < 0.27
    assert 0.42 < np.mean(none < 0.5) < 0.58
    assert np.mean([p((0.8, 0.6)) < 0.05 for _ in range(50)]) > 0.9


def test_ten_thousand_resamples_of_many_documents_are_the_same_each_time():
    generator = np.random.default_rng(0)
    gold = generator.poisson(2, 500)
    sides = [np.stack([system(generator, gold, 0.7)]) for _ in range(2)]
    assert over_documents(*sides) == over_documents(*sides)


@pytest.mark.parametrize("n", range(2, 8))
def test_seeds_as_scipy_does(n):
    generator = np.random.default_rng(n)
    first, second = generator.normal(0.6, 0.02, n), generator.normal(0.58, 0.02, n)
    found, theirs = over_seeds(first, second), stats.ttest_rel(first, second)
    interval = theirs.confidence_interval(0.95)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-10)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_one_seed_has_no_interval_and_equal_differences_no_width():
    alone = over_seeds([0.5], [0.4])
    assert alone.difference == pytest.approx(0.1)
    assert math.isnan(alone.p)
    assert math.isnan(alone.low)
    assert over_seeds([0.5, 0.6], [0.5, 0.6]).p == 1.0
    assert over_seeds([0.5, 0.75], [0.25, 0.5]).p == 0.0


def test_what_can_not_be_compared_is_refused():
    counts = np.ones((1, 3, 3), dtype=int)
    with pytest.raises(ValueError, match="not the same documents"):
        over_documents(counts, counts * 2)
    with pytest.raises(ValueError, match="3 and 2 documents"):
        over_documents(counts, counts[:, :2])
    with pytest.raises(ValueError, match="n_seeds"):
        over_documents(counts[0], counts[0])
    with pytest.raises(ValueError, match="same seeds in both"):
        over_seeds([1], [1, 2])
