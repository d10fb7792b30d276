"""Facts of a card: untrusted values, of which only those of the expected type are used.

A bundle stores facts in two places. Those in `config.json` are part of the model's identity, so they do not depend on
the time or the machine. The others are stored beside it in `card.json` and take precedence: a summary of the training
data, the training log, duration and hardware, scores by label, and any facts added later with `spanmarker card`.
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

#: Descriptive texts of a model, given in a training job or to `spanmarker card`.
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
#: Maximum number of rows of the log on a card, spread evenly.
_LOG_ROWS = 30


def text(facts: Facts, name: str, limit: int = 1000) -> str | None:
    """Return a text as one line; None if it is missing, blank or not a text.

    Args:
        facts: facts of a card.
        name: name of the fact.
        limit: maximum length in characters.
    """
    value = facts.get(name)
    return (one_line(value, limit) or None) if isinstance(value, str) else None


def numbers(values: object, *names: str) -> bool:
    """Return whether all named values are present and are finite numbers that can be formatted.

    Args:
        values: facts; anything but a mapping gives False.
        names: names of the values.

    >>> numbers({"f1": 0.5}, "f1"), numbers({"f1": "0.5"}, "f1"), numbers("f1", "f1")
    (True, False, False)
    """
    return isinstance(values, Mapping) and all(_is_number(values.get(name)) for name in names)


def number(facts: Facts, name: str) -> float | None:
    """Return a fact if it is a number, else None.

    Args:
        facts: facts of a card.
        name: name of the fact.
    """
    return facts[name] if numbers(facts, name) else None


def summary(facts: Facts) -> DataSummary | None:
    """Return the summary of the training data; None if it is missing or invalid.

    Args:
        facts: facts of a card.
    """
    try:
        return DataSummary.from_json(facts.get("data"))
    except UnusableError:
        return None


def scores_json(result: EvaluationResult) -> dict[str, Any]:
    """Convert an evaluation into its form in the fact `scores`, which holds one per split.

    Args:
        result: the evaluation.
    """

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
    """Return the scores of each split that has any.

    Each has sentences, precision, recall and f1; entities, ceiling, flat_ceiling and macro_f1, which are None if
    unknown; and per_label, in the form of `scores_json`.

    Args:
        facts: facts of a card.
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
    """Convert a trainer's log into the fact `log`: one row per evaluation, with the most recent training loss.

    Args:
        log: entries of the log.

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
    """Return the rows of the fact `log` to show on a card: all, or an even selection that includes the last.

    Args:
        facts: facts of a card.
    """
    rows = _log(facts)
    step = math.ceil(len(rows) / _LOG_ROWS) or 1
    return [row for place, row in enumerate(rows) if (len(rows) - 1 - place) % step == 0]


def log_length(facts: Facts) -> int:
    """Return the number of rows of the fact `log`.

    Args:
        facts: facts of a card.
    """
    return len(_log(facts))


def _log(facts: Facts) -> list[Facts]:
    return _rows(facts.get("log"), "epoch", "step", "f1")


def seeds(facts: Facts) -> list[Facts]:
    """Return the runs of the fact `seeds` that have a seed and an F1 on dev or test.

    Args:
        facts: facts of a card.
    """
    runs = _rows(facts.get("seeds"), "seed")
    return [run for run in runs if any(f"{split}_f1" in run for split in SPLITS)]


def _rows(values: object, *names: str) -> list[Facts]:
    """Return the objects of a list that have all named numbers, each reduced to its numbers."""
    rows = [row for row in values if numbers(row, *names)] if isinstance(values, list) else []
    return [{name: value for name, value in row.items() if _is_number(value)} for row in rows]


def mean_and_error(runs: Iterable[Facts], name: str) -> tuple[float, float] | None:
    """Return the mean of a score over runs and its standard error (n - 1); None for fewer than two runs.

    Args:
        runs: facts of the runs.
        name: name of the score.

    >>> mean_and_error([{"test_f1": 0.5}, {"test_f1": 0.7}], "test_f1")
    (0.6, 0.1)
    """
    found = [run[name] for run in runs if numbers(run, name)]
    return (round(mean(found), 6), round(stdev(found) / math.sqrt(len(found)), 6)) if len(found) > 1 else None


def _of_numbers(values: object, *names: str) -> dict[str, Facts]:
    """Return the items of a mapping that have all named numbers."""
    if not isinstance(values, Mapping):
        return {}
    return {str(name): value for name, value in values.items() if numbers(value, *names)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
