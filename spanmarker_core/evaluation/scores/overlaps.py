"""Which spans of a sentence share words."""

from collections.abc import Iterable, Iterator, Sequence

from spanmarker_core.text.tag_schemes import Span


def overlapping(first: Iterable[Span], second: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield each pair of a span of `first` and one of `second` that have a word in common, each pair once.

    Spans are looked up by word, so the time is that of the spans' words and the pairs, not of all pairs there could be.

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
    """Return a flat part of some spans: longest first, each that shares no word with one before; in order.

    Ties are broken by start and label.

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
    """Return a span's words with blanks between them: its surface form, in the case that it has.

    >>> surface(["in", "New", "York"], Span(1, 3, "LOC"))
    'New York'
    """
    return " ".join(words[span.start : span.end])
