"""Geometry of a model's span representations: norms, cohesion of classes, and similarity of overlapping spans.

After Zhu et al. 2023 (DSpERT), section 5, for any architecture with a linear classifier of span features. With z the
features of a span (the pre-logit representation of equation 6) and W the classifier's weight:

    norms        L2 norms of z by class and of the rows of W, the "templates" of section 5.2 (Table 5)
    cosines      mean cosine of z within a class, between two classes, and between entities and no entity (Table 5)
    templates    mean absolute cosine of the rows of W, without the bias (Table 5)
    overlaps     mean cosine of z of an entity and its neighbours, by overlapping ratio (section 5.1, Table 4)
    pca          z of entities on their first two principal components (section 5.3, Figure 4)

All are computed in float64. A span with two labels belongs to both classes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spanmarker_core.data import Sentence
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.representations.cosines import (
    Cosines,
    Overlap,
    Templates,
    of_classes,
    of_overlaps,
    of_templates,
)
from spanmarker_core.evaluation.representations.span_features import NEAR, RATIOS, norms
from spanmarker_core.evaluation.representations.span_sample import SpanSample, sample_spans
from spanmarker_core.inference.tagger import Tagger

FORMAT_VERSION = 1
#: Default number of sampled spans per class.
SPANS_A_CLASS = 100
#: Number of entity classes on the plane of the principal components: more would be hard to tell apart.
CLASSES_ON_PLANE = 5
#: Levels of overlap, and the groups of overlapping ratios of each, numbered as `neighbours` returns them.
LEVELS = {"none": slice(0, 1), "weak": slice(1, 6), "strong": slice(6, RATIOS)}
_BINS = 20

CONVENTIONS = (
    "A representation is the input of the linear classifier. Each label of the gold entities is a class; all other "
    "candidate spans form the class without an entity. Each class is a random sample of spans, up to a limit. The "
    "cosine within a class is the mean over pairs of different spans, the cosine between two classes the mean over "
    "pairs of one span of each; means over classes give each class, or pair of classes, the same weight. Norms of "
    "entities and overlaps weight each class by its frequency. The overlap ratio of two spans is the number of words "
    "in both divided by the number of words in either: weak is above 0 and up to 0.5, strong is above 0.5 and below "
    f"1. Neighbours are candidate spans of the same sentence that overlap or are up to {NEAR} words apart. After "
    "DSpERT (Zhu et al. 2023), section 5."
)


@dataclass(frozen=True)
class ClassNorms:
    """L2 norms of the representations of a class.

    Attributes:
        label: the label; None for no entity.
        seen: number of candidate spans in the data.
        taken: number of sampled spans.
        zero: number of sampled spans whose representation is all zeros, so that they have no cosine.
        mean: mean norm.
        deviation: sample standard deviation of the norms.
        median: median norm.
    """

    label: str | None
    seen: int
    taken: int
    zero: int
    mean: float | None
    deviation: float | None
    median: float | None


@dataclass(frozen=True)
class Plane:
    """Entities on the first two principal components of their representations.

    Attributes:
        variance: share of the total variance of each component.
        points: points by label, the most frequent first: [[first, second], …].
    """

    variance: list[float]
    points: dict[str, list[list[float]]]


@dataclass(frozen=True)
class Representations:
    """The complete analysis. Classes are ordered by frequency; `norms` and `histogram` end with no entity.

    Attributes:
        size: dimension of the representations.
        limit: maximum number of sampled spans per class.
        sentences: number of sentences read.
        unreachable: number of entities that are not candidate spans of the model.
        unknown: gold labels that the model has no class for.
        entity_norm: mean norm of entities.
        norms: norms of each class.
        histogram: `{"edges": [n + 1], "entities": [n], "no_entity": [n]}`, shares of spans by norm.
        cosines: mean cosines of classes.
        templates: geometry of the classifier's weight.
        overlaps: mean cosines for the levels of Table 4.
        ratios: mean cosines by tenths of the overlapping ratio.
        plane: entities on two principal components.
    """

    size: int
    limit: int
    sentences: int
    unreachable: int
    unknown: list[str]
    entity_norm: float | None
    norms: list[ClassNorms]
    histogram: dict[str, list[float]]
    cosines: Cosines
    templates: Templates
    overlaps: list[Overlap]
    ratios: list[Overlap]
    plane: Plane

    def to_json(self, facts: Mapping[str, object]) -> dict[str, object]:
        """Return JSON values.

        Args:
            facts: the data and settings of the analysis, as JSON values.
        """
        return {"format_version": FORMAT_VERSION, "conventions": CONVENTIONS, "facts": dict(facts), **asdict(self)}


def analyse(model: Tagger, sentences: Iterable[Sentence], limit: int = SPANS_A_CLASS) -> Representations:
    """Analyse a model's representations of the spans of annotated sentences.

    Args:
        model: a loaded model.
        sentences: annotated sentences, grouped by document and in order. They are streamed.
        limit: maximum number of sampled spans per class, at least 1.

    Raises:
        CoreError: `call.bad_span_limit`; `representations.none` if the architecture does not classify spans;
            `data.no_entities` if no entity is a candidate span.
    """
    if limit < 1:
        raise CoreError("call.bad_span_limit", value=limit)
    sample = sample_spans(model, sentences, limit)
    network: Any = model.network
    weight = network.classifier.weight.detach().float().cpu().numpy()
    templates = of_templates(weight, model.config.labels, model.config.outside_index)
    return of_sample(sample, templates, limit)


def of_sample(sample: SpanSample, templates: Templates, limit: int) -> Representations:
    """Analyse sampled spans.

    Args:
        sample: the spans with their features.
        templates: geometry of the classifier's weight.
        limit: maximum number of spans per class that were sampled.
    """
    n_labels = len(sample.labels)
    features = sample.features.astype(np.float64)
    lengths = norms(features)
    taken = np.bincount(sample.label, minlength=n_labels + 1)
    # Number of spans of the data that each sampled span represents.
    weight = (sample.seen / np.maximum(taken, 1))[sample.label]
    weight[sample.label == n_labels] = 0
    entity = sample.label < n_labels
    names: list[str | None] = [*sample.labels, None]
    return Representations(
        size=features.shape[1],
        limit=limit,
        sentences=sample.sentences,
        unreachable=sample.unreachable,
        unknown=sorted(set(sample.labels) - set(templates.labels)),
        entity_norm=float(np.average(lengths[entity], weights=weight[entity])),
        norms=[
            _class_norms(name, int(sample.seen[number]), lengths[sample.label == number])
            for number, name in enumerate(names)
        ],
        histogram=_histogram(lengths, entity, weight),
        cosines=of_classes(features, sample.label, n_labels),
        templates=templates,
        overlaps=of_overlaps(sample.cosine_sums, sample.pairs, weight, LEVELS),
        ratios=of_overlaps(
            sample.cosine_sums, sample.pairs, weight, {f"{g / 10:g}": slice(g, g + 1) for g in range(RATIOS)}
        ),
        plane=_plane(sample, features),
    )


def principal(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points on the first two principal components, float64 [n, 2], and the share of variance of each, [2].

    Computed from the singular values of the centred features. The sign of a component makes its largest weight
    positive. Missing components are zeros.

    Args:
        features: float64 [n, size].

    Points on a line have all their variance along it:

    >>> points, share = principal(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]))
    >>> (points.round(6) + 0).tolist(), share.round(6).tolist()
    ([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]], [1.0, 0.0])
    """
    left, values, right = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    n = min(2, len(values))
    signs = np.sign(right[np.arange(n), np.abs(right[:n]).argmax(axis=1)])
    points, share = np.zeros((len(features), 2)), np.zeros(2)
    points[:, :n] = left[:, :n] * (values[:n] * signs)
    total = float((values**2).sum())
    if total > 0:
        share[:n] = values[:n] ** 2 / total
    return points, share


