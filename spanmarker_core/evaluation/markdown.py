"""Details of an evaluation as Markdown, for a pull request; the page of `report.to_markdown` comes before them."""

from collections.abc import Mapping
from typing import Any

from spanmarker_core.evaluation.scores.attributes import BUCKETS
from spanmarker_core.evaluation.scores.error_kinds import KINDS
from spanmarker_core.text.markdown import cell, percent, table
from spanmarker_core.text.shortened import shortened

#: Number of labels shown in the confusion matrix (the most frequent ones), and of examples of each kind of error.
_LABELS, _EXAMPLES = 12, 2


def details_to_markdown(details: Mapping[str, Any]) -> str:
    """Format the details of an evaluation as Markdown sections; shares are in percent.

    Sections that were not measured give the reason. Texts and labels of the data are escaped.

    Args:
        details: JSON values of an evaluation, from `Analysis.to_json`.
    """
    parts = (
        _errors(details["errors"]),
        _confusion(details["confusion"]),
        _structure(details["structure"]),
        _attributes(details["attributes"]),
        _forms(details),
        _calibration(details["calibration"]),
        _threshold(details["threshold_curve"]),
        _cross_checks(details["cross_checks"]),
        _examples(details["examples"]),
    )
    return "\n".join(line for part in parts for line in (*part, ""))


def _errors(errors: Mapping[str, Any]) -> list[str]:
    rows = [[kind, errors["false"].get(kind, ""), errors["missed"].get(kind, "")] for kind in KINDS]
    return [
        "## Errors",
        "",
        f"Boundary error rate {percent(errors['boundary_error_rate'])} % "
        f"({percent(errors['boundary_same_label_rate'])} % with the right label), "
        f"type error rate {percent(errors['type_error_rate'])} % of FP + FN.",
        "",
        *table(["kind", "predictions (FP)", "gold (FN)"], rows),
    ]


def _confusion(confusion: Mapping[str, Any]) -> list[str]:
    labels, counts = confusion["labels"], confusion["counts"]
    frequency = [sum(counts[place]) + sum(row[place] for row in counts) for place in range(len(labels))]
    places = sorted(range(len(labels) - 1), key=lambda place: (-frequency[place], place))[:_LABELS]
    shown = [*sorted(places), len(labels) - 1]
    names = ["*none*" if labels[place] is None else cell(labels[place]) for place in shown]
    left_out = len(labels) - len(shown)
    return [
        "## Confusion between labels",
        "",
        "Rows are gold labels, columns the labels predicted for the same words."
        + (f" {left_out:,} less frequent labels are omitted." if left_out else ""),
        "",
        *table(
            ["", *names],
            [[name, *(counts[row][column] for column in shown)] for name, row in zip(names, shown, strict=True)],
        ),
    ]


def _groups(title: str, head: str, part: Mapping[str, Any]) -> list[str]:
    rows = [
        [name.replace("_", " "), *map(percent, (group["precision"], group["recall"], group["f1"])), group["support"]]
        for name, group in part["groups"].items()
    ]
    return [f"## {title}", "", *table([head, "precision %", "recall %", "F1 %", "gold"], rows)]


def _structure(structure: Mapping[str, Any]) -> list[str]:
    if structure["groups"]["nested"]["support"] == 0:
        return ["## Nested entities", "", "No gold entity is nested in another."]
    return _groups("Nested entities", "spans", structure)


def _attributes(attributes: Mapping[str, Any]) -> list[str]:
    rows = []
    missing = []
    for name, each in attributes.items():
        if name == "conventions":
            continue
        if "missing" in each:
            missing.append(f"{name}: not measured, because {each['missing']}.")
            continue
        cells = [f"{percent(b['f1'])} ({b['interval']}; {b['support']:,})" for b in each["buckets"]]
        rows.append([f"{name}: {each['words']}", *cells])
    return ["## F1 by attribute", "", *table(["F1 % (interval; gold)", *BUCKETS], rows), "", *missing]


def _forms(details: Mapping[str, Any]) -> list[str]:
    unknown, forms = details["unknown_words"], details["surface_forms"]
    if "missing" in unknown:
        return ["## Seen and unseen", "", f"Not measured, because {unknown['missing']}."]
    return [
        *_groups("Seen and unseen", "surface form in training", forms),
        "",
        f"Unknown words: {percent(unknown['density'])} % of {unknown['words']:,}.",
    ]


def _calibration(calibration: Mapping[str, Any]) -> list[str]:
    rows = [
        [f"{b['from']:g}–{b['to']:g}", b["predictions"], percent(b["mean_score"]), percent(b["precision"])]
        for b in calibration["bins"]
        if b["predictions"]
    ]
    error = percent(calibration["expected_calibration_error"])
    return [
        "## Reliability of scores",
        "",
        f"Expected calibration error {error} %.",
        "",
        *table(["score", "predictions", "mean score %", "right %"], rows),
    ]


def _threshold(curve: Mapping[str, Any]) -> list[str]:
    named = [("as configured: " + curve["chosen"]["words"], curve["chosen"])]
    best = curve["best_on_this_data"]
    named.append((f"best on this data: {best['threshold']:g}", best))
    rows = [[name, *map(percent, (each["precision"], each["recall"], each["f1"]))] for name, each in named]
    return [
        "## Threshold",
        "",
        *table(["", "precision %", "recall %", "F1 %"], rows),
        "",
        "Choose a threshold on development data. Do not report the best one here as a result.",
        *(
            ["The model predicts tags, so a threshold only removes entities; a lower one adds none."]
            if curve["by_tags"]
            else []
        ),
    ]


def _cross_checks(checks: Mapping[str, Any]) -> list[str]:
    strict = checks["seqeval_strict_iob2"]
    semeval = {name: each for name, each in checks["semeval_2013"].items() if name != "conventions"}
    rows = [
        [f"SemEval-2013 {name}", *map(percent, (each["precision"], each["recall"], each["f1"]))]
        for name, each in semeval.items()
    ]
    for mean in ("micro", "macro"):
        scores = (strict[mean][name] for name in ("precision", "recall", "f1"))
        rows.append([f"seqeval strict (IOB2), {mean}", *map(percent, scores)])
    lines = ["## Cross-checks", "", *table(["", "precision %", "recall %", "F1 %"], rows)]
    if strict["gold_left_out"] or strict["predicted_left_out"]:
        lines += [
            "",
            f"Tags cannot overlap, so the last two lines omit {strict['gold_left_out']:,} gold entities and "
            f"{strict['predicted_left_out']:,} predictions.",
        ]
    return lines


def _examples(examples: Mapping[str, Any]) -> list[str]:
    lines = [
        f"- {kind}: {cell(example['text'])} ({', '.join(map(_mark(example), example['marks'][:4]))})"
        for kind, kept in examples.items()
        for example in kept[:_EXAMPLES]
    ]
    return ["## Examples", "", *lines] if lines else []


def _mark(example: Mapping[str, Any]) -> Any:
    def words(mark: Mapping[str, Any]) -> str:
        text = example["text"][mark["start"] : mark["end"]]
        return f"{mark['role']} {cell(mark['label'])}: “{cell(shortened(text, 60))}”"

    return words
