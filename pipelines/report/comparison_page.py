"""The web page of a comparison, built from the values in its JSON file."""

from collections.abc import Mapping
from typing import Any

from pipelines.pages import render
from pipelines.pages.figures import Figure, decimal, number, percent
from pipelines.pages.text import shown
from pipelines.report.evaluation_page import LABEL_CHARACTERS, example_lists, format_fact
from spanmarker_core.evaluation.scores.attributes import BUCKETS
from spanmarker_core.evaluation.scores.comparison import CHANGES
from spanmarker_core.evaluation.scores.error_kinds import KINDS

#: Below this number of documents, intervals are rough: the percentile bootstrap is too narrow for small samples.
_FEW_DOCUMENTS = 20

_CHANGE_WORDS = {
    "won": "gold entities that only the second found, with the predictions of the first",
    "lost": "gold entities that only the first found, with the predictions of the second",
    "mended": "wrong predictions that only the first model makes",
    "spoiled": "wrong predictions that only the second makes",
}


def comparison_page(values: Mapping[str, Any]) -> bytes:
    """Return the page of a comparison.

    Args:
        values: the comparison, as returned by `pipelines.report.comparison.compare_reports`.
    """
    entities = values["entities"]
    labels = by_support(entities)
    totals = {name: sum(each[name] for each in entities.values()) for name in next(iter(entities.values()), ())}
    overall = values["all"]
    return render(
        "comparison",
        title="Comparison",
        values=values,
        overall=overall,
        few=few_documents(values),
        points={key: _points(overall[key]) for key in ("difference", "low", "high")},
        certain=overall["low"] is not None and (overall["low"] > 0 or overall["high"] < 0),
        totals=totals,
        rows=[
            _row("all labels", overall),
            *(_row(shown(label, LABEL_CHARACTERS), values["per_label"][label]) for label in labels),
        ],
        changes=[
            ["all labels", *map(number, totals.values())],
            *([shown(label, LABEL_CHARACTERS), *map(number, entities[label].values())] for label in labels),
        ],
        errors=_errors(values["errors"]),
        attributes=_attributes(values["attributes"]),
        examples=example_lists(values["examples"], _CHANGE_WORDS, CHANGES),
        facts=[(name, *map(shown, pair), "" if pair[0] == pair[1] else "differs") for name, pair in facts(values)],
    )


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
    for name in dict.fromkeys([*first["facts"], *second["facts"]]):
        found = [format_fact(each["facts"][name]) if name in each["facts"] else "" for each in (first, second)]
        rows.append((name.replace("_", " "), (found[0], found[1])))
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
    return number(None) if difference is None else Figure(f"{100 * difference:+.2f}", difference)


def _row(name: str, each: Mapping[str, Any]) -> list[object]:
    return [
        name,
        percent(each["first_f1"], 2),
        percent(each["second_f1"], 2),
        *(_points(each[key]) for key in ("difference", "low", "high")),
        decimal(each["p"], 4),
    ]


def _errors(errors: Mapping[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = []
    for kind in KINDS:
        counts = []
        for side in ("false", "missed"):
            pair = [errors[name][side].get(kind) for name in ("first", "second")]
            counts += [number(pair[0]), number(pair[1]), _change(*pair)]
        rows.append([kind, *counts])
    return rows


def _change(first: int | None, second: int | None) -> Figure:
    return number(None) if first is None or second is None else Figure(f"{second - first:+,}", second - first)


def _attributes(attributes: Mapping[str, Any]) -> list[list[object]]:
    return [
        [f"{name}: {each['words']}", *(_points(each["differences"][bucket]) for bucket in BUCKETS)]
        for name, each in attributes.items()
    ]
