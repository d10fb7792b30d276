"""The web page of a comparison, built from the values in its JSON file."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from pipelines.pages import render
from pipelines.pages.cells import interval
from pipelines.pages.figures import Figure, decimal, number, percent
from pipelines.pages.text import name
from pipelines.report.evaluation_page import (
    ERROR_TITLES,
    attribute,
    example_groups,
    example_labels,
    format_fact,
)
from spanmarker_core.evaluation.scores.attributes import BUCKETS
from spanmarker_core.evaluation.scores.comparison import CHANGES
from spanmarker_core.evaluation.scores.error_kinds import KINDS

#: Below this number of documents, intervals are rough: the percentile bootstrap is too narrow for small samples.
_FEW_DOCUMENTS = 20
#: Facts that differ between any two reports.
_OBVIOUS = ("report", "sentences per second")

#: Maximum end of the axis of differences; longer intervals are cut there.
_AXIS = 0.5

CHANGE_TITLES = {
    "won": "Newly found",
    "lost": "Newly missed",
    "mended": "No longer wrong",
    "spoiled": "Newly wrong",
}
#: Columns of the table of changes.
_OUTCOMES = {**CHANGE_TITLES, "both": "Found by both", "neither": "Found by neither", "wrong": "Wrong in both"}
_CHANGE_WORDS = {
    "won": "entities that only the second found, with the predictions of the first",
    "lost": "entities that only the first found, with the predictions of the second",
    "mended": "wrong predictions that only the first makes",
    "spoiled": "wrong predictions that only the second makes",
}


def comparison_page(values: Mapping[str, Any]) -> bytes:
    """Return the page of a comparison.

    Args:
        values: the comparison, as returned by `pipelines.report.comparison.compare_reports`.
    """
    entities = values["entities"]
    labels = by_support(entities)
    totals = {outcome: sum(each[outcome] for each in entities.values()) for outcome in _OUTCOMES}
    overall = values["all"]
    axis = _axis([overall, *values["per_label"].values()])
    known = facts(values)
    return render(
        "comparison",
        title="Comparison",
        headline=verdict(overall),
        values=values,
        overall=overall,
        few=few_documents(values),
        totals=totals,
        axis=f"\N{MINUS SIGN}{100 * axis:.0f} to +{100 * axis:.0f}",
        rows=[
            _row("all labels", overall, axis),
            *(_row(name(label), values["per_label"][label], axis) for label in labels),
        ],
        change_titles=CHANGE_TITLES,
        outcomes=list(_OUTCOMES.values()),
        changes=[
            ["all labels", *(number(totals[outcome]) for outcome in _OUTCOMES)],
            *([name(label), *(number(entities[label][outcome]) for outcome in _OUTCOMES)] for label in labels),
        ],
        errors=_errors(values["errors"]),
        attributes=_attributes(values["attributes"]),
        examples=example_groups(values["examples"], CHANGE_TITLES, _CHANGE_WORDS, CHANGES),
        example_labels=example_labels(values["examples"]),
        differing=[(fact, *_both(pair)) for fact, pair in known if pair[0] != pair[1] and fact not in _OBVIOUS],
        facts=[(fact, *_both(pair), "" if pair[0] == pair[1] else "differs") for fact, pair in known],
    )


def _both(pair: tuple[str, str]) -> tuple[Markup, Markup]:
    return name(pair[0] or "none", 200), name(pair[1] or "none", 200)


def verdict(overall: Mapping[str, Any]) -> str:
    """Return the result of a comparison in one sentence.

    Args:
        overall: the difference over all labels, with its interval.

    >>> verdict({"difference": 0.025, "low": -0.011, "high": 0.066})
    'No clear difference: F1 +2.5 points (95 % interval −1.1 to +6.6)'
    """
    points = f"F1 {_points(overall['difference'])} points"
    if overall["low"] is None:
        return f"{points}, without an interval"
    words = "No clear difference"
    if overall["low"] > 0 or overall["high"] < 0:
        words = f"The second is {'better' if overall['low'] > 0 else 'worse'}"
    return f"{words}: {points} (95 % interval {_points(overall['low'])} to {_points(overall['high'])})"


def _axis(differences: Iterable[Mapping[str, Any]]) -> float:
    """Return the end of the axis of differences, in steps of 0.05."""
    ends = [abs(each[key]) for each in differences for key in ("difference", "low", "high") if each[key] is not None]
    return min(max(math.ceil(20 * max(ends, default=0.0)) / 20, 0.05), _AXIS)


def few_documents(values: Mapping[str, Any]) -> str:
    """Return a warning if there are too few documents for reliable resampling, else an empty string.

    Args:
        values: the comparison.
    """
    documents = values["documents"]
    if documents < 2:
        return "All sentences belong to one document, so the result says nothing about other documents."
    if documents < _FEW_DOCUMENTS:
        return f"There are only {documents} documents to resample, so the intervals are rough."
    return ""


def facts(values: Mapping[str, Any]) -> list[tuple[str, tuple[str, str]]]:
    """Return the facts of both reports as text, side by side; empty where a report lacks one.

    Args:
        values: the comparison.
    """
    first, second = (values["reports"][name] for name in ("first", "second"))
    rows = [("report", (str(first["folder"]), str(second["folder"])))]
    for fact in dict.fromkeys([*first["facts"], *second["facts"]]):
        found = [format_fact(each["facts"][fact]) if fact in each["facts"] else "" for each in (first, second)]
        rows.append((fact.replace("_", " "), (found[0], found[1])))
    return rows


def by_support(entities: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the labels by descending number of gold entities.

    Args:
        entities: counts of entities by label.
    """
    gold = {label: sum(each[name] for name in ("both", "won", "lost", "neither")) for label, each in entities.items()}
    return sorted(entities, key=lambda label: (-gold[label], label))


def _points(difference: float | None) -> Figure:
    """Return a difference of shares in percentage points."""
    if difference is None:
        return number(None)
    points = round(100 * difference, 1)
    return Figure(f"{points:+.1f}".replace("-", "\N{MINUS SIGN}") if points else "0.0", difference)


def _row(label: str, each: Mapping[str, Any], axis: float) -> list[object]:
    return [
        label,
        _points(each["difference"]),
        interval(each["difference"], each["low"], each["high"], (-axis, axis)),
        "" if each["low"] is None else f"{_points(each['low'])} to {_points(each['high'])}",
        decimal(each["p"], 3),
        percent(each["first_f1"]),
        percent(each["second_f1"]),
    ]


def _errors(errors: Mapping[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = []
    for kind in KINDS:
        counts = []
        for side in ("false", "missed"):
            pair = [errors[name][side].get(kind) for name in ("first", "second")]
            counts += [_change(*pair), number(pair[0]), number(pair[1])]
        rows.append([ERROR_TITLES[kind], *counts])
    return rows


def _change(first: int | None, second: int | None) -> Figure:
    return (
        number(None)
        if first is None or second is None
        else Figure(f"{second - first:+,}".replace("-", "\N{MINUS SIGN}") if second != first else "0", second - first)
    )


def _attributes(attributes: Mapping[str, Any]) -> list[list[object]]:
    return [
        [attribute(key, each["words"]), *(_points(each["differences"][bucket]) for bucket in BUCKETS)]
        for key, each in attributes.items()
    ]
