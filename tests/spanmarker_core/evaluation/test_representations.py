"""The statistics of span representations of DSpERT's section 5: by hand and by loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spanmarker_core.evaluation.representations.cosines import class_cosines, of_classes, of_overlaps, of_templates
from spanmarker_core.evaluation.representations.representations import LEVELS, of_sample, principal
from spanmarker_core.evaluation.representations.span_features import (
    RATIOS,
)
from spanmarker_core.evaluation.representations.span_sample import SpanSample

#: Far from the ends of what floats hold, where squares vanish.
NUMBERS = st.floats(-100, 100).map(lambda value: 0.0 if abs(value) < 1e-3 else value)


@st.composite
def labelled(draw):
    features = draw(arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=NUMBERS))
    label = draw(arrays(np.int64, len(features), elements=st.integers(0, 3)))
    return features, label


def test_cosines_of_classes_by_hand():
    """Two spans of class 0 at 60 degrees, one of class 1 along the first, one that is no entity the other way."""
    features = np.array([[4.0, 0.0], [1.0, np.sqrt(3.0)], [7.0, 0.0], [-1.0, 0.0]])
    found = of_classes(features, np.array([0, 0, 1, 2]), 2)
    np.testing.assert_allclose(
        np.array(found.matrix, float), [[0.5, 0.75, -0.75], [0.75, np.nan, -1.0], [-0.75, -1.0, np.nan]], rtol=1e-15
    )
    assert found.within == pytest.approx(0.5)  # of class 0 alone: class 1 has no pair
    assert found.between == pytest.approx(0.75)
    assert found.no_entity == pytest.approx((-0.75 - 1.0) / 2)


@given(labelled())
def test_cosines_of_classes_are_those_of_a_double_loop(drawn):
    features, label = drawn
    sums, counts = np.zeros((4, 4)), np.zeros((4, 4))
    for i, first in enumerate(features):
        for j, second in enumerate(features):
            lengths = np.linalg.norm(first) * np.linalg.norm(second)
            if i != j and lengths:
                sums[label[i], label[j]] += first @ second / lengths
                counts[label[i], label[j]] += 1
    expected = np.divide(sums, counts, out=np.full((4, 4), np.nan), where=counts > 0)
    np.testing.assert_allclose(class_cosines(features, label, 4), expected, atol=1e-12)


@given(labelled(), st.floats(0.01, 100), st.permutations(range(8)))
def test_cosines_know_neither_scale_nor_order(drawn, scale, order):
    features, label = drawn
    scales = scale ** np.linspace(-1, 1, len(features))[:, None]
    before = class_cosines(features, label, 4)
    rows = np.array([row for row in order if row < len(features)])
    np.testing.assert_allclose(class_cosines((features * scales)[rows], label[rows], 4), before, atol=1e-12)
    known = before[~np.isnan(before)]
    assert (np.abs(known) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(before, before.T)


def test_templates_by_hand():
    found = of_templates(np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 4.0]]), ["O", "A", "B"], 0)
    assert found.norms == [1.0, 2.0, 5.0]
    assert found.norm == pytest.approx(8 / 3)
    np.testing.assert_allclose(np.array(found.matrix), [[1, 0, 0.6], [0, 1, 0.8], [0.6, 0.8, 1]])
    assert found.between == pytest.approx(0.8)
    assert found.no_entity == pytest.approx(0.3)
    assert found.pairs == pytest.approx(1.4 / 3)


def test_overlaps_by_hand():
    """An entity that stands for three and one that stands for itself; of the first, one neighbour is an entity."""
    sums, pairs = np.zeros((2, 2, RATIOS)), np.zeros((2, 2, RATIOS), np.int64)
    sums[0, 0, 0], pairs[0, 0, 0] = 0.2, 2
    sums[0, 0, 5], pairs[0, 0, 5] = 0.5, 1
    sums[0, 1, 5], pairs[0, 1, 5] = 0.9, 1
    sums[1, 0, 5], pairs[1, 0, 5] = 0.1, 1
    none, weak, strong = of_overlaps(sums, pairs, np.array([3.0, 1.0]), LEVELS)
    assert (none.pairs, none.cosine, none.no_entity) == (2, pytest.approx(0.1), pytest.approx(0.1))
    assert weak.cosine == pytest.approx((3 * 0.5 + 3 * 0.9 + 0.1) / 7)
    assert weak.no_entity == pytest.approx((3 * 0.5 + 0.1) / 4)
    assert weak.pairs == 3
    assert (strong.pairs, strong.cosine, strong.no_entity) == (0, None, None)


def test_norms_weigh_each_class_by_how_often_it_occurs():
    """Of ten spans of A, norm 2, one was taken; of two of B, norm 5, both; what is no entity is 1 long."""
    nothing = np.zeros((4, 2, RATIOS))
    features = np.array([[0, 2], [3, 4], [4, 3], [1, 0]], np.float32)
    sample = SpanSample(
        ["A", "B"], np.array([10, 2, 50]), np.array([0, 1, 1, 2]), features, nothing, nothing.astype(np.int64), 1, 0
    )
    found = of_sample(sample, of_templates(np.eye(3, 2), ["O", "A", "C"], 0), 2)
    assert found.entity_norm == pytest.approx((10 * 2 + 2 * 5) / 12)
    assert [(each.label, each.seen, each.taken, each.mean) for each in found.norms] == [
        ("A", 10, 1, 2.0), ("B", 2, 2, 5.0), (None, 50, 1, 1.0),
    ]  # fmt: skip
    assert found.unknown == ["B"]
    histogram = found.histogram
    assert histogram["edges"][0] == 1
    assert histogram["edges"][-1] == 5
    assert histogram["entities"][-1] == pytest.approx(2 / 12)
    assert histogram["no_entity"][0] == 1


@given(arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=NUMBERS))
def test_principal_components_are_the_eigenvectors_of_the_covariance(features):
    points, share = principal(features)
    assert points.shape == (len(features), 2)
    assert 0 <= share[1] <= share[0] + 1e-12
    assert share.sum() <= 1 + 1e-12
    centred = features - features.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    total = values.sum()
    if total < 1e-6:
        return
    np.testing.assert_allclose(share[: len(values)], (values / total)[:2], atol=1e-9)
    gaps = -np.diff(np.append(values, 0.0)[:3]) / total
    for component in range(min(2, len(values))):
        near = gaps[max(0, component - 1) : component + 1].min() if component else gaps[0]
        if near < 1e-3:
            break  # Of two alike any mixture would do.
        projected = centred @ vectors[:, component]
        projected *= np.sign(projected @ points[:, component]) or 1
        np.testing.assert_allclose(points[:, component], projected, atol=1e-6 * np.sqrt(total))


def test_the_sign_of_a_component_is_settled():
    features = np.array([[0.0, 0.0, 1.0], [1.0, 5.0, 0.0], [-3.0, -9.0, 0.5], [2.0, 1.0, 0.0]])
    points, _ = principal(features)
    assert points[:, 0] @ (features - features.mean(axis=0))[:, 1] > 0
    np.testing.assert_allclose(principal(features[::-1])[0][::-1], points, atol=1e-12)
