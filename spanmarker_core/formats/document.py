"""The annotated document that all formats read and write."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spanmarker_core.data.records import BadRecord, RecordProblem, Sentence, check_annotation, range_problem
from spanmarker_core.text.tag_schemes import Span


@dataclass(frozen=True, slots=True)
class AnnotatedSentence:
    """A sentence of a document.

    Attributes:
        char_start: its first character.
        char_end: its last character plus one.
        words: (char_start, char_end) of each word, in code points of the document's text, in order, without overlap.
    """

    char_start: int
    char_end: int
    words: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, order=True)
class AnnotatedEntity:
    """An entity of a document.

    Attributes:
        char_start: its first character.
        char_end: its last character plus one.
        label: its label.
        score: the score of a prediction, 0 to 1; None for annotations by hand.
    """

    char_start: int
    char_end: int
    label: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class AnnotatedDocument:
    """A text with its entities. All offsets are half-open and count code points of `text`.

    Attributes:
        document_id: its id.
        text: its text. For data that hold only words: one line per sentence, with a space between two words.
        sentences: its sentences, in order, without overlap; None if the data don't define them.
        entities: its entities, in order of their ranges; they may nest, cross or share a range.
    """

    document_id: str
    text: str
    sentences: list[AnnotatedSentence] | None
    entities: list[AnnotatedEntity]


@dataclass(frozen=True, slots=True)
class BadRow(BadRecord):
    """An invalid record of a format without lines; `place` counts records from 0."""


def checked_document(
    document_id: str, text: object, entities: Iterable[tuple[object, object, object, float | None]]
) -> AnnotatedDocument:
    """Return a document without sentences.

    Args:
        document_id: its id.
        text: its text.
        entities: first character, last character plus one, label and score of each entity, in any order.

    Raises:
        RecordProblem: the text or an entity is invalid.
    """
    if not isinstance(text, str):
        raise RecordProblem(f"the text is {type(text).__name__}, not a string")
    check_encodes("the text", text)
    check_encodes("the id", document_id)
    found: dict[Span, AnnotatedEntity] = {}  # annotated twice alike is annotated once
    for index, (start, end, label, score) in enumerate(entities):
        try:
            span = check_annotation(start, end, label)
        except RecordProblem as error:
            raise RecordProblem(f"entity {index}: {error}") from error
        if problem := range_problem(span, len(text), "character"):
            raise RecordProblem(f"entity {index}: {problem}")
        found.setdefault(span, AnnotatedEntity(span.start, span.end, span.label, score))
    return AnnotatedDocument(document_id, text, None, sorted(found.values(), key=entity_order))


def document_of_words(sentences: Iterable[Sentence]) -> AnnotatedDocument:
    """Return the document that consists of some sentences of words, in order.

    >>> document_of_words([Sentence("d", 0, ["Ada", "met"], []), Sentence("d", 1, ["Bern"], [Span(0, 1, "LOC")])])
    ... # doctest: +NORMALIZE_WHITESPACE
    AnnotatedDocument(document_id='d', text='Ada met\\nBern',
        sentences=[AnnotatedSentence(char_start=0, char_end=7, words=[(0, 3), (4, 7)]),
                   AnnotatedSentence(char_start=8, char_end=12, words=[(8, 12)])],
        entities=[AnnotatedEntity(char_start=8, char_end=12, label='LOC', score=None)])

    Args:
        sentences: one or more sentences of one document.
    """
    document_id, text, made, entities = "", [], [], set()
    at = 0
    for sentence in sentences:
        document_id = sentence.document_id
        words, start = [], at
        for word in sentence.words:
            words.append((at, at + len(word)))
            at += len(word) + 1
        text.append(" ".join(sentence.words))
        made.append(AnnotatedSentence(start, start + len(text[-1]), words))
        at = start + len(text[-1]) + 1
        for span in sentence.entities:
            entities.add(AnnotatedEntity(words[span.start][0], words[span.end - 1][1], span.label))
    return AnnotatedDocument(document_id, "\n".join(text), made, sorted(entities, key=entity_order))


def joined_documents(
    records: Iterable[AnnotatedDocument | Sentence | BadRecord],
) -> Iterator[AnnotatedDocument | BadRecord]:
    """Yield the documents of consecutive sentences. A bad record doesn't end a document.

    Args:
        records: sentences, bad records, and documents, which are passed on.
    """
    members: list[Sentence] = []
    for record in records:
        if not isinstance(record, Sentence):
            yield record
            continue
        if members and members[-1].document_id != record.document_id:
            yield document_of_words(members)
            members = []
        members.append(record)
    if members:
        yield document_of_words(members)


def check_encodes(what: str, text: str) -> None:
    """Check that a text can be written as UTF-8.

    Args:
        what: name of the text, for the message.
        text: the text.

    Raises:
        RecordProblem: it holds an unpaired surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RecordProblem(f"{what} has an unpaired surrogate at character {error.start}") from error


def entity_order(entity: AnnotatedEntity) -> tuple[int, int, str]:
    """Return the key by which documents sort their entities: in reading order, the longer of two first.

    Args:
        entity: the entity.
    """
    return entity.char_start, -entity.char_end, entity.label
