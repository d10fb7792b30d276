"""Annotated entities that a model can reach, determined before training.

A span-marker model classifies spans of up to `entity_max_length` words, so longer entities are always missed. This
part is exact. A decoder without overlaps (`flat`) adds a second bound: of entities that overlap, it can return only
one. Which one depends on the scores, so the bound cannot be stated by label. In total, a flat output cannot hold more
entities than the largest set that do not overlap, which `largest_flat_subset` computes.
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
    """Return the entities of at most `entity_max_length` words.

    Args:
        entities: entities to filter.
        entity_max_length: limit in words; None keeps all.

    >>> reachable_by_length([Span(0, 2, "PER"), Span(0, 9, "ORG")], 8)
    [Span(start=0, end=2, label='PER')]
    """
    if entity_max_length is None:
        return list(entities)
    return [entity for entity in entities if entity.end - entity.start <= entity_max_length]


def largest_flat_subset(entities: Iterable[Span]) -> list[Span]:
    """Return the largest subset of a sentence's entities that do not overlap, in order.

    Args:
        entities: entities of one sentence.

    >>> largest_flat_subset([Span(0, 5, "ORG"), Span(0, 2, "LOC"), Span(3, 5, "LOC")])
    [Span(start=0, end=2, label='LOC'), Span(start=3, end=5, label='LOC')]
    """
    chosen: list[Span] = []
    # Taking the span that ends first leaves the most room for the rest (interval scheduling).
    for entity in sorted(entities, key=lambda span: (span.end, -span.start, span.label)):
        if not chosen or entity.start >= chosen[-1].end:
            chosen.append(entity)
    return chosen


@dataclass(frozen=True)
class LengthReport:
    """Lengths of the entities in words, and the effect of `entity_max_length` on them.

    Attributes:
        entity_max_length: the limit in words.
        sentence_lengths: number of sentences by number of words.
        lengths: number of entities by number of words, in rising order.
        unreachable_labels: number of entities above the limit by label, most frequent first.
        flat: largest number of entities within the limit that an output without overlaps can hold; None if not counted.
    """

    entity_max_length: int
    sentence_lengths: dict[int, int]
    lengths: dict[int, int]
    unreachable_labels: dict[str, int]
    flat: int | None

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return sum(self.sentence_lengths.values())

    @property
    def entities(self) -> int:
        """Number of entities."""
        return sum(self.lengths.values())

    @property
    def reachable(self) -> int:
        """Number of entities of at most `entity_max_length` words."""
        return sum(count for length, count in self.lengths.items() if length <= self.entity_max_length)

    @property
    def coverage(self) -> dict[int, float]:
        """Share of the entities that each length would reach as the limit; rises to 1."""
        total = self.entities
        covered = accumulate(self.lengths.values())
        return {length: reached / total for length, reached in zip(self.lengths, covered, strict=True)}

    def smallest_covering(self, share: float) -> int | None:
        """Return the smallest `entity_max_length` that reaches a share of the entities; None without entities.

        Args:
            share: share of the entities, 0 to 1.
        """
        return next((length for length, covered in self.coverage.items() if covered >= share), None)

    def spans(self, limit: int) -> int:
        """Return the number of candidate spans of all sentences.

        A model without a gate scores all of them, which accounts for most of its work.

        Args:
            limit: longest candidate span, in words.

        >>> LengthReport(8, {4: 1}, {}, {}, 0).spans(2)
        7
        """
        # n words have 1 + 2 + … + n spans, minus those longer than the limit.
        return sum(
            count * (n_words * (n_words + 1) - max(n_words - limit, 0) * (max(n_words - limit, 0) + 1)) // 2
            for n_words, count in self.sentence_lengths.items()
        )

    @property
    def suggested(self) -> int | None:
        """Smallest `entity_max_length` that reaches 99 % of the entities; None without entities."""
        return self.smallest_covering(SUGGESTED_COVERAGE)

    def to_text(self, tags: bool = False) -> str:
        """Format the report as a few lines for the terminal.

        Args:
            tags: omit the spans to score and the nesting, for models that build entities from tags.
        """
        return "\n".join(_lines(self, tags))


def length_report(sentences: Iterable[Sentence], entity_max_length: int) -> LengthReport:
    """Count the entity lengths of a stream of sentences.

    Args:
        sentences: annotated sentences.
        entity_max_length: limit in words.
    """
    summary = DataSummary()
    flat = 0
    for sentence in sentences:
        summary.add(sentence)
        flat += count_flat([sentence], entity_max_length)
    return report_of(summary, entity_max_length, flat)


def count_flat(sentences: Iterable[Sentence], entity_max_length: int) -> int:
    """Return the largest number of entities within a limit that do not overlap.

    Args:
        sentences: annotated sentences.
        entity_max_length: limit in words.
    """
    reachable = (reachable_by_length(sentence.entities, entity_max_length) for sentence in sentences)
    return sum(len(largest_flat_subset(entities)) for entities in reachable)


def report_of(summary: DataSummary, entity_max_length: int, flat: int | None = None) -> LengthReport:
    """Create the report of data from their summary.

    Args:
        summary: summary of the data.
        entity_max_length: limit in words.
        flat: largest number of entities within the limit that do not overlap; None if not counted.
    """
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
        f"({_percent(total - reachable, total)}), which count as missed.",
    ]
    if report.flat is not None and report.flat < reachable:
        most = f"can return at most {report.flat:,} ({_percent(report.flat, total)})"
        within = f"decoder flat.v1 {most}; nested.v1 can also return nested entities"
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
    advice = "unchanged" if report.suggested == limit else f"now {limit}"
    lines.append(f"Suggested entity_max_length: {report.suggested} ({SUGGESTED_COVERAGE:.0%} of entities; {advice}).")
    return lines


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.2%}"
