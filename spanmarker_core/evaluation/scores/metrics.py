"""Span-set precision, recall and F1.

An entity is the set member (document, sentence, start, end, label), and a prediction is correct if it is in the gold
set. Spans may therefore nest or overlap, their order is irrelevant, and duplicates count once. Recall divides by all
gold entities, reachable or not. The ceiling is the share of gold entities that the model can predict: those of at most
`entity_max_length` words that have one of its labels.

This module uses only the standard library, so that scores do not depend on a build or on the network.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from spanmarker_core.evaluation.scores.reach import largest_flat_subset, reachable_by_length
from spanmarker_core.text.tag_schemes import Span

CONVENTIONS = (
    "A prediction is correct if its document, sentence, start, end and label equal those of a gold entity. Duplicates "
    "count once. Recall is relative to all gold entities; its ceiling is the share of them that have at most "
    "entity_max_length words and a label of the model. Macro is the unweighted mean over the labels with gold entities "
    "or predictions. A score with a denominator of 0 is 0."
)


@dataclass(frozen=True)
class Scores:
    """Precision, recall, F1 and recall ceiling, each from 0 to 1, with the underlying counts.

    Attributes:
        precision: correct / predicted.
        recall: correct / support.
        f1: harmonic mean of precision and recall.
        ceiling: reachable / support, an upper bound of recall.
        support: number of gold entities.
        predicted: number of predictions.
        correct: number of predictions that are gold entities.
        reachable: number of gold entities that the model could have predicted.
    """

    precision: float
    recall: float
    f1: float
    ceiling: float
    support: int
    predicted: int
    correct: int
    reachable: int


@dataclass(frozen=True)
class EvaluationResult:
    """Scores over all sentences that were added.

    Attributes:
        micro: scores over all entities together.
        macro: means over `per_label` (F1 is the mean of the labels' F1, not the F1 of the means), with the total
            counts.
        per_label: scores by label, sorted by label.
        flat_ceiling: upper bound of the recall of any decoder without overlaps: the share of gold entities in the
            largest set of reachable ones that do not overlap. Equals `micro.ceiling` if gold is flat.
        sentences: number of sentences.
        f1_interval: bounds of the 95 % bootstrap interval of micro F1 over documents; None if it was not computed, or
            if there are fewer than two documents.
    """

    micro: Scores
    macro: Scores
    per_label: dict[str, Scores]
    flat_ceiling: float
    sentences: int
    f1_interval: tuple[float, float] | None = None


class SpanScorer:
    """Accumulator of sentences; memory grows only with the number of labels.

    Args:
        entity_max_length: longest span, in words, that the model can predict; None if unlimited.
        labels: the labels that the model can predict; None if unlimited.

    >>> scorer = SpanScorer(entity_max_length=8)
    >>> scorer.add([Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(0, 2, "PER"), Span(3, 4, "ORG")])
    >>> scorer.result().micro.f1, scorer.result().macro.f1
    (0.5, 0.3333333333333333)
    """

    def __init__(self, entity_max_length: int | None = None, labels: Collection[str] | None = None) -> None:
        """Create an empty scorer."""
        self.entity_max_length = entity_max_length
        self.labels = labels
        self._support: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._correct: Counter[str] = Counter()
        self._reachable: Counter[str] = Counter()
        self._reachable_flat = 0
        self._sentences = 0

    def add(self, gold_spans: Iterable[Span], predicted_spans: Iterable[Span]) -> None:
        """Add one sentence.

        Args:
            gold_spans: gold entities of the sentence.
            predicted_spans: predicted entities of the sentence.
        """
        gold, predicted = set(gold_spans), set(predicted_spans)
        reachable = reachable_by_length(gold, self.entity_max_length)
        if self.labels is not None:
            reachable = [span for span in reachable if span.label in self.labels]
        self._support.update(span.label for span in gold)
        self._predicted.update(span.label for span in predicted)
        self._correct.update(span.label for span in gold & predicted)
        self._reachable.update(span.label for span in reachable)
        self._reachable_flat += len(largest_flat_subset(reachable))
        self._sentences += 1

    def merge(self, other: "SpanScorer") -> None:
        """Add the counts of another scorer.

        Args:
            other: a scorer of other sentences.
        """
        for name in ("_support", "_predicted", "_correct", "_reachable"):
            getattr(self, name).update(getattr(other, name))
        self._reachable_flat += other._reachable_flat
        self._sentences += other._sentences

    def result(self) -> EvaluationResult:
        """Return the scores of all sentences added so far."""
        per_label = {
            label: _from_counts(
                self._support[label], self._predicted[label], self._correct[label], self._reachable[label]
            )
            for label in sorted(self._support.keys() | self._predicted.keys())
        }
        micro = _from_counts(
            self._support.total(), self._predicted.total(), self._correct.total(), self._reachable.total()
        )
        return EvaluationResult(
            micro=micro,
            macro=_mean(micro, list(per_label.values())),
            per_label=per_label,
            flat_ceiling=_ratio(self._reachable_flat, micro.support),
            sentences=self._sentences,
        )


def _from_counts(support: int, predicted: int, correct: int, reachable: int) -> Scores:
    return Scores(
        precision=_ratio(correct, predicted),
        recall=_ratio(correct, support),
        f1=_ratio(2 * correct, support + predicted),
        ceiling=_ratio(reachable, support),
        support=support,
        predicted=predicted,
        correct=correct,
        reachable=reachable,
    )


def _mean(micro: Scores, labels: list[Scores]) -> Scores:
    # The ceiling is averaged over the same labels as recall, so that it is an upper bound of recall.
    n_labels = len(labels)
    return Scores(
        precision=_ratio(sum(scores.precision for scores in labels), n_labels),
        recall=_ratio(sum(scores.recall for scores in labels), n_labels),
        f1=_ratio(sum(scores.f1 for scores in labels), n_labels),
        ceiling=_ratio(sum(scores.ceiling for scores in labels), n_labels),
        support=micro.support,
        predicted=micro.predicted,
        correct=micro.correct,
        reachable=micro.reachable,
    )


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
