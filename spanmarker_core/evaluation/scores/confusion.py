"""Confusion between labels: entities on the same words under different labels, and entities without a counterpart."""

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

from spanmarker_core.text.tag_schemes import Span

CONVENTIONS = (
    "Rows are labels of gold entities, columns labels of predictions with the same words. Column None means missed, "
    "row None means spurious. So each row adds up to the gold entities of its label, and each column to the "
    "predictions of its label. Predictions with other words count as missed and spurious here; the kinds of errors "
    "distinguish them."
)


class Confusion:
    """Accumulator of (gold label, predicted label) pairs, over entities on the same words.

    >>> confusion = Confusion()
    >>> confusion.add([Span(0, 1, "PER"), Span(2, 3, "LOC")], [Span(0, 1, "ORG"), Span(2, 3, "LOC")])
    >>> sorted(confusion.counts().items())
    [(('LOC', 'LOC'), 1), (('PER', 'ORG'), 1)]
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, str | None]] = Counter()

    def add(self, gold: Iterable[Span], predicted: Iterable[Span]) -> None:
        """Add one sentence.

        If a span has several labels, those on both sides are correct and the rest are paired by name.

        Args:
            gold: gold entities of the sentence.
            predicted: predicted entities of the sentence.
        """
        gold, predicted = set(gold), set(predicted)
        self._counts.update((span.label, span.label) for span in gold & predicted)
        rest: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
        for side, spans in enumerate((gold - predicted, predicted - gold)):
            for span in sorted(spans):
                rest.setdefault((span.start, span.end), ([], []))[side].append(span.label)
        for wanted, found in rest.values():
            self._counts.update(zip_longest(wanted, found))

    def counts(self) -> dict[tuple[str | None, str | None], int]:
        """Return the counts by (gold label, predicted label), with None where a side has no entity on these words."""
        return dict(self._counts)

    def to_json(self) -> dict[str, object]:
        """Return the matrix: `labels` in order, with None last, and `counts`, one row per gold label."""
        labels: list[str | None] = [*sorted({label for pair in self._counts for label in pair if label is not None})]
        labels.append(None)
        return {"labels": labels, "counts": [[self._counts[gold, found] for found in labels] for gold in labels]}
