"""The meaning of the numbers of an evaluation, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.pages.figures import percent
from spanmarker_core.text.counted import counted

#: Number of entities or predictions below which a share is not worth a sentence.
_ENOUGH = 20
#: Smallest difference of two shares that is worth one.
_CLEAR = 0.05
#: Number of labels named as the weakest.
_WEAKEST = 3

_ERRORS = {
    "type": "have the right words and the wrong label",
    "boundary": "have the right label and too many or too few words",
    "both": "have the wrong label and too many or too few words",
    "missed": "are entities of which the model found no part",
    "spurious": "are predictions where there is no entity",
}


def evaluation_findings(values: Mapping[str, Any]) -> list[str]:
    """Return what an evaluation shows, the most important first.

    Args:
        values: values of evaluation.json.
    """
    parts = (_calibration(values["calibration"]), _balance(values["micro"]), _labels(values["per_label"]))
    return [line for part in (*parts, _errors(values["errors"]), _confusion(values["confusion"])) for line in part]


def _calibration(calibration: Mapping[str, Any]) -> Iterator[str]:
    best = calibration["bins"][-1]
    if best["predictions"] < _ENOUGH:
        return
    right, score = best["precision"], best["mean_score"]
    words = f"Predictions with a score of {best['from']:g} or more are right {percent(right, 0)} of the time"
    if score - right > _CLEAR:
        yield (
            f"{words}, although their mean score is {score:.2f}: the scores are overconfident. Do not read them as "
            "probabilities."
        )
    elif right - score > _CLEAR:
        yield f"{words}, more often than their mean score of {score:.2f} says: the scores are underconfident."
    else:
        yield (
            f"{words}, about as often as their mean score of {score:.2f} says: the scores can be read as probabilities."
        )


def _balance(micro: Mapping[str, Any]) -> Iterator[str]:
    difference = micro["precision"] - micro["recall"]
    if micro["predicted"] < _ENOUGH or abs(difference) < 2 * _CLEAR:
        return
    kind, remedy = (
        ("misses more than it invents", "lower") if difference > 0 else ("invents more than it misses", "higher")
    )
    yield f"The model {kind}: a {remedy} threshold brings precision and recall closer together."


def _labels(per_label: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    large = {label: scores for label, scores in per_label.items() if scores["support"] >= _ENOUGH}
    if len(large) < 2 * _WEAKEST:
        return
    weakest = sorted(large, key=lambda label: (large[label]["f1"], label))[:_WEAKEST]
    named = ", ".join(f"{label} ({percent(large[label]['f1'], 0)})" for label in weakest)
    yield f"The labels with the lowest F1, among those with at least {_ENOUGH} entities: {named}."


def _errors(errors: Mapping[str, Any]) -> Iterator[str]:
    counts = {kind: errors["missed"].get(kind, 0) + errors["false"].get(kind, 0) for kind in _ERRORS}
    total = sum(counts.values())
    if total < _ENOUGH:
        return
    kind = max(counts, key=lambda kind: counts[kind])
    yield f"The most frequent kind of error: {percent(counts[kind] / total, 0)} of the errors {_ERRORS[kind]}."


def _confusion(confusion: Mapping[str, Any]) -> Iterator[str]:
    labels, counts = confusion["labels"], confusion["counts"]
    pairs = [
        (count, labels[row], labels[column])
        for row, each in enumerate(counts[:-1])
        for column, count in enumerate(each[:-1])
        if row != column
    ]
    count, gold, predicted = max(pairs, default=(0, "", ""), key=lambda pair: pair[0])
    if count > 1:
        yield f"The most frequent confusion: {gold} is labelled {predicted}, {counted(count, 'time')}."
