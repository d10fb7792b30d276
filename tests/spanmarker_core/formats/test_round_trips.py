"""What is written in a format is read back: identical texts, ranges, labels and ids."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedEntity, checked_document
from spanmarker_core.formats.registry import FORMATS
from spanmarker_core.formats.words import with_words
from tests.spanmarker_core.formats.conftest import Memory
from tests.spanmarker_core.formats.documents import EMPTY, NESTED_WORDS, TEXTS, WORDS

WRITTEN = [name for name, each in FORMATS.items() if each.writer]
OF_TEXTS = [name for name in WRITTEN if not FORMATS[name].needs_words]
#: CoNLL-U holds words and the white space between them.
EXACT = [*OF_TEXTS, "conllu"]
OF_WORDS = [name for name in WRITTEN if FORMATS[name].needs_words and name != "datasets"]


def there(document, name):
    """The document as a format can give it back."""
    entities = document.entities
    if name == "brat":
        entities = [entity for entity in entities if len(entity.label.split()) == 1]
    return replace(document, entities=entities, sentences=None)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("document", [*TEXTS, *EMPTY], ids=lambda document: repr(document.document_id))
def test_texts(memory, name, document):
    given = there(document, name)
    if not FORMATS[name].nested and document.document_id == "nested":
        given = replace(given, entities=[given.entities[1]])
    expected = [] if name == "conllu" and not with_words(given).sentences else [given]
    kept = memory.write([given], name)
    assert [replace(each, sentences=None) for each in memory.read(name)] == expected
    assert (kept.documents, kept.entities, kept.wordless) == (
        len(expected),
        len(given.entities) * len(expected),
        1 - len(expected),
    )


@pytest.mark.parametrize("name", OF_TEXTS)
def test_many_documents_in_order(memory, name):
    memory.write([there(each, name) for each in TEXTS], name)
    found = sorted(memory.read(name), key=lambda each: each.document_id)
    assert [replace(each, sentences=None) for each in found] == sorted(
        (there(each, name) for each in TEXTS), key=lambda each: each.document_id
    )


@pytest.mark.parametrize("name", OF_WORDS)
@pytest.mark.parametrize("scheme", ["IOB2", "BIOES", "IOB1", "BILOU"])
def test_words(memory, name, scheme):
    documents = [*WORDS, *([NESTED_WORDS] if FORMATS[name].nested else [])]
    memory.write(documents, name, scheme=scheme)
    found = memory.read(name, scheme=scheme)
    if name == "gliner":  # one record per sentence
        assert [each.text for each in found] == [line for each in documents for line in each.text.split("\n")]
        assert found[2:] == [replace(each, document_id=f"doc-{n}") for n, each in enumerate(documents[1:], start=2)]
        return
    ids = [f"doc-{number}" if name == "conll" else each.document_id for number, each in enumerate(documents)]
    assert found == [replace(each, document_id=made) for each, made in zip(documents, ids, strict=True)]


@pytest.mark.parametrize("name", ["spacy", "cas"])
def test_sentences_and_words_of_formats_that_hold_both(memory, name):
    documents = [with_words(each) for each in [*WORDS, TEXTS[1], TEXTS[3]]]
    memory.write(documents, name)
    assert sorted(memory.read(name), key=lambda each: each.document_id) == sorted(
        documents, key=lambda each: each.document_id
    )


def test_scores(memory):
    scored = checked_document("d", "Ada met Bern", [(0, 3, "PER", 0.75), (8, 12, "LOC", 0.5)])
    for name in ("jsonl", "prodigy", "label-studio"):
        other = Memory()
        other.write([scored], name)
        assert other.read(name) == [scored]


def holds(name, document):
    """Whether a format can hold a document."""
    if name == "brat":
        surfaces = [document.text[each.char_start : each.char_end] for each in document.entities]
        return all(surface == surface.strip("\r\n") for surface in surfaces)
    return name != "cas" or all(
        each in "\t\n\r" or (each >= " " and each < "\ufffe") or each > "\uffff" for each in document.text
    )


@given(st.data())
def test_any_text_and_ranges(data):
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
    text = data.draw(st.text(st.one_of(st.sampled_from("Ada \n\r\t😀e\u0301|_#;\\"), characters), max_size=40))
    label = st.sampled_from(["PER", "B-LOC", "ü-x", "a|b=c\\s"])
    edges = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)), label).filter(
        lambda each: each[0] < each[1]
    )
    document = checked_document("id", text, [(*each, None) for each in data.draw(st.lists(edges, max_size=6))])
    for name in OF_TEXTS:
        memory = Memory()
        if not holds(name, document):
            with pytest.raises(CoreError) as caught:
                memory.write([document], name)
            assert caught.value.code == "format.cannot_write"
            continue
        memory.write([document], name)
        (found,) = memory.read(name)
        assert replace(found, sentences=None) == document, name


@given(st.data())
def test_entities_of_words_are_kept_and_others_counted(data):
    text = data.draw(st.text(st.sampled_from("ab .😀\n各"), min_size=1, max_size=30))
    edges = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).filter(lambda each: each[0] < each[1])
    document = checked_document("d", text, [(*each, "X", None) for each in data.draw(st.lists(edges, max_size=8))])
    for name in ("conll", "conllu", "sentences", "gliner"):
        memory = Memory()
        kept = memory.write([document], name, flatten="longest")
        if kept.wordless:
            continue
        assert kept.entities + kept.left_out.total() == len(document.entities)
        found = [entity for each in memory.read(name, scheme="IOB2") for entity in each.entities]
        assert len(found) == kept.entities
        if name == "conllu":
            assert {(each.char_start, each.char_end) for each in found} <= {
                (each.char_start, each.char_end) for each in document.entities
            }


@pytest.mark.parametrize(("flatten", "expected"), [("longest", [(4, 14), (18, 22)]), ("first", [(0, 8), (18, 22)])])
def test_flattening(memory, flatten, expected):
    text = "New York Times in Bern"
    entities = [AnnotatedEntity(start, end, "X") for start, end in [(0, 8), (4, 14), (4, 8), (18, 22)]]
    document = replace(TEXTS[0], text=text, entities=entities)
    kept = memory.write([document], "conllu", flatten=flatten)
    (found,) = memory.read("conllu")
    assert [(each.char_start, each.char_end) for each in found.entities] == expected
    assert kept.left_out == {"overlaps": 2}


@pytest.mark.parametrize("name", ["conll", "conllu", "datasets"])
def test_what_does_not_fit_is_refused(memory, name):
    with pytest.raises(CoreError) as caught:
        memory.write([TEXTS[4]], name)
    assert caught.value.code == "format.cannot_hold"
    assert "nested" in str(caught.value)
    crossing = replace(TEXTS[0], entities=[AnnotatedEntity(8, 16, "X")])
    with pytest.raises(CoreError) as caught:
        Memory().write([crossing], name)
    assert caught.value.values["reason"] == "crosses_sentences"
    kept = Memory().write([crossing], name, flatten="first")
    assert kept.left_out == {"crosses_sentences": 1}


def test_misaligned_entities_are_counted_whatever_is_chosen(memory):
    inside = replace(TEXTS[0], entities=[AnnotatedEntity(1, 3, "X"), AnnotatedEntity(0, 3, "PER")])
    kept = memory.write([inside], "conll")
    assert (kept.entities, kept.left_out) == (1, {"misaligned": 1})
    assert "'da'" in kept.examples[0]


def test_the_page_says_what_each_format_can_hold():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    assert [row[0].strip("`") for row in rows] == list(FORMATS)
    for (_, files, text, nested, written, _), form in zip(rows, FORMATS.values(), strict=True):
        assert all(f"`{ending}`" in files for ending in form.endings)
        assert ("per document" in files) == form.one_file_per_document
        assert nested == ("yes" if form.nested else "no")
        assert written == ("yes" if form.writer else "no")
        words = form.needs_words and form.name != "conllu"
        assert text == ("both" if form.name == "parquet" else "words" if words else "exact")
