"""The annotated sentence that all readers return, and the checks that they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

from spanmarker_core.text.tag_schemes import Span, label_problem

__all__ = [
    "BadRecord",
    "DocumentOrder",
    "RecordProblem",
    "Sentence",
    "Span",
    "check_annotation",
    "check_distinct",
    "check_entities",
    "check_span",
    "check_words",
    "range_problem",
    "word_problem",
]


_INT64 = 1 << 63
_MAX_SENTENCE_ID = (1 << 31) - 1  # the columns are int32


@dataclass(frozen=True, slots=True)
class Sentence:
    """An annotated sentence.

    Attributes:
        document_id: the sentence's document.
        sentence_id: the sentence's number in its document, increasing.
        words: the words.
        entities: half-open ranges into `words`, with labels; they may nest, cross or share a span.
    """

    document_id: str
    sentence_id: int
    words: list[str]
    entities: list[Span]

    def to_json(self) -> dict[str, object]:
        """Return the sentence as the object of a line of JSONL, which `read_jsonl` reads."""
        entities = [{"start": each.start, "end": each.end, "label": each.label} for each in self.entities]
        ids = {"document_id": self.document_id, "sentence_id": self.sentence_id}
        return {**ids, "tokens": self.words, "entities": entities}


class RecordProblem(Exception):
    """The reason why a record is invalid; the reader adds path and position and raises `CoreError`."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """An invalid record, returned instead of an error so that reading can continue.

    Attributes:
        place: line (from 1) or row (from 0) of the record.
        problem: the reason why it is invalid.
    """

    place: int
    problem: str


def check_words(words: object) -> list[str]:
    """Return the words of a sentence.

    Args:
        words: the value to check.

    Raises:
        RecordProblem: it is not a list of valid words.
    """
    if not isinstance(words, list):
        raise RecordProblem(f"tokens is {_kind(words)}, not a list of strings")
    for index, word in enumerate(words):
        problem = word_problem(word)
        if problem:
            raise RecordProblem(f"token {index} {problem}")
    return words


def word_problem(word: object) -> str | None:
    """Return the reason why a value is not a valid word, or None if it is valid.

    Args:
        word: the value to check.
    """
    if not isinstance(word, str):
        return f"is {_kind(word)}, not a string"
    if not word or word.isspace():
        return f"is blank ({word!r}): remove it, and shift the entities after it"
    if not word.isascii() and not _encodes(word):
        return f"({word!r}) contains an unpaired surrogate, which is not valid text"
    return None


def check_annotation(start: object, end: object, label: object) -> Span:
    """Return an entity, without checking that its range fits the sentence or text.

    Args:
        start: first word or character.
        end: last word or character plus one.
        label: entity label.

    Raises:
        RecordProblem: `start` or `end` is not an integer of 64 bits, or the label is invalid.
    """
    # isinstance would accept a bool as an int, but `"start": true` is not a word number.
    if type(start) is not int or type(end) is not int:
        raise RecordProblem(f"start {start!r} and end {end!r} are not both integers")
    if not all(-_INT64 <= number < _INT64 for number in (start, end)):
        raise RecordProblem("start or end exceeds 64 bits")
    problem = label_problem(label)
    if problem:
        raise RecordProblem(f"cannot use label {label!r}: {problem}")
    return Span(start, end, str(label))


def range_problem(span: Span, n_items: int, unit: str) -> str | None:
    """Return the reason why a range does not fit a sentence or text, or None if it fits.

    Args:
        span: the range.
        n_items: number of words or characters.
        unit: "word" or "character", for the message.
    """
    if 0 <= span.start < span.end <= n_items:
        return None
    return (
        f"start {span.start} and end {span.end} do not fit {n_items} {unit}s: expected 0 <= start < end <= {n_items}, "
        "with an exclusive end"
    )


def check_span(start: object, end: object, label: object, n_words: int) -> Span:
    """Return an entity of a sentence.

    Args:
        start: first word.
        end: last word plus one.
        label: entity label.
        n_words: number of words of the sentence.

    Raises:
        RecordProblem: the range or the label is invalid.
    """
    span = check_annotation(start, end, label)
    if problem := range_problem(span, n_words, "word"):
        raise RecordProblem(problem)
    return span


def check_entities(sentence: Sentence) -> Sentence:
    """Return a sentence after checking that its entities fit its words and are distinct.

    Args:
        sentence: the sentence to check.

    Raises:
        RecordProblem: an entity does not fit, or occurs twice.
    """
    for index, entity in enumerate(sentence.entities):
        if problem := range_problem(entity, len(sentence.words), "word"):
            raise RecordProblem(f"entity {index}: {problem}")
    check_distinct(sentence.entities)
    return sentence


def check_distinct(entities: Sequence[Span]) -> None:
    """Check that no entity occurs twice; one span with two labels is two entities.

    Args:
        entities: entities of one sentence or text.

    Raises:
        RecordProblem: an entity occurs twice.
    """
    seen: set[Span] = set()
    for entity in entities:
        if entity in seen:
            raise RecordProblem(f"{entity} occurs twice")
        seen.add(entity)


class DocumentOrder:
    """Check of the ids in a stream of sentences: documents must be contiguous, their sentences in increasing order.

    Document context consists of neighbouring sentences, so sentences in the wrong order would get the wrong
    context. Keeps the ids of all completed documents in memory.
    """

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._document: str | None = None
        self._sentence = -1

    def check(self, document_id: object, sentence_id: object) -> tuple[str, int]:
        """Return the ids of the next sentence.

        Args:
            document_id: a string that is not empty.
            sentence_id: an integer from 0 to 2³¹ - 1.

        Raises:
            RecordProblem: an id is invalid or out of order.
        """
        if not isinstance(document_id, str) or not document_id:
            raise RecordProblem(f"document_id {document_id!r} is not a non-empty string")
        if not document_id.isascii() and not _encodes(document_id):
            raise RecordProblem(f"document_id {document_id!r} contains an unpaired surrogate, which is not valid text")
        if type(sentence_id) is not int or not 0 <= sentence_id <= _MAX_SENTENCE_ID:
            raise RecordProblem(f"sentence_id {sentence_id!r} is not an integer from 0 to {_MAX_SENTENCE_ID}")
        if document_id != self._document:
            if document_id in self._ended:
                raise RecordProblem(
                    f"document {document_id!r} continues after another document began: keep the sentences of a "
                    "document together"
                )
            if self._document is not None:
                self._ended.add(self._document)
            self._document = document_id
        elif sentence_id == self._sentence:
            raise RecordProblem(f"document {document_id!r} has sentence {sentence_id} twice")
        elif sentence_id < self._sentence:
            raise RecordProblem(
                f"document {document_id!r} has sentence {sentence_id} after sentence {self._sentence}: number the "
                "sentences in ascending order, each once"
            )
        self._sentence = sentence_id
        return document_id, sentence_id


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _encodes(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
