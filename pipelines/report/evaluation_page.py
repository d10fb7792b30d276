"""The web page of an evaluation, built from the values in its JSON file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pipelines.pages import render
from pipelines.pages.cells import bar
from pipelines.pages.figures import decimal, number, percent, plain
from pipelines.pages.text import Mark, highlighted, name
from pipelines.report.findings import evaluation_findings
from spanmarker_core import charts
from spanmarker_core.charts import Series
from spanmarker_core.evaluation.scores.error_kinds import KINDS
from spanmarker_core.text.shortened import shortened

#: Maximum numbers of labels in the confusion matrix and of confused label pairs listed, the most frequent ones first.
_LABELS, _PAIRS = 60, 15

#: Titles of the attributes, by their names in BL-NER.
ATTRIBUTE_TITLES = {
    "eLen": "Length of the entity",
    "tLen": "Length of the sentence",
    "eCon": "Consistency of the label",
    "eDen": "Density of entities",
    "oDen": "Unknown words",
}
_SEEN_WORDS = {
    "seen": "seen with this label",
    "other_label": "seen with other labels only",
    "unseen": "not seen",
}
#: Titles of the kinds of errors.
ERROR_TITLES = {
    "type": "Wrong label",
    "boundary": "Wrong boundaries",
    "both": "Wrong label and boundaries",
    "missed": "Missed",
    "spurious": "Spurious",
}
_ERROR_WORDS = {
    "type": "the right words with the wrong label",
    "boundary": "the right label on too many or too few words",
    "both": "the wrong label on too many or too few words",
    "missed": "no prediction shares words with the entity",
    "spurious": "no entity shares words with the prediction",
}


def evaluation_page(values: Mapping[str, Any]) -> bytes:
    """Return the page of an evaluation.

    Args:
        values: values of `spanmarker_core.evaluation.report.to_json`, with details.
    """
    intervals = values.get("intervals", {})
    micro = intervals.get("all")
    return render(
        "evaluation",
        title="Evaluation",
        headline=f"F1 {percent(values['micro']['f1'])}" + (f", 95 % interval {_span(micro)}" if micro else ""),
        values=values,
        micro_interval=_span(micro),
        interval_words=intervals.get("conventions", ""),
        findings=evaluation_findings(values),
        facts=[(name.replace("_", " "), format_fact(value)) for name, value in values["facts"].items()],
        labels=[
            _scores("all labels", values["micro"], micro),
            *(
                _scores(name(label), each, intervals.get("per_label", {}).get(label))
                for label, each in _by_support(values["per_label"])
            ),
        ],
        errors=_errors(values["errors"]),
        examples=example_groups(values["examples"], ERROR_TITLES, _ERROR_WORDS, KINDS),
        example_labels=example_labels(values["examples"]),
        confusion=_confusion(values["confusion"]),
        structure=group_rows(values["structure"]),
        seen=group_rows(values["surface_forms"], _SEEN_WORDS),
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
    return value if isinstance(value, str) else plain(value)


def group_rows(part: Mapping[str, Any], words: Mapping[str, str] | None = None) -> list[list[object]]:
    """Return the rows of a table of entity groups; no rows if the groups were not measured.

    Args:
        part: scores by group.
        words: display name by group; None shows the groups' own names.
    """
    return [
        [(words or {}).get(name, name), percent(group["f1"]), bar(group["f1"] or 0.0), *_rates(group), *_counts(group)]
        for name, group in part.get("groups", {}).items()
    ]


@dataclass(frozen=True, slots=True)
class Example:
    """An example of an error.

    Attributes:
        text: the text with its marks.
        place: document and sentence.
        labels: numbers of its labels in `example_labels`, separated by blanks.
    """

    text: Markup
    place: Markup
    labels: str


def example_labels(examples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, int]]:
    """Return (label, number of examples) of the labels of errors in examples, the most frequent first.

    Args:
        examples: examples by kind.
    """
    counts = Counter(label for kept in examples.values() for each in kept for label in _wrong_labels(each))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def example_groups(
    examples: Mapping[str, Sequence[Mapping[str, Any]]],
    titles: Mapping[str, str],
    words: Mapping[str, str],
    order: Sequence[str],
) -> list[tuple[str, str, list[Example]]]:
    """Return (title, description, examples) of each kind that has examples, in order.

    Args:
        examples: examples by kind.
        titles: title by kind.
        words: description by kind.
        order: the kinds, in display order.
    """
    numbers = {label: number for number, (label, _) in enumerate(example_labels(examples))}
    return [
        (titles[kind], words[kind], [_example(each, numbers) for each in examples[kind]])
        for kind in order
        if examples.get(kind)
    ]


def _wrong_labels(example: Mapping[str, Any]) -> set[str]:
    """Return the labels of an example's errors; its first mark is its subject, whatever it is."""
    return {mark["label"] for place, mark in enumerate(example["marks"]) if place == 0 or mark["role"] != "right"}


