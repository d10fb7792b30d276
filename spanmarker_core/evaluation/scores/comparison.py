"""Comparison of two models on the same data: differences, their significance, and the entities that changed.

Differences are the second model's score minus the first's, so positive values are improvements.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from spanmarker_core.data.records import Sentence, Span
from spanmarker_core.evaluation.scores.error_kinds import ErrorCounter, error_kinds
from spanmarker_core.evaluation.scores.examples import ErrorExamples, Marked, in_context
from spanmarker_core.evaluation.scores.significance import micro_f1, over_documents_each

FORMAT_VERSION = 1

#: Changes of an entity: gold found only by the second model or only by the first, and false predictions made only by
#: the first or only by the second.
CHANGES = ("won", "lost", "mended", "spoiled")

CONVENTIONS = (
    "A difference is the value of the second report minus that of the first. Intervals contain 95 % of the "
    "differences over resampled documents (paired bootstrap); p is the probability of a difference at least as large, "
    "in either direction, if there were none. Each label is tested on its own, without correction for the number of "
    "labels. Intervals and p show whether a difference would hold on other documents of this kind, not whether it "
    "would hold if the models were trained again; a single document gives no interval. Won: gold entities that only "
    "the second model found; lost: gold entities that only the first found; mended: wrong predictions of the first "
    "that the second does not make; spoiled: wrong predictions that only the second makes."
)

#: Maximum number of entities marked in an example.
_MARKS = 12


class Comparison:
    """Accumulator of sentences with the predictions of two models; memory grows with documents times labels.

    >>> comparison = Comparison()
    >>> sentence = Sentence("d", 0, ["Ann", "in", "York"], [Span(0, 1, "PER"), Span(2, 3, "LOC")])
    >>> comparison.add(sentence, {Span(0, 1, "PER"): 0.9}, {Span(0, 1, "PER"): 0.9, Span(2, 3, "LOC"): 0.8})
    >>> values = comparison.to_json(resamples=10)
    >>> values["entities"]["LOC"]["won"], round(values["all"]["difference"], 3)
    (1, 0.333)
    """

    def __init__(self) -> None:
        self._labels: dict[str, int] = {}
        # For each document, by label: gold; predicted and correct by the first model; predicted and correct by the
        # second.
        self._documents: list[dict[int, list[int]]] = []
        self._document: str | None = None
        self._sentences = 0
        self._outcomes: dict[str, Counter[str]] = {}
        self._errors = (ErrorCounter(), ErrorCounter())
        self._examples = ErrorExamples()

    def add(self, sentence: Sentence, first: Mapping[Span, float], second: Mapping[Span, float]) -> None:
        """Add a sentence; the sentences of a document must follow each other.

        Args:
            sentence: the sentence, with its gold entities.
            first: predictions of the first model with their scores, 0 to 1.
            second: predictions of the second model with their scores, 0 to 1.
        """
        if sentence.document_id != self._document:
            self._document = sentence.document_id
            self._documents.append({})
        self._sentences += 1
        gold = set(sentence.entities)
        counts = self._documents[-1]
        for span in gold | set(first) | set(second):
            row = counts.setdefault(self._labels.setdefault(span.label, len(self._labels)), [0] * 5)
            is_gold = span in gold
            for place, holds in enumerate(
                (is_gold, span in first, is_gold and span in first, span in second, is_gold and span in second)
            ):
                row[place] += holds
            outcome = _outcome(is_gold, span in first, span in second)
            self._outcomes.setdefault(span.label, Counter())[outcome] += 1
            if outcome in CHANGES:
                key = (sentence.document_id, sentence.sentence_id, span.start, span.end, span.label)
                self._examples.offer(outcome, key, partial(_example, sentence, span, outcome, gold, first, second))
        for errors, predicted in zip(self._errors, (first, second), strict=True):
            errors.add(*error_kinds(gold, predicted))

    def to_json(self, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Any]:
        """Return the comparison as JSON values; shares are from 0 to 1.

        Args:
            resamples: number of bootstrap samples of documents.
            seed: seed of the sampling; the same seed gives the same result.
        """
        names = sorted(self._labels)
        first, second = self._tables(names)
        differences = over_documents_each(second, first, resamples=resamples, seed=seed)
        tested = [
            {
                "first_f1": float(micro_f1(first[group].sum(axis=0))),
                "second_f1": float(micro_f1(second[group].sum(axis=0))),
                **difference.to_json(),
            }
            for group, difference in enumerate(differences)
        ]
        return {
            "format_version": FORMAT_VERSION,
            "conventions": CONVENTIONS,
            "documents": len(self._documents),
            "sentences": self._sentences,
            "resamples": resamples,
            "all": tested[0],
            "per_label": dict(zip(names, tested[1:], strict=True)),
            "entities": {label: self._outcome_counts(label) for label in names},
            "errors": {
                name: asdict(errors.rates()) for name, errors in zip(("first", "second"), self._errors, strict=True)
            },
            "examples": self._examples.to_json(),
        }

    def _tables(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return gold, predicted and correct counts of each model, two arrays of [1 + n_labels, n_documents, 3]."""
        place = {self._labels[name]: number for number, name in enumerate(names, start=1)}
        counts = np.zeros((1 + len(names), len(self._documents), 5), np.int32)
        for number, document in enumerate(self._documents):
            for label, row in document.items():
                counts[place[label], number] = row
        counts[0] = counts[1:].sum(axis=0)
        return counts[..., [0, 1, 2]], counts[..., [0, 3, 4]]

    def _outcome_counts(self, label: str) -> dict[str, int]:
        return {name: self._outcomes[label][name] for name in ("both", *CHANGES[:2], "neither", *CHANGES[2:], "wrong")}


def _outcome(gold: bool, first: bool, second: bool) -> str:
    """Return the outcome of an entity; "wrong" is a false prediction of both models."""
    if gold:
        return {(True, True): "both", (False, True): "won", (True, False): "lost"}.get((first, second), "neither")
    return "wrong" if first and second else "mended" if first else "spoiled"


def _example(
    sentence: Sentence,
    span: Span,
    outcome: str,
    gold: set[Span],
    first: Mapping[Span, float],
    second: Mapping[Span, float],
) -> dict[str, Any]:
    role = {"won": "right", "lost": "missed"}.get(outcome, "wrong")
    score = None if outcome == "lost" else (first if outcome == "mended" else second)[span]
    # For the rest of the sentence, show the predictions of the model that was wrong here.
    shown = second if outcome in ("lost", "spoiled") else first
    others = [
        Marked(other, "right" if other in gold else "wrong", value)
        for other, value in sorted(shown.items())
        if other != span
    ]
    return in_context(sentence, [Marked(span, role, score), *others][:_MARKS])
