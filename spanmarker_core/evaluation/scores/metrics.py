"""Span-set precision, recall and F1.

An entity is the set member (document, sentence, start, end, label), and a prediction is correct if it
is in the gold set. So spans may nest or overlap, their order means nothing, and one that is given
twice counts once. Recall divides by all gold, reachable or not; beside it stands the ceiling, the
share of gold that a model of this `entity_max_length` could find at all.

Standard library only, so that scores never hang on a build or a network.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from spanmarker_core.evaluation.scores.reach import largest_flat_subset, reachable_by_length
from spanmarker_core.text.tag_schemes import Span

CONVENTIONS = (
    "A prediction is correct if document, sentence, start, end and label all equal a gold entity's. "
    "Duplicates count once. Recall divides by all gold entities; its ceiling is the share of them that is "
    "within entity_max_length. Macro is the unweighted mean over the labels that have gold entities or "
    "predictions. A score with nothing to divide by is 0."
)


@dataclass(frozen=True)
class Scores:
    """Precision, recall, F1 and recall's ceiling, each from 0 to 1, with the counts behind them.

    `support` counts gold entities, `predicted` predictions, `correct` those in both, `reachable`
    the gold entities that the model could have found.
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

    `micro` pools all entities. `macro` holds means over `per_label` (F1 is the mean of the labels' F1,
    not the F1 of the means) beside the pooled counts. `per_label` is sorted by label. `flat_ceiling` is
    the recall that no decoder without overlaps can pass: it keeps the largest set of reachable gold
    entities that do not overlap, so it equals `micro.ceiling` where gold is flat.
    """

    micro: Scores
    macro: Scores
    per_label: dict[str, Scores]
    flat_ceiling: float
    sentences: int


class SpanScorer:
    """Adds up sentences one at a time; memory grows with the number of labels only.

    >>> scorer = SpanScorer(entity_max_length=8)
    >>> scorer.add([Span(0, 2, "PER"), Span(3, 4, "LOC")], [Span(0, 2, "PER"), Span(3, 4, "ORG")])
    >>> scorer.result().micro.f1, scorer.result().macro.f1
    (0.5, 0.3333333333333333)
    """

    def __init__(self, entity_max_length: int | None = None) -> None:
        """Take the longest span, in words, that the model can give; None if it has no limit."""
        self.entity_max_length = entity_max_length
        self._support: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._correct: Counter[str] = Counter()
        self._reachable: Counter[str] = Counter()
        self._reachable_flat = 0
        self._sentences = 0

    def add(self, gold_spans: Iterable[Span], predicted_spans: Iterable[Span]) -> None:
        """Add one sentence: its gold entities and those that the model gave."""
        gold, predicted = set(gold_spans), set(predicted_spans)
        reachable = reachable_by_length(gold, self.entity_max_length)
        self._support.update(span.label for span in gold)
        self._predicted.update(span.label for span in predicted)
        self._correct.update(span.label for span in gold & predicted)
        self._reachable.update(span.label for span in reachable)
        self._reachable_flat += len(largest_flat_subset(reachable))
        self._sentences += 1

    def merge(self, other: "SpanScorer") -> None:
        """Add what another scorer added up, of other sentences."""
        for name in ("_support", "_predicted", "_correct", "_reachable"):
            getattr(self, name).update(getattr(other, name))
        self._reachable_flat += other._reachable_flat
        self._sentences += other._sentences

    def result(self) -> EvaluationResult:
        """Score what was added so far."""
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
    # The ceiling is averaged over the same labels as recall, so that it is a bound on it.
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
