"""Summaries of annotated data, counted in one pass, for model cards and training plans.

Summaries of parts can be merged into the summary of the whole, in any order and for any division of the data, as long
as no document is divided. So any worker can count any part. Memory grows with the number of labels, and at most with
the square root of the number of words (which limits the number of distinct lengths).
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any

from spanmarker_core.data.records import Sentence, Span
from spanmarker_core.errors import UnusableError, wrap_errors

FORMAT_VERSION = 1

#: Example entities kept per label, and example sentences in total; maximum characters of an entity and a sentence.
EXAMPLES, EXAMPLE_SENTENCES = 3, 5
SURFACE_CHARACTERS, SENTENCE_CHARACTERS = 60, 200
#: Lengths in words of sentences that make good examples.
_SENTENCE_WORDS = range(4, 41)


@dataclass(slots=True)
class LabelSummary:
    """Counts of one label.

    Attributes:
        count: number of entities.
        examples: texts of some entities.
        lengths: number of entities by length in words.
    """

    count: int = 0
    examples: list[str] = field(default_factory=list)
    lengths: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class DataSummary:
    """Counts over annotated sentences.

    Attributes:
        sentences: number of sentences.
        words: number of words.
        entities: number of entities; a span with two labels is two entities.
        documents: number of documents.
        sentence_lengths: number of sentences by number of words.
        sentence_entities: number of sentences by number of entities.
        labels: counts of each label.
        example_sentences: some sentences with entities, their words separated by blanks.

    Examples are selected by a digest of their text only, so the selection does not depend on order or shards.

    >>> summary = DataSummary()
    >>> summary.add(Sentence("d", 0, ["Ada", "Lovelace", "wrote", "it"], [Span(0, 2, "PER")]))
    >>> summary.labels["PER"].examples, summary.labels["PER"].lengths[2], span_of(summary.sentence_lengths)
    (['Ada Lovelace'], 1, (4, 4.0, 4))
    """

    sentences: int = 0
    words: int = 0
    entities: int = 0
    documents: int = 0
    sentence_lengths: Counter[int] = field(default_factory=Counter)
    sentence_entities: Counter[int] = field(default_factory=Counter)
    labels: dict[str, LabelSummary] = field(default_factory=dict)
    example_sentences: list[str] = field(default_factory=list)
    _document: str | None = field(default=None, repr=False, compare=False)

    def add(self, sentence: Sentence) -> None:
        """Count a sentence; the sentences of a document must be consecutive.

        Args:
            sentence: the sentence.
        """
        if self._document != sentence.document_id:
            self._document = sentence.document_id
            self.documents += 1
        entities = set(sentence.entities)
        self.sentences += 1
        self.words += len(sentence.words)
        self.entities += len(entities)
        self.sentence_lengths[len(sentence.words)] += 1
        self.sentence_entities[len(entities)] += 1
        for entity in entities:
            label = self.labels.setdefault(entity.label, LabelSummary())
            label.count += 1
            label.lengths[entity.end - entity.start] += 1
            _keep(label.examples, [_surface(sentence.words, entity)], EXAMPLES)
        if entities and len(sentence.words) in _SENTENCE_WORDS:
            text = " ".join(sentence.words)
            if len(text) <= SENTENCE_CHARACTERS:
                _keep(self.example_sentences, [text], EXAMPLE_SENTENCES)

    def merge(self, other: "DataSummary") -> None:
        """Add the counts of another summary.

        Args:
            other: a summary of other documents.
        """
        self._document = None
        self.sentences += other.sentences
        self.words += other.words
        self.entities += other.entities
        self.documents += other.documents
        self.sentence_lengths.update(other.sentence_lengths)
        self.sentence_entities.update(other.sentence_entities)
        for name, theirs in other.labels.items():
            label = self.labels.setdefault(name, LabelSummary())
            label.count += theirs.count
            label.lengths.update(theirs.lengths)
            _keep(label.examples, theirs.examples, EXAMPLES)
        _keep(self.example_sentences, other.example_sentences, EXAMPLE_SENTENCES)

    def lengths(self) -> Counter[int]:
        """Return the number of entities by number of words."""
        total: Counter[int] = Counter()
        for label in self.labels.values():
            total.update(label.lengths)
        return total

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values, equal for equal summaries. Counters are lists of [value, count]."""
        return {
            "format_version": FORMAT_VERSION,
            "sentences": self.sentences,
            "words": self.words,
            "entities": self.entities,
            "documents": self.documents,
            "sentence_lengths": _pairs(self.sentence_lengths),
            "sentence_entities": _pairs(self.sentence_entities),
            "labels": {
                name: {"count": label.count, "examples": label.examples, "lengths": _pairs(label.lengths)}
                for name, label in sorted(self.labels.items())
            },
            "example_sentences": self.example_sentences,
        }

    @classmethod
    def from_json(cls, values: object) -> "DataSummary":
        """Build a summary from the output of `to_json`.

        Args:
            values: JSON values.

        Raises:
            UnusableError: they are not a summary of this format.
        """
        with wrap_errors("it is not a data summary of this version"):
            if not isinstance(values, Mapping) or values.get("format_version") != FORMAT_VERSION:
                raise UnusableError(f"it is not a data summary of format {FORMAT_VERSION}")
            labels = {
                str(name): LabelSummary(_count(of["count"]), _texts(of["examples"]), _counter(of["lengths"]))
                for name, of in values["labels"].items()
            }
            return cls(
                sentences=_count(values["sentences"]),
                words=_count(values["words"]),
                entities=_count(values["entities"]),
                documents=_count(values["documents"]),
                sentence_lengths=_counter(values["sentence_lengths"]),
                sentence_entities=_counter(values["sentence_entities"]),
                labels=labels,
                example_sentences=_texts(values["example_sentences"]),
            )


