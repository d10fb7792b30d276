"""What annotated data hold, counted as they stream by: what a model card and a training plan tell of them.

Summaries of parts add up to the summary of the whole, in any order and however the data were cut, as long as no
document is parted. So the parts can be counted by whichever worker comes first. Memory grows with the labels, and with
the square root of the number of words at most (there can be no more different lengths than that).
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

#: Surfaces that are kept of each label, and sentences of all; characters of the longest surface and sentence.
EXAMPLES, EXAMPLE_SENTENCES = 3, 5
SURFACE_CHARACTERS, SENTENCE_CHARACTERS = 60, 200
#: Words of a sentence that is worth showing.
_SENTENCE_WORDS = range(4, 41)


@dataclass(slots=True)
class LabelSummary:
    """One label: how many entities it has, some of their texts, and how many have each length in words."""

    count: int = 0
    examples: list[str] = field(default_factory=list)
    lengths: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class DataSummary:
    """Counts over annotated sentences.

    Attributes:
        sentences, words, entities, documents: how many there are. An entity of two labels is two.
        sentence_lengths: sentences by their number of words.
        sentence_entities: sentences by their number of entities.
        labels: what is known of each label.
        example_sentences: some sentences that hold entities, their words parted by blanks.

    Which examples are kept is decided by a digest of their text alone, so neither order nor shards matter.

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
        """Count a sentence; those of a document come one after the other."""
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
        """Add what another summary counted of other documents."""
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
        """Return entities by their number of words."""
        total: Counter[int] = Counter()
        for label in self.labels.values():
            total.update(label.lengths)
        return total

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; equal summaries give equal ones. Counts by length are lists of [length, count]."""
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
        """Read what `to_json` gave.

        Raises:
            UnusableError: it is something else.
        """
        with wrap_errors("it is no data summary of this version"):
            if not isinstance(values, Mapping) or values.get("format_version") != FORMAT_VERSION:
                raise UnusableError(f"it is no data summary of format {FORMAT_VERSION}")
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
    """Count a stream of sentences."""
    summary = DataSummary()
    for sentence in sentences:
        summary.add(sentence)
    return summary


def span_of(counts: Mapping[int, int]) -> tuple[int, float, int] | None:
    """Return the least, the median and the greatest of values that are counted; None where there are none.

    >>> span_of({1: 2, 4: 2}), span_of({1: 1, 3: 2})
    ((1, 2.5, 4), (1, 3.0, 3))
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
    """Return the entity's text, cut where it is too long to show; of words that are never joined whole."""
    text = ""
    for word in words[entity.start : entity.end]:
        text = f"{text} {word[: SURFACE_CHARACTERS + 1]}" if text else word[: SURFACE_CHARACTERS + 1]
        if len(text) > SURFACE_CHARACTERS:
            return f"{text[: SURFACE_CHARACTERS - 1]}…"
    return text


def _keep(kept: list[str], texts: Iterable[str], limit: int) -> None:
    """Keep the texts whose digests are the smallest, each once: a draw that anyone repeats."""
    new = set(texts).difference(kept)
    if new:
        kept[:] = heapq.nsmallest(limit, chain(kept, new), key=lambda text: (blake2b(text.encode()).digest(), text))


def _pairs(counts: Mapping[int, int]) -> list[list[int]]:
    return [[value, count] for value, count in sorted(counts.items())]


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no count")
    return value


def _texts(values: object) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} is no list of texts")
    return values


def _counter(pairs: list[list[int]]) -> Counter[int]:
    return Counter({_count(value): _count(count) for value, count in pairs})
