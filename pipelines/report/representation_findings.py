"""The meaning of the numbers of an analysis of representations, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.pages.figures import percent

#: Difference of two mean cosines that is worth a sentence.
_CLEAR = 0.1
#: Share of the variance below which a picture of two components is a rough one.
_ROUGH = 0.5


def representation_headline(values: Mapping[str, Any]) -> str:
    """Return the two main results in one sentence; empty if neither was measured.

    Args:
        values: values of representations.json.
    """
    parts = []
    if (gap := _gap(values)) is not None:
        parts.append("classes are well separated" if gap > _CLEAR else "classes are hardly separated")
    if (coupling := _coupling(values)) is not None:
        parts.append("overlapping spans look alike" if coupling > _CLEAR else "overlapping spans are told apart")
    return "; ".join(parts).capitalize()


def representation_findings(values: Mapping[str, Any]) -> list[str]:
    """Return what the analysis shows, the most important first.

    Args:
        values: values of representations.json.
    """
    return [*_separation(values), *_closest(values), *_overlaps(values), *_plane(values["plane"])]


def _gap(values: Mapping[str, Any]) -> float | None:
    within, between = values["cosines"]["within"], values["cosines"]["between"]
    return None if within is None or between is None else within - between


def _coupling(values: Mapping[str, Any]) -> float | None:
    cosines = {each["name"]: each["cosine"] for each in values["overlaps"]}
    return None if None in (cosines["strong"], cosines["none"]) else cosines["strong"] - cosines["none"]


def _separation(values: Mapping[str, Any]) -> Iterator[str]:
    gap, cosines = _gap(values), values["cosines"]
    if gap is not None:
        words = "much" if gap > _CLEAR else "hardly"
        yield (
            f"Two entities of one class are {words} more alike (mean cosine {cosines['within']:.2f}) than two of "
            f"different classes ({cosines['between']:.2f})."
        )
    if cosines["within"] is not None and cosines["no_entity"] is not None:
        yield f"An entity and a span that is not an entity have a mean cosine of {cosines['no_entity']:.2f}."


def _closest(values: Mapping[str, Any]) -> Iterator[str]:
    labels, matrix = [each["label"] for each in values["norms"]], values["cosines"]["matrix"]
    pairs = [
        (matrix[one][other], labels[one], labels[other])
        for one in range(len(labels) - 1)
        for other in range(one)
        if matrix[one][other] is not None
    ]
    if pairs:
        cosine, one, other = max(pairs, key=lambda pair: pair[0])
        yield f"The two classes that are most alike are {other} and {one} (mean cosine {cosine:.2f})."


def _overlaps(values: Mapping[str, Any]) -> Iterator[str]:
    coupling = _coupling(values)
    if coupling is None:
        return
    cosines = {each["name"]: each["cosine"] for each in values["overlaps"]}
    words = (
        f"Spans that share over half of their words with an entity have a mean cosine of {cosines['strong']:.2f} with "
        f"it, spans that share none {cosines['none']:.2f}"
    )
    if coupling > _CLEAR:
        yield f"{words}: the more words two spans share, the more alike they look, which makes nested entities harder."
    else:
        yield f"{words}: sharing words hardly makes spans look alike, which helps with nested entities."


def _plane(plane: Mapping[str, Any]) -> Iterator[str]:
    share = sum(plane["variance"])
    if 0 < share < _ROUGH:
        yield (
            f"The picture of two components shows {percent(share, 0)} of the variance: classes that overlap there may "
            "be apart."
        )
