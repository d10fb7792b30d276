"""F1 by nesting structure: flat, nested, covering, or both.

Source: Zhu et al., Deep Span Representations for NER (DSpERT), section 4.5 and Figure 3. "Nested" are the spans that
are nested inside a ground-truth entity which covers other ground-truth entities; "covering" those that cover a
ground-truth entity which is nested inside other ground-truth entities; "both" those that are both, "flat" those that
are neither.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

from spanmarker_core.text.tag_schemes import Span

STRUCTURES = ("flat", "nested", "covering", "both")

CONVENTIONS = (
    "Nested: inside a gold entity that contains other gold entities. Covering: contains a gold entity that is nested "
    "in others. Both: both. Flat: neither (DSpERT, Figure 3). Inside means fewer words: two labels of the same words "
    "do not nest. Each prediction is grouped by its own words, correct or not."
)


def structures(spans: Iterable[Span], gold: Iterable[Span]) -> dict[Span, str]:
    """Return the structure of each span of a sentence, given the sentence's gold entities.

    Args:
        spans: spans to classify.
        gold: gold entities of the sentence.

    The paper's example, "Mr. John Smith graduated from New York University last year":

    >>> gold = [Span(5, 7, "LOC"), Span(5, 8, "ORG"), Span(1, 3, "PER")]
    >>> list(structures([*gold, Span(6, 7, "LOC"), Span(4, 8, "ORG")], gold).values())
    ['nested', 'covering', 'flat', 'nested', 'covering']
    """
    bounds = {(span.start, span.end) for span in gold}
    entities = _Ranges(bounds)
    covering = _Ranges({bound for bound in bounds if entities.inside(*bound)})
    nested = _Ranges({bound for bound in bounds if entities.around(*bound)})
    groups = {
        (False, False): "flat",
        (True, False): "nested",
        (False, True): "covering",
        (True, True): "both",
    }
    return {span: groups[covering.around(span.start, span.end), nested.inside(span.start, span.end)] for span in spans}


class _Ranges:
    """Half-open ranges that answer by bisection whether any of them contains, or is contained in, another range."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        ends = [end for _, end in ordered]
        self._last_end = list(accumulate(ends, max))  # of the ranges up to each one
        self._first_end = list(accumulate(reversed(ends), min))[::-1]  # of the ranges from each one on

    def around(self, start: int, end: int) -> bool:
        """Return whether any range strictly contains this one."""
        before, upto = bisect_left(self._starts, start), bisect_right(self._starts, start)
        return (before > 0 and self._last_end[before - 1] >= end) or (upto > 0 and self._last_end[upto - 1] > end)

    def inside(self, start: int, end: int) -> bool:
        """Return whether any range is strictly contained in this one."""
        n = len(self._starts)
        at, after = bisect_left(self._starts, start), bisect_right(self._starts, start)
        return (after < n and self._first_end[after] <= end) or (at < n and self._first_end[at] < end)