def summarise(sentences: Iterable[Sentence]) -> DataSummary:
    """Return the summary of a stream of sentences.

    Args:
        sentences: annotated sentences; those of a document must be consecutive.
    """
    summary = DataSummary()
    for sentence in sentences:
        summary.add(sentence)
    return summary


def span_of(counts: Mapping[int, int]) -> tuple[int, float, int] | None:
    """Return the minimum, median and maximum of counted values; None if there are no values.

    >>> span_of({1: 2, 4: 2}), span_of({1: 1, 3: 2})
    ((1, 2.5, 4), (1, 3.0, 3))

    Args:
        counts: number of occurrences of each value, at least 1.
    """
    values = sorted(counts)
    if not values:
        return None
    total = sum(counts.values())
    return values[0], (_nth(counts, values, (total - 1) // 2) + _nth(counts, values, total // 2)) / 2, values[-1]


def _nth(counts: Mapping[int, int], values: list[int], place: int) -> int:
    for value in values:
        place -= counts[value]
        if place < 0:
            return value
    raise IndexError(place)


def _surface(words: list[str], entity: Span) -> str:
    """Return the entity's text, shortened if necessary, without joining more words than are shown."""
    text = ""
    for word in words[entity.start : entity.end]:
        text = f"{text} {word[: SURFACE_CHARACTERS + 1]}" if text else word[: SURFACE_CHARACTERS + 1]
        if len(text) > SURFACE_CHARACTERS:
            return f"{text[: SURFACE_CHARACTERS - 1]}…"
    return text


def _keep(kept: list[str], texts: Iterable[str], limit: int) -> None:
    """Keep the distinct texts with the smallest digests: a reproducible random sample."""
    new = set(texts).difference(kept)
    if new:
        kept[:] = heapq.nsmallest(limit, chain(kept, new), key=lambda text: (blake2b(text.encode()).digest(), text))


def _pairs(counts: Mapping[int, int]) -> list[list[int]]:
    return [[value, count] for value, count in sorted(counts.items())]


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not a count")
    return value


def _texts(values: object) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} is not a list of texts")
    return values


def _counter(pairs: list[list[int]]) -> Counter[int]:
    return Counter({_count(value): _count(count) for value, count in pairs})
