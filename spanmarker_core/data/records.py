"""The annotated sentence that every reader gives, and the checks that every reader makes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spanmarker_core.errors import CoreError
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
    "numbered_lines",
    "range_problem",
    "read_lines",
    "word_problem",
]


_INT64 = 1 << 63
_MAX_SENTENCE_ID = (1 << 31) - 1  # of the columns that hold them


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document: its words and its entities, which may nest, cross or share a span.

    `sentence_id` numbers the sentence in its document. Entities are word ranges into `words`.
    """

    document_id: str
    sentence_id: int
    words: list[str]
    entities: list[Span]


class RecordProblem(Exception):
    """What is wrong with a record; the reader adds the path and the place, and raises `CoreError`."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is none, where one bad record is not to cost the others.

    `place` is its line, from 1, or its row, from 0; `problem` is what is wrong with it, in words.
    """

    place: int
    problem: str


def check_words(words: object) -> list[str]:
    """Return the words of a sentence, or raise `RecordProblem`."""
    if not isinstance(words, list):
        raise RecordProblem(f"tokens is {_kind(words)}, not a list of strings")
    for index, word in enumerate(words):
        problem = word_problem(word)
        if problem:
            raise RecordProblem(f"token {index} {problem}")
    return words


def word_problem(word: object) -> str | None:
    """Say what keeps a value from being a word of annotated data, or None if nothing does."""
    if not isinstance(word, str):
        return f"is {_kind(word)}, not a string"
    if not word or word.isspace():
        return f"is blank ({word!r}): drop it, and move the entities after it"
    if not word.isascii() and not _encodes(word):
        return f"({word!r}) holds half a surrogate pair, which is no text"
    return None


def check_annotation(start: object, end: object, label: object) -> Span:
    """Return an entity whose range is still to be held against what it counts, or raise `RecordProblem`."""
    # bool is an int to isinstance, and `"start": true` is no word number.
    if type(start) is not int or type(end) is not int:
        raise RecordProblem(f"start {start!r} and end {end!r} are not both whole numbers")
    if not all(-_INT64 <= number < _INT64 for number in (start, end)):
        raise RecordProblem("start or end is a number of more than 64 bits")
    problem = label_problem(label)
    if problem:
        raise RecordProblem(f"label {label!r} can't be used: {problem}")
    return Span(start, end, str(label))


def range_problem(span: Span, n_items: int, unit: str) -> str | None:
    """Say how a range does not fit so many words or characters, or None if it does."""
    if 0 <= span.start < span.end <= n_items:
        return None
    return (
        f"start {span.start} and end {span.end} do not fit {n_items} {unit}s: expected "
        f"0 <= start < end <= {n_items}, as end is one past the last {unit}"
    )


def check_span(start: object, end: object, label: object, n_words: int) -> Span:
    """Return one entity of a sentence of `n_words` words, or raise `RecordProblem`."""
    span = check_annotation(start, end, label)
    if problem := range_problem(span, n_words, "word"):
        raise RecordProblem(problem)
    return span


def check_entities(sentence: Sentence) -> Sentence:
    """Return a sentence all of whose entities fit its words, each there once, or raise `RecordProblem`."""
    for index, entity in enumerate(sentence.entities):
        if problem := range_problem(entity, len(sentence.words), "word"):
            raise RecordProblem(f"entity {index}: {problem}")
    check_distinct(sentence.entities)
    return sentence


def check_distinct(entities: Sequence[Span]) -> None:
    """Raise `RecordProblem` where one entity stands twice; one span with two labels is two entities."""
    seen: set[Span] = set()
    for entity in entities:
        if entity in seen:
            raise RecordProblem(f"{entity} is there twice")
        seen.add(entity)


class DocumentOrder:
    """Checks ids as sentences stream by: each document in one piece, its sentences in rising order.

    Document context is taken from neighbouring sentences, so an order that is off would give
    a sentence the wrong neighbours. Holds the ids of the documents that have ended.
    """

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._document: str | None = None
        self._sentence = -1

    def check(self, document_id: object, sentence_id: object) -> tuple[str, int]:
        """Return the ids of the next sentence, or raise `RecordProblem`."""
        if not isinstance(document_id, str) or not document_id:
            raise RecordProblem(f"document_id {document_id!r} is not a string that names a document")
        if not document_id.isascii() and not _encodes(document_id):
            raise RecordProblem(f"document_id {document_id!r} holds half a surrogate pair, which is no text")
        if type(sentence_id) is not int or not 0 <= sentence_id <= _MAX_SENTENCE_ID:
            raise RecordProblem(f"sentence_id {sentence_id!r} is not a whole number from 0 to {_MAX_SENTENCE_ID}")
        if document_id != self._document:
            if document_id in self._ended:
                raise RecordProblem(
                    f"document {document_id!r} goes on after another began: keep its sentences together"
                )
            if self._document is not None:
                self._ended.add(self._document)
            self._document = document_id
        elif sentence_id == self._sentence:
            raise RecordProblem(f"document {document_id!r} has sentence {sentence_id} twice")
        elif sentence_id < self._sentence:
            raise RecordProblem(
                f"document {document_id!r} has sentence {sentence_id} after sentence {self._sentence}: "
                f"number its sentences in rising order, each once"
            )
        self._sentence = sentence_id
        return document_id, sentence_id


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) of a UTF-8 file; see `numbered_lines`."""
    with path.open("rb") as file:
        for line, text in numbered_lines(file):
            if isinstance(text, BadRecord):
                raise CoreError("data.bad_record", path=path, line=line, problem=text.problem)
            yield line, text


def numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, str | BadRecord]]:
    """Yield (line number from 1, text without its line end, or what is wrong with it).

    Lines end with LF or CRLF and with nothing else, so that U+2028 or a vertical tab in a token stays
    in its token. A byte order mark at the beginning is dropped.
    """
    for line, raw in enumerate(file, start=1):
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if line == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line, raw.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8: convert the file"
            yield line, BadRecord(line, problem)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _encodes(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