def _example(example: Mapping[str, Any], numbers: Mapping[str, int]) -> Example:
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
    place = Markup("{}, sentence {}").format(name(example["document_id"]), example["sentence_id"])
    return Example(text, place, " ".join(str(numbers[label]) for label in sorted(_wrong_labels(example))))


def _by_support(labels: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(labels.items(), key=lambda item: (-item[1]["support"], item[0]))


def _rates(scores: Mapping[str, Any]) -> list[object]:
    return [percent(scores[name]) for name in ("precision", "recall")]


def _counts(scores: Mapping[str, Any]) -> list[object]:
    return [number(scores[name]) for name in ("support", "predicted", "correct")]


def _span(interval: Mapping[str, float] | None) -> str:
    return "" if interval is None else f"{100 * interval['low']:.1f} to {100 * interval['high']:.1f} %"


def _scores(label: str, scores: Mapping[str, Any], interval: Mapping[str, float] | None) -> list[object]:
    ends = (None, None) if interval is None else (interval["low"], interval["high"])
    return [
        label,
        percent(scores["f1"]),
        bar(scores["f1"], *ends),
        _span(interval),
        *_rates(scores),
        *_counts(scores),
    ]


def _errors(errors: Mapping[str, Any]) -> list[list[object]]:
    return [
        [
            Markup('{}<small class="under">{}</small>').format(ERROR_TITLES[kind], _ERROR_WORDS[kind]),
            number(errors["false"].get(kind)),
            number(errors["missed"].get(kind)),
        ]
        for kind in KINDS
    ]


def _confusion(confusion: Mapping[str, Any]) -> dict[str, Any]:
    labels, counts = confusion["labels"], confusion["counts"]
    frequency = [sum(counts[place]) + sum(row[place] for row in counts) for place in range(len(labels))]
    frequent = sorted(range(len(labels) - 1), key=lambda place: (-frequency[place], place))[:_LABELS]
    places = [*sorted(frequent), len(labels) - 1]
    names = [name(labels[place]) for place in places[:-1]]
    shares = [[_share(counts[row][column], sum(counts[row])) for column in places] for row in places]
    taken = sorted(
        (-count, labels[row], labels[column])
        for row, each in enumerate(counts[:-1])
        for column, count in enumerate(each[:-1])
        if row != column and count
    )
    title = "Confusion between labels, percent of each row"
    return {
        "heat": charts.heat([*names, "no entity"], [*names, "missed"], shares, title=title, digits=0),
        "pairs": [[name(gold), name(predicted), number(-count)] for count, gold, predicted in taken[:_PAIRS]],
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


def attribute(key: str, unit: str) -> Markup:
    """Return the title of an attribute, with its name in BL-NER and its unit below.

    Args:
        key: name of the attribute in BL-NER.
        unit: what it measures.
    """
    return Markup('{}<small class="under">{}: {}</small>').format(ATTRIBUTE_TITLES[key], key, unit)


def _buckets(attributes: Mapping[str, Any]) -> list[Markup | list[object]]:
    rows: list[Markup | list[object]] = []
    for key, each in _measured(attributes):
        rows.append(attribute(key, each["words"]))
        rows += [
            [bucket["interval"], percent(bucket["f1"]), bar(bucket["f1"] or 0.0), *_rates(bucket), *_counts(bucket)]
            for bucket in each["buckets"]
        ]
    return rows


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
            [name, number(each["predictions"]), decimal(each["mean_score"]), percent(each["precision"])]
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
            [name, percent(each["f1"]), *_rates(each), number(each["predicted"])]
            for name, each in (
                (f"chosen: {chosen['words']}", chosen),
                (f"best on this data: {best['threshold']:g}", best),
            )
        ],
    }


def _cross_checks(checks: Mapping[str, Any]) -> dict[str, Any]:
    semeval = {name: each for name, each in checks["semeval_2013"].items() if name != "conventions"}
    outcomes = ("correct", "incorrect", "partial", "missed", "spurious")
    strict = checks["seqeval_strict_iob2"]
    return {
        "semeval": [
            [name, percent(each["f1"]), *_rates(each), *(number(each[outcome]) for outcome in outcomes)]
            for name, each in semeval.items()
        ],
        "strict": [
            [mean, percent(strict[mean]["f1"]), *_rates(strict[mean]), number(strict[mean]["support"])]
            for mean in ("micro", "macro")
        ],
    }