def _plane(sample: SpanSample, features: np.ndarray) -> Plane:
    drawn = np.flatnonzero(sample.label < min(CLASSES_ON_PLANE, len(sample.labels)))
    points, share = principal(features[drawn])
    # Six digits exceed the resolution of the page and keep the file small.
    return Plane(
        variance=share.tolist(),
        points={
            label: [[float(f"{x:.6g}"), float(f"{y:.6g}")] for x, y in points[sample.label[drawn] == number].tolist()]
            for number, label in enumerate(sample.labels[:CLASSES_ON_PLANE])
        },
    )


def _class_norms(label: str | None, seen: int, lengths: np.ndarray) -> ClassNorms:
    some = len(lengths) > 0
    return ClassNorms(
        label=label,
        seen=seen,
        taken=len(lengths),
        zero=int((lengths == 0).sum()),
        mean=float(lengths.mean()) if some else None,
        deviation=float(lengths.std(ddof=1)) if len(lengths) > 1 else None,
        median=float(np.median(lengths)) if some else None,
    )


def _histogram(lengths: np.ndarray, entity: np.ndarray, weight: np.ndarray) -> dict[str, list[float]]:
    edges = np.histogram_bin_edges(lengths, _BINS)
    shares = [
        np.histogram(lengths[entity], edges, weights=weight[entity])[0],
        np.histogram(lengths[~entity], edges)[0].astype(np.float64),
    ]
    parts = dict(zip(("entities", "no_entity"), shares, strict=True))
    return {"edges": edges.tolist()} | {name: (each / max(each.sum(), 1)).tolist() for name, each in parts.items()}
