"""Documents that are hard to convert."""

from spanmarker_core.data.records import Sentence, Span
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, document_of_words, entity_order


def document(document_id: str, text: str, *entities: tuple[str, str], also: list | None = None) -> AnnotatedDocument:
    """A document with the first occurrence of each text as an entity."""
    found = [AnnotatedEntity(at := text.index(part), at + len(part), label) for part, label in entities]
    return AnnotatedDocument(document_id, text, None, sorted([*found, *(also or [])], key=entity_order))


TEXTS = [
    document("d1", "Ada met Bern. He slept.", ("Ada", "PER"), ("Bern", "LOC")),
    document("astral", "👩‍👩‍👧 😀 Ada 🏳️‍🌈met 𝔅ern 😀", ("Ada", "PER"), ("𝔅ern", "LOC"), ("😀", "X")),
    document(
        "marks", "E\u0301va et Zoe\u0308 à Å\u030angström 각", ("E\u0301va", "PER"), ("Zoe\u0308", "PER"), ("각", "X")
    ),
    document("crlf", "Ada\r\nmet\r\n\r\nBern\tin \u00a0 \u2028 May\r\n", ("Ada", "PER"), ("Bern", "LOC"), ("May", "T")),
    document(
        "nested",
        "the University of New York City in May",
        ("University of New York City", "ORG"),
        ("New York City", "LOC"),
        ("New York", "LOC"),
        ("York City in", "CROSSING"),
        ("the University", "CROSSING"),
        also=[AnnotatedEntity(4, 14, "SAME"), AnnotatedEntity(4, 14, "RANGE")],
    ),
    document("lines", "New\nYork and New \r\n York", ("New\nYork", "LOC"), ("New \r\n York", "LOC")),
    document("adjacent", "Ada Bern", ("Ada", "X"), ("Bern", "X")),
    document("a/b\\c:d", "Ada", ("Ada", "PER")),
    document("line\nend\r\n\t", "Ada", ("Ada", "PER")),
    document("../../etc/passwd", "Ada", ("Ada", "PER")),
    document(".hidden", "Ada", ("Ada", "PER")),
    document("_id~2 = %41", "Ada", ("Ada", "PER")),
    document("Zürich 😀", "Ada", ("Ada", "PER")),
    document(
        "hostile", '<b>&amp; "Ada" \\n {{x}} | = _ # ]]>', ("Ada", "<PER & 'x'>|=\\"), ("x", "person-soldier/other")
    ),
    document("spaces", "  Ada  met   Bern  ", ("Ada", "PER"), ("Bern", "LOC")),
    document("#", "# id is O", ("id", "X")),
]
EMPTY = [document("empty", ""), document("blank", " \n "), document("none", "no entities")]

WORDS = [
    document_of_words(
        [
            Sentence("d1", 0, ["Ada", "met", "Bern", "."], [Span(0, 1, "PER"), Span(2, 3, "LOC")]),
            Sentence("d1", 1, ["He", "slept"], []),
        ]
    ),
    document_of_words(
        [Sentence("d2", 0, ["😀", "E\u0301va", "各", "a\u00a0b"], [Span(1, 2, "PER"), Span(2, 4, "X-Y")])]
    ),
    document_of_words([Sentence("d3", 0, ["Ada", "Bern", "Ada"], [Span(0, 1, "X"), Span(1, 2, "X"), Span(2, 3, "Y")])]),
]
NESTED_WORDS = document_of_words(
    [Sentence("d4", 0, ["New", "York", "City", "Hall"], [Span(0, 4, "ORG"), Span(0, 3, "LOC"), Span(1, 4, "X")])]
)
