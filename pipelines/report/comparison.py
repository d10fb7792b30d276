"""Comparison of two evaluation reports. It uses the files of the reports only, not the models."""

import json
from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from pipelines.errors import PipelineError
from pipelines.report.comparison_page import by_support, comparison_page, facts, few_documents
from pipelines.report.folder import publish_files
from pipelines.report.predictions import PREDICTIONS, read_predictions
from pipelines.storage import exists, join, open_input
from spanmarker_core.data.records import Sentence
from spanmarker_core.evaluation.report import FORMAT_VERSION
from spanmarker_core.evaluation.scores.attributes import ATTRIBUTES, BUCKETS
from spanmarker_core.evaluation.scores.comparison import CHANGES, Comparison
from spanmarker_core.text.markdown import cell, percent, table


def compare_reports(first: str, second: str) -> dict[str, Any]:
    """Compare two report folders and return the comparison as JSON values.

    Args:
        first: folder of the first report.
        second: folder of the second report.

    Raises:
        PipelineError: `report.not_readable`, `compare.other_data`.
    """
    values = [_read(folder) for folder in (first, second)]
    data = [each["data"] for each in values]
    if data[0]["digest"] != data[1]["digest"]:
        counts = [f"{each['sentences']:,} sentences with {each['entities']:,} entities" for each in data]
        problem = f"the first has {counts[0]}, the second {counts[1]}"
        if counts[0] == counts[1]:
            problem = f"both have {counts[0]}{_difference(first, second)}"
        raise PipelineError("compare.other_data", first=first, second=second, problem=problem)
    comparison = Comparison()
    for ours, theirs in zip_longest(read_predictions(first), read_predictions(second)):
        if ours is None or theirs is None or _key(ours[0]) != _key(theirs[0]):
            at = (ours or theirs)[0]
            problem = f"{_name(at)} differs"
            raise PipelineError("compare.other_data", first=first, second=second, problem=problem)
        comparison.add(ours[0], ours[1], theirs[1])
    found = comparison.to_json()
    for folder, each, scored in zip((first, second), values, _counts(found["entities"]), strict=True):
        if any(each["micro"][name] != count for name, count in scored.items()):
            problem = (
                f"its evaluation.json and {PREDICTIONS} are from different evaluations: one was interrupted; evaluate "
                "again"
            )
            raise PipelineError("report.not_readable", path=folder, problem=problem)
    named = zip(("first", "second"), (first, second), values, strict=True)
    return {
        **found,
        "attributes": _attributes(*(each["attributes"] for each in values)),
        "reports": {name: {"folder": folder, "facts": each["facts"]} for name, folder, each in named},
    }


def publish_comparison(folder: str, values: Mapping[str, Any]) -> str:
    """Write comparison.json, comparison.md and comparison.html and return the path of the page.

    Args:
        folder: a path or URL.
        values: the comparison, as returned by `compare_reports`.
    """
    return publish_files(folder, "comparison", values, comparison_markdown(values), comparison_page(values))


def comparison_markdown(values: Mapping[str, Any]) -> str:
    """Return the comparison as Markdown. Differences are in percentage points.

    Args:
        values: the comparison, as returned by `compare_reports`.
    """
    overall = values["all"]
    entities = values["entities"]
    labels = by_support(entities)
    lines = [
        "# Comparison",
        "",
        f"**F1 {_points(overall['difference'])}** "
        f"({_points(overall['low'])} to {_points(overall['high'])}; p {_p(overall['p'])}): "
        f"from {percent(overall['first_f1'])} % to {percent(overall['second_f1'])} %, "
        f"over {values['documents']:,} documents.",
        "",
        *([few_documents(values), ""] if few_documents(values) else []),
        *table(
            ["", "first F1 %", "second F1 %", "difference", "from", "to", "p"],
            [
                [name, percent(each["first_f1"]), percent(each["second_f1"])]
                + [_points(each[key]) for key in ("difference", "low", "high")]
                + [_p(each["p"])]
                for name, each in [
                    ("**all**", overall),
                    *((cell(label), values["per_label"][label]) for label in labels),
                ]
            ],
        ),
        "",
        *table(
            ["", *CHANGES],
            [
                ["**all**", *(sum(each[change] for each in entities.values()) for change in CHANGES)],
                *([cell(label), *(entities[label][change] for change in CHANGES)] for label in labels),
            ],
        ),
        "",
        values["conventions"],
        "",
        *table(["", "first", "second"], [[cell(name), *map(cell, pair)] for name, pair in facts(values)], words=3),
    ]
    return "\n".join(lines) + "\n"


def _points(difference: float | None) -> str:
    return "–" if difference is None else f"{100 * difference:+.2f}"


def _p(chance: float | None) -> str:
    return "–" if chance is None else f"{chance:.4f}"


def _counts(entities: Mapping[str, Mapping[str, int]]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of predicted and of correct entities in both reports."""
    total = Counter[str]()
    for each in entities.values():
        total.update(each)
    first, second = total["both"] + total["lost"], total["both"] + total["won"]
    return (
        {"predicted": first + total["mended"] + total["wrong"], "correct": first},
        {"predicted": second + total["spoiled"] + total["wrong"], "correct": second},
    )


def _difference(first: str, second: str) -> str:
    """Return how the data of two reports differ that have the same number of sentences and entities."""
    other_ids = ""
    for (ours, _), (theirs, _) in zip(read_predictions(first), read_predictions(second), strict=False):
        names = f"{_name(ours)} in the first is {_name(theirs)} in the second"
        if _key(ours)[2:] != _key(theirs)[2:]:
            return f", but words or entities differ, first where {names}"
        if _key(ours) != _key(theirs):
            other_ids = other_ids or names
    return f" and the same words, but other ids: {other_ids}" if other_ids else ", but they differ"


def _name(sentence: Sentence) -> str:
    return f"sentence {sentence.sentence_id} of document {sentence.document_id[:60]!r}"


def _key(sentence: Sentence) -> tuple[object, ...]:
    return sentence.document_id, sentence.sentence_id, sentence.words, sorted(sentence.entities)


def _attributes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference in F1 for each bucket of both reports; None for buckets without a score."""
    made = {}
    for name, each in ATTRIBUTES.items():
        buckets = [part[name].get("buckets") for part in (first, second)]
        if buckets[0] and buckets[1]:
            pairs = [[bucket["f1"] for bucket in pair] for pair in zip(*buckets, strict=True)]
            differences = [None if None in pair else pair[1] - pair[0] for pair in pairs]
            made[name] = {"words": each.words, "differences": dict(zip(BUCKETS, differences, strict=True))}
    return made


def _read(folder: str) -> dict[str, Any]:
    url = join(folder, "evaluation.json")
    if not exists(url):
        raise PipelineError("report.not_readable", path=folder, problem="it has no evaluation.json")
    with open_input(url) as file:
        try:
            values = json.load(file)
        except ValueError as error:
            raise PipelineError("report.not_readable", path=folder, problem=f"evaluation.json: {error}") from error
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        problem = f"its format_version is {version!r}, but this version compares {FORMAT_VERSION}; evaluate again"
        raise PipelineError("report.not_readable", path=folder, problem=problem)
    if lacking := [name for name in ("data", "facts", "micro", "attributes") if not isinstance(values.get(name), dict)]:
        problem = f"its evaluation.json has no {lacking[0]}"
        raise PipelineError("report.not_readable", path=folder, problem=problem)
    return values
