"""Overlaps between the spans of a sentence."""

from collections.abc import Iterable, Iterator, Sequence

from spanmarker_core.text.tag_schemes import Span


def overlapping(first: Iterable[Span], second: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield each pair of a span of `first` and a span of `second` that share a word, once per pair.

    Spans are looked up by word, so the time is proportional to the words of the spans and the pairs found.

    Args:
        first: spans of a sentence.
        second: spans of the same sentence.

    >>> list(overlapping([Span(0, 2, "PER"), Span(3, 5, "LOC")], [Span(1, 4, "PER")]))
    [(Span(start=0, end=2, label='PER'), Span(start=1, end=4, label='PER')), \
(Span(start=3, end=5, label='LOC'), Span(start=1, end=4, label='PER'))]
    """
    over: dict[int, list[Span]] = {}
    for span in second:
        for word in range(span.start, span.end):
            over.setdefault(word, []).append(span)
    if not over:
        return
    for span in first:
        for word in range(span.start, span.end):
            for other in over.get(word, ()):
                if word == max(span.start, other.start):  # the first word that they share
                    yield span, other


def outermost(spans: Iterable[Span]) -> list[Span]:
    """Return a flat subset of spans: longest first, each that shares no word with one already chosen; in order.

    Ties are broken by start and label.

    Args:
        spans: spans of a sentence.

    >>> outermost([Span(0, 3, "ORG"), Span(1, 2, "LOC"), Span(4, 5, "PER")])
    [Span(start=0, end=3, label='ORG'), Span(start=4, end=5, label='PER')]
    """
    taken: set[int] = set()
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start, span.label)):
        words = range(span.start, span.end)
        if taken.isdisjoint(words):
            taken.update(words)
            kept.append(span)
    return sorted(kept)


def surface(words: Sequence[str], span: Span) -> str:
    """Return the surface form of a span: its words joined by spaces, case included.

    Args:
        words: words of the sentence.
        span: the span.

    >>> surface(["in", "New", "York"], Span(1, 3, "LOC"))
    'New York'
    """
    return " ".join(words[span.start : span.end])
