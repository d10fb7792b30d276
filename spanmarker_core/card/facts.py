"""What a card is made of: the facts of a bundle, which are anybody's, read so that only what is as expected is left.

A bundle keeps facts in two places. Those of `config.json` are part of the model's identity, so neither clock nor
machine has a part in them. The others stand in `card.json` beside it and win: what the training data hold, the
training's log, time and hardware, scores by label, and whatever `spanmarker card` was told later.
"""

import math
from collections.abc import Iterable, Mapping
from statistics import mean, stdev
from typing import Any

from spanmarker_core.card.text import one_line
from spanmarker_core.data.summary import DataSummary
from spanmarker_core.errors import UnusableError
from spanmarker_core.evaluation.scores.metrics import EvaluationResult

Facts = Mapping[str, Any]

#: Texts that may be stated of a model; see `pipelines.jobs.train.TrainJob`.
TEXTS = (
    "name",
    "description",
    "licence",
    "licence_id",
    "training_data",
    "data_licence",
    "dataset_id",
    "encoder_name",
    "encoder_id",
    "language",
    "not_for",
)
SPLITS = ("dev", "test")
_RATES = ("precision", "recall", "f1")
_SCORES = (*_RATES, "ceiling", "support", "predicted", "correct", "reachable")
#: Rows of the log that a card shows, spread evenly over it.
_LOG_ROWS = 30


def text(facts: Facts, name: str, limit: int = 1000) -> str | None:
    """Return a text as one line; None where it is missing, blank or no text."""
    value = facts.get(name)
    return (one_line(value, limit) or None) if isinstance(value, str) else None


def numbers(values: object, *names: str) -> bool:
    """Tell whether these facts are there and are numbers that can be formatted, whole or not.

    >>> numbers({"f1": 0.5}, "f1"), numbers({"f1": "0.5"}, "f1"), numbers("f1", "f1")
    (True, False, False)
    """
    return isinstance(values, Mapping) and all(_is_number(values.get(name)) for name in names)


def number(facts: Facts, name: str) -> float | None:
    """Return a fact that is a number; else None."""
    return facts[name] if numbers(facts, name) else None


def summary(facts: Facts) -> DataSummary | None:
    """Return what is known of the training data; None where nothing is, or it is no summary."""
    try:
        return DataSummary.from_json(facts.get("data"))
    except UnusableError:
        return None


def scores_json(result: EvaluationResult) -> dict[str, Any]:
    """Return an evaluation as the fact `scores` keeps it, by split."""

    def rounded(scores: object) -> dict[str, float]:
        return {name: round(getattr(scores, name), 4) for name in _SCORES}

    return {
        "sentences": result.sentences,
        "flat_ceiling": round(result.flat_ceiling, 4),
        "micro": rounded(result.micro),
        "macro": rounded(result.macro),
        "per_label": {label: rounded(scores) for label, scores in result.per_label.items()},
    }


def split_scores(facts: Facts) -> dict[str, dict[str, Any]]:
    """Return the scores of each split that has any: sentences, precision, recall and f1, and what is known of

    entities, ceiling, flat_ceiling and macro_f1 (else None), and per_label, as in `scores_json`.
    """
    known = facts.get("scores")
    found: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        scores: Any = known.get(split) if isinstance(known, Mapping) else None
        if numbers(scores, "sentences", "flat_ceiling") and numbers(scores.get("micro"), *_SCORES):
            micro, macro, per_label = scores["micro"], scores.get("macro"), scores.get("per_label")
            found[split] = {
                **{name: micro[name] for name in (*_RATES, "ceiling")},
                "sentences": scores["sentences"],
                "entities": micro["support"],
                "flat_ceiling": scores["flat_ceiling"],
                "macro_f1": macro["f1"] if numbers(macro, "f1") else None,
                "per_label": _of_numbers(per_label, *_SCORES),
            }
        elif numbers(facts, *(f"{split}_{name}" for name in ("sentences", *_RATES))):
            unknown = dict.fromkeys(("entities", "ceiling", "flat_ceiling", "macro_f1"))
            found[split] = {**unknown, **{name: facts[f"{split}_{name}"] for name in ("sentences", *_RATES)}}
            found[split]["per_label"] = {}
    return found


def log_rows(log: Iterable[Facts]) -> list[dict[str, float]]:
    """Return the evaluations in a trainer's log as the fact `log` keeps them, with the training loss last told before.

    >>> log_rows([{"loss": 0.7, "step": 4}, {"eval_f1": 0.5, "epoch": 1.0, "step": 5, "eval_runtime": 3}])
    [{'epoch': 1.0, 'step': 5, 'loss': 0.7, 'f1': 0.5}]
    """
    rows: list[dict[str, float]] = []
    loss = None
    for entry in log:
        loss = entry["loss"] if numbers(entry, "loss") else loss
        if not numbers(entry, "epoch", "step", "eval_f1"):
            continue
        row = {"epoch": round(entry["epoch"], 4), "step": entry["step"]}
        if loss is not None:
            row["loss"] = round(loss, 4)
        row |= {name: round(entry[f"eval_{name}"], 4) for name in _RATES if numbers(entry, f"eval_{name}")}
        if not rows or rows[-1]["step"] != row["step"]:
            rows.append(row)
    return rows


def shown_log(facts: Facts) -> list[Facts]:
    """Return the rows of the fact `log` that a card shows: all, or some that are spread over it and the last."""
    rows = _log(facts)
    step = math.ceil(len(rows) / _LOG_ROWS) or 1
    return [row for place, row in enumerate(rows) if (len(rows) - 1 - place) % step == 0]


def log_length(facts: Facts) -> int:
    """Return the number of rows of the fact `log`."""
    return len(_log(facts))


def _log(facts: Facts) -> list[Facts]:
    return _rows(facts.get("log"), "epoch", "step", "f1")


def seeds(facts: Facts) -> list[Facts]:
    """Return the runs of the fact `seeds` that tell a seed and an F1 on dev or test."""
    runs = _rows(facts.get("seeds"), "seed")
    return [run for run in runs if any(f"{split}_f1" in run for split in SPLITS)]


def _rows(values: object, *names: str) -> list[Facts]:
    """Return the objects of a list that have these numbers, each with its numbers only."""
    rows = [row for row in values if numbers(row, *names)] if isinstance(values, list) else []
    return [{name: value for name, value in row.items() if _is_number(value)} for row in rows]


def mean_and_error(runs: Iterable[Facts], name: str) -> tuple[float, float] | None:
    """Return the mean of a score over runs and its standard error (of the mean, n - 1); None for fewer than two runs.

    >>> mean_and_error([{"test_f1": 0.5}, {"test_f1": 0.7}], "test_f1")
    (0.6, 0.1)
    """
    found = [run[name] for run in runs if numbers(run, name)]
    return (round(mean(found), 6), round(stdev(found) / math.sqrt(len(found)), 6)) if len(found) > 1 else None


def _of_numbers(values: object, *names: str) -> dict[str, Facts]:
    """Return the items of an object that are objects with these numbers."""
    if not isinstance(values, Mapping):
        return {}
    return {str(name): value for name, value in values.items() if numbers(value, *names)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
