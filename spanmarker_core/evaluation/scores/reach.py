"""Which annotated entities a model can reach, before a minute is spent on training it.

A span-marker model classifies spans of up to `entity_max_length` words, so a longer entity is a miss
by construction. That is the exact part, told by length. A decoder without overlaps (`flat`) adds a
second bound: of entities that overlap it can give only one. Which one is the scores' choice, so
per label nothing certain can be said; in all, no flat output can hold more entities than the
largest set of them that do not overlap, which is what `largest_flat_subset` finds.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from spanmarker_core.data.records import Sentence
from spanmarker_core.data.summary import DataSummary
from spanmarker_core.text.tag_schemes import Span

SUGGESTED_COVERAGE = 0.99


def reachable_by_length(entities: Iterable[Span], entity_max_length: int | None) -> list[Span]:
    """Return the entities of at most `entity_max_length` words (all for None).

    >>> reachable_by_length([Span(0, 2, "PER"), Span(0, 9, "ORG")], 8)
    [Span(start=0, end=2, label='PER')]
    """
    if entity_max_length is None:
        return list(entities)
    return [entity for entity in entities if entity.end - entity.start <= entity_max_length]


def largest_flat_subset(entities: Iterable[Span]) -> list[Span]:
    """Return the most entities of one sentence that a flat output could hold, in order.

    >>> largest_flat_subset([Span(0, 5, "ORG"), Span(0, 2, "LOC"), Span(3, 5, "LOC")])
    [Span(start=0, end=2, label='LOC'), Span(start=3, end=5, label='LOC')]
    """
    chosen: list[Span] = []
    # Taking whichever span ends first leaves the most room for the rest (interval scheduling).
    for entity in sorted(entities, key=lambda span: (span.end, -span.start, span.label)):
        if not chosen or entity.start >= chosen[-1].end:
            chosen.append(entity)
    return chosen


@dataclass(frozen=True)
class LengthReport:
    """How long the entities are, in words, and what `entity_max_length` makes of that.

    `sentence_lengths` counts sentences by their words, `lengths` entities by theirs in rising order,
    `unreachable_labels` those over the limit by label, most first. `flat` is the most entities within the limit that an
    output without overlaps can hold; None where that was not counted.
    """

    entity_max_length: int
    sentence_lengths: dict[int, int]
    lengths: dict[int, int]
    unreachable_labels: dict[str, int]
    flat: int | None

    @property
    def sentences(self) -> int:
        """Number of all sentences."""
        return sum(self.sentence_lengths.values())

    @property
    def entities(self) -> int:
        """Number of all entities."""
        return sum(self.lengths.values())

    @property
    def reachable(self) -> int:
        """Number of the entities of at most `entity_max_length` words."""
        return sum(count for length, count in self.lengths.items() if length <= self.entity_max_length)

    @property
    def coverage(self) -> dict[int, float]:
        """Share of the entities that each length, as the limit, would reach; rises to 1."""
        total = self.entities
        covered = accumulate(self.lengths.values())
        return {length: reached / total for length, reached in zip(self.lengths, covered, strict=True)}

    def smallest_covering(self, share: float) -> int | None:
        """Return the smallest `entity_max_length` that reaches `share` of the entities; None without any."""
        return next((length for length, covered in self.coverage.items() if covered >= share), None)

    def spans(self, limit: int) -> int:
        """Return how many candidate spans the sentences have with an `entity_max_length` of `limit`.

        They are what a model without a gate scores, which is most of its work.

        >>> LengthReport(8, {4: 1}, {}, {}, 0).spans(2)
        7
        """
        # Of n words 1 + 2 + … + n spans, less those longer than the limit.
        return sum(
            count * (n_words * (n_words + 1) - max(n_words - limit, 0) * (max(n_words - limit, 0) + 1)) // 2
            for n_words, count in self.sentence_lengths.items()
        )

    @property
    def suggested(self) -> int | None:
        """The smallest `entity_max_length` that reaches 99 % of the entities; None without any."""
        return self.smallest_covering(SUGGESTED_COVERAGE)

    def to_text(self, tags: bool = False) -> str:
        """Write the report as a few lines for the terminal.

        Args:
            tags: say nothing of spans to score or of nesting: entities are put together from tags.
        """
        return "\n".join(_lines(self, tags))


def length_report(sentences: Iterable[Sentence], entity_max_length: int) -> LengthReport:
    """Count entity lengths over a stream of sentences."""
    summary = DataSummary()
    flat = 0
    for sentence in sentences:
        summary.add(sentence)
        flat += len(largest_flat_subset(reachable_by_length(sentence.entities, entity_max_length)))
    return report_of(summary, entity_max_length, flat)


def report_of(summary: DataSummary, entity_max_length: int, flat: int | None = None) -> LengthReport:
    """Return the report of data that were summed up before."""
    unreachable = Counter(
        {
            name: sum(count for length, count in label.lengths.items() if length > entity_max_length)
            for name, label in summary.labels.items()
        }
    )
    return LengthReport(
        entity_max_length=entity_max_length,
        sentence_lengths=dict(summary.sentence_lengths),
        lengths=dict(sorted(summary.lengths().items())),
        unreachable_labels=dict(sorted((+unreachable).items(), key=lambda item: (-item[1], item[0]))),
        flat=flat,
    )


def _lines(report: LengthReport, tags: bool) -> list[str]:
    limit, total, reachable = report.entity_max_length, report.entities, report.reachable
    if not total:
        return [f"No entities in {report.sentences:,} sentences."]
    lines = [
        f"{total:,} entities in {report.sentences:,} sentences; entity_max_length is {limit} words.",
        f"Reachable: {reachable:,} ({_percent(reachable, total)}). Out of reach: {total - reachable:,} "
        f"({_percent(total - reachable, total)}), which count as misses.",
    ]
    if report.flat is not None and report.flat < reachable:
        most = f"can give at most {report.flat:,} ({_percent(report.flat, total)})"
        within = f"decoder flat.v1 {most}; nested.v1 can give entities within others too"
        lines.append(f"Some overlap: {f'tags {most}' if tags else within}.")
    lines += ["", "  words    entities   reached by this limit" + ("" if tags else "   spans to score")]
    curve = report.coverage
    shown = max(limit, report.suggested or 0)
    for length, count in report.lengths.items():
        if length <= shown:
            mark = "  <- entity_max_length" if length == limit else ""
            spans = "" if tags else f"   {report.spans(length) / report.spans(limit):>13.2f}x"
            lines.append(f"  {length:>5}  {count:>10,}   {curve[length]:>21.2%}{spans}{mark}")
    beyond = {length: count for length, count in report.lengths.items() if length > shown}
    if beyond:
        lines.append(f"  {f'>{shown}':>5}  {sum(beyond.values()):>10,}   longest {max(beyond)}")
    lines.append("")
    if report.unreachable_labels:
        by_label = ", ".join(f"{label} {count:,}" for label, count in report.unreachable_labels.items())
        lines.append(f"Out of reach by label: {by_label}.")
    percentiles = ", ".join(f"{share:.0%} {report.smallest_covering(share)}" for share in (0.9, 0.95, 0.99, 1.0))
    lines.append(f"Smallest entity_max_length that reaches: {percentiles}.")
    advice = "as it is" if report.suggested == limit else f"now {limit}"
    lines.append(f"Suggested entity_max_length: {report.suggested} ({SUGGESTED_COVERAGE:.0%} of entities; {advice}).")
    return lines


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.2%}"
