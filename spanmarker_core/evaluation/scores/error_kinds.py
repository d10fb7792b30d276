"""Kinds of errors, and the boundary and type error rates of BL-NER.

Source: Ji et al., Win-Win Cooperation: Bundling Sequence and Span Models for NER, section 4.3.2, equations 24a and 24b.
A *boundary error* is "a predicted entity [that] contains more or fewer tokens than a ground truth entity", a *type
error* one that has "the same boundary but different types"; their rates divide by FP + FN.

The paper's data are flat. For overlapping entities, one has to define which predictions and gold entities are compared.
Here only errors are compared with each other: a correct entity neither turns a spurious one beside it into a boundary
error nor excuses a missed one inside it. On flat data both readings agree.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from spanmarker_core.evaluation.scores.overlaps import overlapping
from spanmarker_core.text.tag_schemes import Span

#: Kinds of errors in order of precedence: the first that applies is used. "missed" applies to gold entities only,
#: "spurious" to predictions only.
KINDS = ("type", "boundary", "both", "missed", "spurious")

CONVENTIONS = (
    "Errors are predictions that equal no gold entity (FP) and gold entities that equal no prediction (FN). Each has "
    "one kind, which depends on the errors of the other side that share words with it: type (the same words, another "
    "label); otherwise boundary (other words, the same label); otherwise both (other words, another label). If there "
    "are none, a prediction is spurious and a gold entity is missed. Boundary error rate: predictions of kind "
    "boundary or both, divided by FP + FN; type error rate: predictions of kind type, divided by FP + FN (BL-NER, "
    "equations 24a and 24b)."
)


def error_kinds(gold: Iterable[Span], predicted: Iterable[Span]) -> tuple[dict[Span, str], dict[Span, str]]:
    """Classify the errors of a sentence.

    Args:
        gold: gold entities of the sentence.
        predicted: predicted entities of the sentence.

    Returns:
        The kind of each gold entity that was missed, and of each prediction that is not gold.

    >>> missed, false = error_kinds([Span(0, 1, "PER"), Span(2, 4, "LOC")], [Span(0, 1, "ORG"), Span(3, 4, "LOC")])
    >>> list(false.values())
    ['type', 'boundary']
    """
    gold, predicted = set(gold), set(predicted)
    missed = dict.fromkeys(sorted(gold - predicted), "missed")
    false = dict.fromkeys(sorted(predicted - gold), "spurious")
    for wanted, found in overlapping(missed, false):
        kind = _relation(wanted, found)
        missed[wanted] = min(missed[wanted], kind, key=KINDS.index)
        false[found] = min(false[found], kind, key=KINDS.index)
    return missed, false


def _relation(gold: Span, predicted: Span) -> str:
    if (gold.start, gold.end) == (predicted.start, predicted.end):
        return "type"
    return "boundary" if gold.label == predicted.label else "both"


@dataclass(frozen=True)
class ErrorRates:
    """Errors by kind.

    Attributes:
        missed: number of missed gold entities by kind.
        false: number of false predictions by kind.
        boundary_error_rate: boundary errors / all errors of both sides, 0 to 1; 0 without errors.
        boundary_same_label_rate: part of the boundary error rate with the correct label.
        type_error_rate: type errors / all errors of both sides, 0 to 1; 0 without errors.
    """

    missed: dict[str, int]
    false: dict[str, int]
    boundary_error_rate: float
    boundary_same_label_rate: float
    type_error_rate: float


class ErrorCounter:
    """Accumulator of kinds of errors.

    The paper's example (section 4.3.2): "rain" is Weather, "this night" is Date, and "it rain" is predicted as Weather.

    >>> counter = ErrorCounter()
    >>> counter.add(*error_kinds([Span(2, 3, "Weather"), Span(3, 5, "Date")], [Span(1, 3, "Weather")]))
    >>> counter.rates().false["boundary"], round(counter.rates().boundary_error_rate, 3)  # of 1 FP and 2 FN
    (1, 0.333)
    """

    def __init__(self) -> None:
        self._missed: Counter[str] = Counter()
        self._false: Counter[str] = Counter()

    def add(self, missed: dict[Span, str], false: dict[Span, str]) -> None:
        """Add the errors of a sentence, the result of `error_kinds`.

        Args:
            missed: kinds of the missed gold entities.
            false: kinds of the false predictions.
        """
        self._missed.update(missed.values())
        self._false.update(false.values())

    def rates(self) -> ErrorRates:
        """Return the counts and rates of all errors added so far."""
        total = max(1, self._missed.total() + self._false.total())
        return ErrorRates(
            missed={kind: self._missed[kind] for kind in KINDS if kind != "spurious"},
            false={kind: self._false[kind] for kind in KINDS if kind != "missed"},
            boundary_error_rate=(self._false["boundary"] + self._false["both"]) / total,
            boundary_same_label_rate=self._false["boundary"] / total,
            type_error_rate=self._false["type"] / total,
        )
