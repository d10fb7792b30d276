"""The web page of an evaluation, built from the values in its JSON file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pipelines.pages import render
from pipelines.pages.figures import number, percent
from pipelines.pages.text import Mark, highlighted, shown
from spanmarker_core import charts
from spanmarker_core.charts import Series
from spanmarker_core.evaluation.scores.attributes import BUCKETS
from spanmarker_core.evaluation.scores.error_kinds import KINDS
from spanmarker_core.text.shortened import shortened

#: Maximum numbers of labels in the confusion chart and of confused label pairs listed, the most frequent ones first.
_LABELS, _PAIRS = 12, 15

#: Maximum number of characters of a label in a table.
LABEL_CHARACTERS = 60

_SEEN_WORDS = {
    "seen": "seen with this label",
    "other_label": "seen with other labels only",
    "unseen": "not seen",
}
_ERROR_WORDS = {
    "type": "right words, wrong label",
    "boundary": "right label, wrong words",
    "both": "wrong label and wrong words",
    "missed": "no prediction shares words with it",
    "spurious": "no gold entity shares words with it",
}


def evaluation_page(values: Mapping[str, Any]) -> bytes:
    """Return the page of an evaluation.

    Args:
        values: values of `spanmarker_core.evaluation.report.to_json`, with details.
    """
    return render(
        "evaluation",
        title="Evaluation",
        values=values,
        facts=[(name.replace("_", " "), format_fact(value)) for name, value in values["facts"].items()],
        scores=[_scores(name, values[name]) for name in ("micro", "macro")],
        labels=[_scores(shown(label, LABEL_CHARACTERS), each) for label, each in _by_support(values["per_label"])],
        errors=_errors(values["errors"]),
        examples=example_lists(values["examples"], _ERROR_WORDS, KINDS),
        confusion=_confusion(values["confusion"]),
        structure=group_rows(values["structure"]),
        seen=group_rows(values["surface_forms"], _SEEN_WORDS),
        heat=_heat(values["attributes"]),
        buckets=_buckets(values["attributes"]),
        calibration=_calibration(values["calibration"]),
        curve=_curve(values["threshold_curve"]),
        cross_checks=_cross_checks(values["cross_checks"]),
    )


def format_fact(value: object) -> str:
    """Return a fact as text.

    Args:
        value: a plain JSON value.
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def group_rows(part: Mapping[str, Any], words: Mapping[str, str] | None = None) -> list[list[object]]:
    """Return the rows of a table of entity groups; no rows if the groups were not measured.

    Args:
        part: scores by group.
        words: display name by group; None shows the groups' own names.
    """
    return [
        [(words or {}).get(name, name), *_rates(group), charts.meter(group["f1"] or 0.0), *_counts(group)]
        for name, group in part.get("groups", {}).items()
    ]


def example_lists(
    examples: Mapping[str, Sequence[Mapping[str, Any]]], words: Mapping[str, str], order: Sequence[str]
) -> list[tuple[str, str, list[tuple[Markup, Markup]]]]:
    """Return (kind, description, [(place, text with its marks)]) for each kind that has examples, in order.

    Args:
        examples: examples by kind.
        words: description by kind.
        order: the kinds, in display order.
    """
    return [(kind, words[kind], [_example(each) for each in examples[kind]]) for kind in order if examples.get(kind)]


def _example(example: Mapping[str, Any]) -> tuple[Markup, Markup]:
    marks = [
        Mark(
            mark["start"],
            mark["end"],
            mark["label"] + (f" {mark['score']:.2f}" if "score" in mark else ""),
            mark["role"],
        )
        for mark in example["marks"]
    ]
    before, after = ("… " if example["words_before"] else ""), (" …" if example["words_after"] else "")
    text = Markup("{}{}{}").format(before, highlighted(example["text"], marks, limit=1500), after)
    where = Markup("{}, sentence {}").format(shown(example["document_id"], 30), example["sentence_id"])
    return where, text


