"""Selects the entities of documents that a format can hold, and counts the others."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity
from spanmarker_core.formats.options import Flatten
from spanmarker_core.formats.words import with_words, word_sentences

#: Entities shown in a report of those left out, and characters of each.
_EXAMPLES, _SHOWN = 5, 60

#: Problem of an entity that a format cannot hold, by reason.
_PROBLEMS = {"overlaps": "overlaps another entity", "crosses_sentences": "crosses the edge of a sentence"}
#: Description of the entities and texts left out, by reason.
_LEFT_OUT = {
    "overlaps": "entities that overlap others",
    "crosses_sentences": "entities that cross the edge of a sentence",
    "misaligned": "entities that do not begin and end with words",
    "discontinuous": "entities of several parts",
    "not_accepted": "texts that the annotator did not accept",
}


@dataclass(slots=True)
class Kept:
    """Counters of a conversion.

    Attributes:
        documents: number of documents.
        wordless: number of documents that were left out because the format holds words, and they have none.
        entities: number of entities kept.
        labels: number of them by label.
        left_out: number of entities left out, by reason: `overlaps`, `crosses_sentences`, `misaligned`; of conversions
            also what the reader left out, see `ReadOptions`.
        examples: some of them, for people.
    """

    documents: int = 0
    wordless: int = 0
    entities: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def leave_out(self, document: AnnotatedDocument, entity: AnnotatedEntity, reason: str) -> None:
        """Count an entity that was left out.

        Args:
            document: its document.
            entity: the entity.
            reason: why it was left out.
        """
        self.left_out[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(shown(document, entity))

    def losses(self) -> Iterator[str]:
        """Yield lines about what was left out, with examples."""
        for reason, count in self.left_out.items():
            yield f"Left out: {count:,} {_LEFT_OUT[reason]}"
        yield from (f"  {example}" for example in self.examples)
        if self.wordless:
            yield f"Left out: {self.wordless:,} documents without words"

    def add(self, other: "Kept") -> None:
        """Add the counters of another part of a conversion.

        Args:
            other: the counters.
        """
        self.documents += other.documents
        self.wordless += other.wordless
        self.entities += other.entities
        self.labels.update(other.labels)
        self.left_out.update(other.left_out)
        self.examples += other.examples[: _EXAMPLES - len(self.examples)]


def shown(document: AnnotatedDocument, entity: AnnotatedEntity) -> str:
    """Describe an entity for a message.

    Args:
        document: its document.
        entity: the entity.
    """
    surface = document.text[entity.char_start : entity.char_end][:_SHOWN]
    place = f"characters {entity.char_start} to {entity.char_end} of document {document.document_id[:_SHOWN]!r}"
    return f"{surface!r} ({entity.label[:_SHOWN]!r}, {place})"


def fitting_documents(
    documents: Iterable[AnnotatedDocument],
    *,
    name: str,
    flat: bool,
    needs_words: bool,
    flatten: Flatten,
    language: str,
    kept: Kept,
) -> Iterator[AnnotatedDocument]:
    """Yield documents with only the entities that a format can hold.

    Entities that do not begin and end with words are always left out of formats of words, whatever `flatten` is.

    Args:
        documents: the documents.
        name: name of the format, for messages.
        flat: whether entities must not share characters.
        needs_words: whether the format holds words; documents without sentences are split.
        flatten: what to do with entities that share characters or cross sentences.
        language: ISO 639 code of the texts.
        kept: receives the counts.

    Raises:
        CoreError: `format.cannot_hold` if `flatten` is "refuse".
    """
    for document in documents:
        left_out: list[tuple[AnnotatedEntity, str]] = []
        if needs_words:
            document = with_words(document, language)
            if not any(sentence.words for sentence in document.sentences or []):
                kept.wordless += 1
                continue
            left_out = word_sentences(document)[1]
        if flat:
            without = {entity for entity, _ in left_out}
            candidates = [entity for entity in document.entities if entity not in without]
            left_out += [(entity, "overlaps") for entity in _overlapping(candidates, flatten)]
        if left_out:
            for entity, reason in left_out:
                if flatten == "refuse" and reason != "misaligned":
                    entity_shown, problem = shown(document, entity), _PROBLEMS[reason]
                    raise CoreError(
                        "format.cannot_hold", format=name, entity=entity_shown, reason=reason, problem=problem
                    )
                kept.leave_out(document, entity, reason)
            without = {entity for entity, _ in left_out}
            document = replace(document, entities=[entity for entity in document.entities if entity not in without])
        kept.documents += 1
        kept.entities += len(document.entities)
        kept.labels.update(entity.label for entity in document.entities)
        yield document


def _overlapping(entities: list[AnnotatedEntity], flatten: Flatten) -> list[AnnotatedEntity]:
    """Return the entities to leave out so that no two share a character.

    >>> outer, inner, crossing = (AnnotatedEntity(*bounds, "X") for bounds in ((0, 5), (0, 2), (4, 12)))
    >>> _overlapping([outer, inner, crossing], "longest") == [outer]
    True
    >>> _overlapping([outer, inner, crossing], "first") == [inner, crossing]
    True
    """

    def length(entity: AnnotatedEntity) -> int:
        return entity.char_end - entity.char_start

    def rank(entity: AnnotatedEntity) -> tuple[int, int, str]:
        if flatten == "longest":
            return -length(entity), entity.char_start, entity.label
        return entity.char_start, -length(entity), entity.label

    starts: list[int] = []
    ends: list[int] = []  # of the kept entities, in order
    left_out = []
    for entity in sorted(entities, key=rank):
        place = bisect_left(starts, entity.char_end)  # the kept ones before it begin before the entity ends
        if place and ends[place - 1] > entity.char_start:
            left_out.append(entity)
        else:
            starts.insert(place, entity.char_start)
            ends.insert(place, entity.char_end)
    return left_out
