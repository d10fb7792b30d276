"""Mean cosines of span representations, of a classifier's weights, and of entities and their neighbours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spanmarker_core.evaluation.representations.span_features import norms


@dataclass(frozen=True)
class Cosines:
    """Mean cosines; None without pairs.

    Attributes:
        matrix: [n_classes + 1, n_classes + 1], between two classes, on the diagonal within one; the last class is "O".
        within: mean over the entity classes.
        between: mean over the pairs of two entity classes.
        no_entity: mean over the pairs of an entity class and no entity.
    """

    matrix: list[list[float | None]]
    within: float | None
    between: float | None
    no_entity: float | None


@dataclass(frozen=True)
class Templates:
    """Geometry of the rows of the classifier's weight.

    Attributes:
        labels: labels of the model in order, including its label for no entity.
        norms: norm of each row.
        norm: mean of `norms`.
        matrix: [n_labels, n_labels], absolute cosines.
        pairs: mean absolute cosine over all pairs of rows.
        between: mean over the pairs of two entity labels.
        no_entity: mean over the pairs of an entity label and the label for no entity.
    """

    labels: list[str]
    norms: list[float]
    norm: float
    matrix: list[list[float | None]]
    pairs: float | None
    between: float | None
    no_entity: float | None


@dataclass(frozen=True)
class Overlap:
    """Mean cosine of entities and their neighbours, for a range of overlapping ratios.

    Attributes:
        name: name of the range.
        ratio: highest ratio of the range.
        pairs: number of all pairs.
        cosine: mean cosine over all neighbours.
        no_entity: mean cosine over the neighbours that are not entities.
    """

    name: str
    ratio: float
    pairs: int
    cosine: float | None
    no_entity: float | None


def class_cosines(features: np.ndarray, label: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the mean cosine of pairs of different spans, between two classes or within one; NaN without pairs.

    Computed from sums of unit vectors: with s = Σ z/|z| over the n spans of a class, the mean within it is
    (s·s - n)/(n(n - 1)), and between two classes it is s·s'/(n n'). The time therefore grows with the spans, not with
    their pairs. Zero vectors have no cosine and are omitted.

    Args:
        features: float64 [n, size].
        label: int64 [n], from 0 to n_classes - 1.
        n_classes: number of classes.

    Returns:
        float64 [n_classes, n_classes].

    Two orthogonal vectors in class 0, and one between them in class 1:

    >>> class_cosines(np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]]), np.array([0, 0, 1]), 2).round(4).tolist()
    [[0.0, 0.7071], [0.7071, nan]]
    """
    lengths = norms(features)
    there = np.flatnonzero(lengths > 0)
    units = features[there] / lengths[there, None]
    sums = np.zeros((n_classes, features.shape[1]))
    np.add.at(sums, label[there], units)
    count = np.bincount(label[there], minlength=n_classes).astype(np.float64)
    products = sums @ sums.T
    pairs = np.outer(count, count)
    # A span does not form a pair with itself; the cosine would be 1.
    products[np.diag_indices(n_classes)] -= count
    pairs[np.diag_indices(n_classes)] -= count
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0, products / pairs, np.nan)


def of_classes(features: np.ndarray, label: np.ndarray, n_labels: int) -> Cosines:
    """Return the mean cosines of classes.

    Args:
        features: float64 [n, size].
        label: int64 [n], from 0 to n_labels; n_labels is the class "no entity".
        n_labels: number of entity classes.
    """
    matrix = class_cosines(features, label, n_labels + 1)
    return Cosines(
        matrix=_rows(matrix),
        within=_mean(np.diagonal(matrix)[:n_labels]),
        between=_mean(matrix[np.triu_indices(n_labels, 1)]),
        no_entity=_mean(matrix[n_labels, :n_labels]),
    )


def of_templates(weight: np.ndarray, labels: list[str], outside: int) -> Templates:
    """Analyse the rows of a classifier's weight.

    Args:
        weight: [n_labels, size].
        labels: labels of the rows.
        outside: index of the row for no entity.

    >>> made = of_templates(np.array([[0, 2], [3, 0], [-3, 4]]), ["O", "LOC", "PER"], 0)
    >>> made.norms, round(made.between, 4), round(made.no_entity, 4)
    ([2.0, 3.0, 5.0], 0.6, 0.4)
    """
    weight = weight.astype(np.float64)
    # With one class per row, the mean between two classes is the cosine itself.
    matrix = np.abs(class_cosines(weight, np.arange(len(weight)), len(weight)))
    lengths = norms(weight)
    matrix[np.diag_indices(len(weight))] = np.where(lengths > 0, 1.0, np.nan)
    first, second = np.triu_indices(len(weight), 1)
    with_outside = (first == outside) | (second == outside)
    cosines = matrix[first, second]
    return Templates(
        labels=list(labels),
        norms=lengths.tolist(),
        norm=float(lengths.mean()),
        matrix=_rows(matrix),
        pairs=_mean(cosines),
        between=_mean(cosines[~with_outside]),
        no_entity=_mean(cosines[with_outside]),
    )


def of_overlaps(sums: np.ndarray, pairs: np.ndarray, weight: np.ndarray, groups: Mapping[str, slice]) -> list[Overlap]:
    """Return the mean cosine over pairs of entities and their neighbours, by range of overlapping ratios.

    Args:
        sums: float64 [n, 2, RATIOS], sums of cosines, see `SpanSample`.
        pairs: int64 [n, 2, RATIOS], number of pairs in each sum.
        weight: float64 [n], number of entities that each span represents.
        groups: groups of overlapping ratios by name of the range.
    """
    weighted = np.tensordot(weight, sums, 1), np.tensordot(weight, pairs, 1)
    found = []
    for name, group in groups.items():
        total, count = (each[:, group].sum(axis=1) for each in weighted)
        found.append(
            Overlap(
                name=name,
                ratio=(group.stop - 1) / 10,
                pairs=int(pairs[:, :, group].sum()),
                cosine=_ratio(total.sum(), count.sum()),
                no_entity=_ratio(total[0], count[0]),
            )
        )
    return found


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _ratio(total: Any, count: Any) -> float | None:
    return float(total / count) if count else None


def _rows(matrix: np.ndarray) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in matrix.tolist()]