def _by_support(labels: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(labels.items(), key=lambda item: (-item[1]["support"], item[0]))


def _rates(scores: Mapping[str, Any]) -> list[object]:
    return [percent(scores[name], 2) for name in ("f1", "precision", "recall")]


def _counts(scores: Mapping[str, Any]) -> list[object]:
    return [number(scores[name]) for name in ("support", "predicted", "correct")]


def _scores(name: str, scores: Mapping[str, Any]) -> list[object]:
    return [name, *_rates(scores), charts.meter(scores["f1"]), percent(scores["ceiling"], 2), *_counts(scores)]


def _errors(errors: Mapping[str, Any]) -> list[list[object]]:
    return [
        [f"{kind}: {_ERROR_WORDS[kind]}", number(errors["false"].get(kind)), number(errors["missed"].get(kind))]
        for kind in KINDS
    ]


def _confusion(confusion: Mapping[str, Any]) -> dict[str, Any]:
    labels, counts = confusion["labels"], confusion["counts"]
    frequency = [sum(counts[place]) + sum(row[place] for row in counts) for place in range(len(labels))]
    frequent = sorted(range(len(labels) - 1), key=lambda place: (-frequency[place], place))[:_LABELS]
    places = [*sorted(frequent), len(labels) - 1]
    names = ["none" if labels[place] is None else short(labels[place]) for place in places]
    shares = [[_share(counts[row][column], sum(counts[row])) for column in places] for row in places]
    taken = sorted(
        (-count, short(labels[row]), short(labels[column]))
        for row, each in enumerate(counts[:-1])
        for column, count in enumerate(each[:-1])
        if row != column and count
    )
    return {
        "heat": charts.heat(names, names, shares, title="Confusion between labels, percent of each row"),
        "pairs": [[gold, predicted, number(-count)] for count, gold, predicted in taken[:_PAIRS]],
        "left_out": len(labels) - len(places),
    }


def _share(count: int, total: int) -> float | None:
    return count / total if count else None


def short(text: str, limit: int = 32) -> str:
    """Return a short name for a row or column, without invisible characters.

    Args:
        text: the full name.
        limit: maximum number of characters.
    """
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shortened(clean, limit)


def _measured(attributes: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, each) for name, each in attributes.items() if name != "conventions" and "buckets" in each]


def _heat(attributes: Mapping[str, Any]) -> Markup:
    measured = _measured(attributes)
    return charts.heat(
        [f"{name}: {each['words']}" for name, each in measured],
        BUCKETS,
        [[bucket["f1"] for bucket in each["buckets"]] for _, each in measured],
        title="F1 in percent by attribute and bucket",
    )


def _buckets(attributes: Mapping[str, Any]) -> list[list[object]]:
    return [
        [name, bucket["bucket"], bucket["interval"], *_rates(bucket), *_counts(bucket)]
        for name, each in _measured(attributes)
        for bucket in each["buckets"]
    ]


def _calibration(calibration: Mapping[str, Any]) -> dict[str, Any]:
    bins = calibration["bins"]
    points = [(each["mean_score"], each["precision"]) for each in bins if each["predictions"]]
    names = [f"{each['from']:g}–{each['to']:g}" for each in bins]
    return {
        "curve": charts.lines(
            [Series("right", points)],
            title="Share of correct predictions by score",
            x="mean score",
            y="right",
            percent=True,
            x_percent=True,
            diagonal=True,
        ),
        "histogram": charts.bars(
            [(name.partition("–")[0], each["predictions"]) for name, each in zip(names, bins, strict=True)],
            title="Predictions by score",
            x="score, from",
            y="predictions",
        ),
        "rows": [
            [name, number(each["predictions"]), percent(each["mean_score"], 2), percent(each["precision"], 2)]
            for name, each in zip(names, bins, strict=True)
        ],
    }


def _curve(curve: Mapping[str, Any]) -> dict[str, Any]:
    points, chosen, best = curve["points"], curve["chosen"], curve["best_on_this_data"]
    series = [
        Series(name, [(each["threshold"], each[key]) for each in points])
        for name, key in (("precision", "precision"), ("recall", "recall"), ("F1", "f1"))
    ]
    series.append(Series("best F1 on this data", [(best["threshold"], best["f1"])]))
    mark = None
    if chosen["threshold"] is not None:
        mark = (chosen["threshold"], f"chosen: {chosen['threshold']:g}")
        series.append(Series("chosen", [(chosen["threshold"], chosen["f1"])]))
    return {
        "chart": charts.lines(
            series,
            title="Precision, recall and F1 by threshold",
            x="threshold",
            y="precision, recall, F1",
            percent=True,
            mark=mark,
        ),
        "rows": [
            [f"chosen: {chosen['words']}", *_rates(chosen), number(chosen["predicted"])],
            [f"best on this data: {best['threshold']:g}", *_rates(best), number(best["predicted"])],
        ],
    }


def _cross_checks(checks: Mapping[str, Any]) -> dict[str, Any]:
    semeval = {name: each for name, each in checks["semeval_2013"].items() if name != "conventions"}
    outcomes = ("correct", "incorrect", "partial", "missed", "spurious")
    strict = checks["seqeval_strict_iob2"]
    return {
        "semeval": [
            [name, *_rates(each), *(number(each[outcome]) for outcome in outcomes)] for name, each in semeval.items()
        ],
        "strict": [[mean, *_rates(strict[mean]), number(strict[mean]["support"])] for mean in ("micro", "macro")],
    }
