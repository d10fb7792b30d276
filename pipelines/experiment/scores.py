"""Scores of a run from its predictions. Predictions of any system are validated as strictly as data."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import PipelineError
from pipelines.experiment.runs import DEV_PREDICTIONS, FIGURES, PREDICTIONS, Run
from spanmarker_core.data import Sentence, Span, read_annotated
from spanmarker_core.data.lines import read_lines
from spanmarker_core.data.records import RecordProblem, check_span
from spanmarker_core.evaluation.scores.metrics import SpanScorer

#: Figures that a command may write to figures.json and that the results include.
MEASURED = (
    "steps",
    "train_seconds",
    "train_cpu_seconds",
    "predict_seconds",
    "words_per_second",
    "words_per_cpu_second",
)


@cache
def gold_of(path: Path) -> list[Sentence]:
    """Return the annotated sentences of a file, read once.

    Args:
        path: path of the file.
    """
    return list(read_annotated(path))


def scores_of(run: Run) -> dict[str, Any]:
    """Return the scores of a finished run on test, on dev if it was predicted, and its figures.

    Args:
        run: a finished run.

    Raises:
        PipelineError: `experiment.bad_predictions`, with the file and the line.
    """
    figures = _figures(run.folder / FIGURES)
    longest = figures.get("entity_max_length")
    found: dict[str, Any] = {"test": _scored(run.files.test, run.folder / PREDICTIONS, longest)}
    dev = run.folder / DEV_PREDICTIONS
    found["dev"] = _scored(run.files.dev, dev, longest) if dev.exists() else None
    return {**found, "figures": figures}


def counts_of(run: Run) -> np.ndarray:
    """Return the numbers of gold, predicted and correct entities per test document, int64 [n_documents, 3].

    Args:
        run: a finished run.
    """
    pairs = _pairs(run.files.test, run.folder / PREDICTIONS)
    return np.array(
        [
            np.sum([(len(gold), len(found), len(gold & found)) for _, gold, found in document], axis=0)
            for _, document in groupby(pairs, key=lambda pair: pair[0])
        ],
        dtype=np.int64,
    )


def _scored(data: Path, predictions: Path, longest: int | None) -> dict[str, Any]:
    scorer = SpanScorer(longest)
    for _, gold, found in _pairs(data, predictions):
        scorer.add(gold, found)
    result = scorer.result()
    return {
        "micro": asdict(result.micro),
        "macro": asdict(result.macro),
        "per_label": {label: asdict(scores) for label, scores in result.per_label.items()},
        "sentences": result.sentences,
    }


def _pairs(data: Path, predictions: Path) -> Iterator[tuple[str, set[Span], set[Span]]]:
    """Yield (document, gold, predicted) of each sentence; predictions must be in the order of the data."""
    gold = gold_of(data)
    try:
        lines = [(number, text) for number, text in read_lines(predictions) if text.strip()]
    except FileNotFoundError:
        raise _bad(predictions, 0, "it was not written") from None
    if len(lines) != len(gold):
        raise _bad(predictions, len(lines), f"it has {len(lines)} sentences, but {data} has {len(gold)}")
    for sentence, (number, text) in zip(gold, lines, strict=True):
        try:
            yield sentence.document_id, set(sentence.entities), _entities(text, sentence)
        except (RecordProblem, ValueError, KeyError, TypeError) as error:
            raise _bad(predictions, number, f"{type(error).__name__}: {error}") from error


def _entities(text: str, sentence: Sentence) -> set[Span]:
    record = json.loads(text)
    named = record["document_id"], record["sentence_id"]
    if named != (sentence.document_id, sentence.sentence_id):
        raise RecordProblem(f"it is of {named}, and the data have {sentence.document_id, sentence.sentence_id} there")
    n_words = len(sentence.words)
    return {check_span(each["start"], each["end"], each["label"], n_words) for each in record["entities"]}


def _figures(path: Path) -> dict[str, Any]:
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _bad(path, 0, f"it is not JSON ({error})") from error
    if not isinstance(figures, dict):
        raise _bad(path, 1, "it is not an object")
    for name in MEASURED:
        if not isinstance(figures.get(name), int | float | None):
            raise _bad(path, 1, f"{name} {figures[name]!r} is not a number")
    return figures


def _bad(path: Path, line: int, problem: str) -> PipelineError:
    return PipelineError("experiment.bad_predictions", path=path, line=line, problem=problem)
