"""Confidence intervals of F1 over documents.

Entities of a document are not independent, so documents are the unit. F1 is a ratio of two sums over documents,
2 * correct over gold + predicted, whose variance follows from the residuals of the documents (Cochran, Sampling
Techniques, 1977, equation 6.9). Unlike a bootstrap, this needs three sums per label and no documents in memory; for
many documents, both agree.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from spanmarker_core.text.tag_schemes import Span

#: Number of documents with a label below which its interval would be too narrow to be honest.
FEW = 10
_Z = 1.959964  # 97.5 % of a normal distribution

CONVENTIONS = (
    "Intervals contain the F1 on other documents of this kind with 95 % confidence; they come from the variation "
    "between documents (Cochran 1977, equation 6.9). A label in fewer than 10 documents has no interval, nor one whose "
    "documents all have the same F1."
)


@dataclass
class _Sums:
    """Sums over documents of x = 2 * correct and y = gold + predicted."""

    documents: int = 0
    x: int = 0
    y: int = 0
    xx: int = 0
    xy: int = 0
    yy: int = 0

    def add(self, correct: int, others: int) -> None:
        x, y = 2 * correct, others
        self.documents += 1
        self.x, self.y = self.x + x, self.y + y
        self.xx, self.xy, self.yy = self.xx + x * x, self.xy + x * y, self.yy + y * y

    def interval(self, documents: int) -> tuple[float, float] | None:
        """Return the 95 % interval; None if it cannot be determined. `documents` includes those without the label."""
        if self.documents < FEW:
            return None
        f1 = self.x / self.y
        residuals = self.xx - 2 * f1 * self.xy + f1 * f1 * self.yy
        if residuals <= 1e-12 * self.yy:
            return None
        half = _Z * math.sqrt(documents / (documents - 1) * residuals) / self.y
        return max(f1 - half, 0.0), min(f1 + half, 1.0)


@dataclass
class F1Intervals:
    """Accumulator of documents; memory grows with the number of labels.

    >>> intervals = F1Intervals()
    >>> for number in range(40):
    ...     gold = [Span(0, 1, "PER"), Span(2, 3, "PER")]
    ...     intervals.add(f"d{number}", gold, gold[: number % 3])
    >>> found = intervals.to_json()["all"]
    >>> round(found["low"], 2), round(found["high"], 2)  # F1 is 0.66
    (0.54, 0.77)
    """

    _sums: dict[str | None, _Sums] = field(default_factory=dict)  # by label; None is all labels together
    _documents: int = 0
    _document: str | None = None
    # By label: correct, and gold + predicted, of the document that is being read
    _pending: dict[str | None, list[int]] = field(default_factory=dict)

    def add(self, document_id: str, gold: Iterable[Span], predicted: Iterable[Span]) -> None:
        """Add a sentence; the sentences of a document must follow each other.

        Args:
            document_id: id of its document.
            gold: gold entities of the sentence.
            predicted: predicted entities of the sentence.
        """
        if document_id != self._document:
            self._end(self._sums)
            self._document, self._pending = document_id, {}
            self._documents += 1
        gold, predicted = set(gold), set(predicted)
        for spans, place in ((gold & predicted, 0), (gold, 1), (predicted, 1)):
            for span in spans:
                for label in (span.label, None):
                    self._pending.setdefault(label, [0, 0])[place] += 1

    def to_json(self) -> dict[str, object]:
        """Return `low` and `high` of all labels together and by label; None where there is no interval."""
        sums = {label: _Sums(**vars(each)) for label, each in self._sums.items()}
        self._end(sums)
        found = {label: _json(each.interval(self._documents)) for label, each in sums.items()}
        overall = found.pop(None, None)
        return {
            "conventions": CONVENTIONS,
            "all": overall,
            "per_label": {str(label): found[label] for label in sorted(map(str, found))},
        }

    def _end(self, sums: dict[str | None, _Sums]) -> None:
        for label, (correct, others) in self._pending.items():
            sums.setdefault(label, _Sums()).add(correct, others)


def _json(interval: tuple[float, float] | None) -> dict[str, float] | None:
    return None if interval is None else {"low": interval[0], "high": interval[1]}
