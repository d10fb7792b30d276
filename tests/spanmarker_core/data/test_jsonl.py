import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.data import Sentence, Span, read_jsonl
from spanmarker_core.errors import CoreError


def record(document="d", sentence=0, tokens=("Ada", "met", "Bern"), entities=((0, 1, "PER"),)):
    return {
        "document_id": document,
        "sentence_id": sentence,
        "tokens": list(tokens),
        "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
    }


@pytest.fixture
def write(tmp_path):
    def write_file(*lines):
        path = tmp_path / "data.jsonl"
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path.write_bytes(b"\n".join(encoded))
        return path

    return write_file


def test_reads_nested_and_overlapping_entities(write):
    spans = [(0, 3, "X"), (0, 3, "Y"), (0, 1, "X"), (2, 3, "X"), (1, 3, "X"), (0, 2, "X")]
    (sentence,) = read_jsonl(write(record(entities=spans)))
    assert sentence == Sentence("d", 0, ["Ada", "met", "Bern"], [Span(*span) for span in spans])


def test_crlf_blank_lines_other_keys_and_byte_order_mark(write):
    lines = [
        b"\xef\xbb\xbf" + json.dumps(record()).encode() + b"\r",
        b"",
        json.dumps(record(sentence=3) | {"source": "web"}).encode() + b"\r",
        b"",
    ]
    assert [(s.document_id, s.sentence_id) for s in read_jsonl(write(*lines))] == [("d", 0), ("d", 3)]


def test_an_empty_sentence_is_valid(write):
    assert list(read_jsonl(write(record(tokens=[], entities=[])))) == [Sentence("d", 0, [], [])]


def without(key):
    return {name: value for name, value in record().items() if name != key}


def with_entity(**values):
    return record() | {"entities": [{"start": 0, "end": 1, "label": "PER"} | values]}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "it is not JSON"),
        (b'{"document_id": "d"} x', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"sentence_id": ' + b"9" * 5000 + b"}", "it is not JSON"),
        (b'{"document_id": "\xff"}', "byte 17 (0xff) is not UTF-8"),
        (b"[]", "the record is list, not an object"),
        (b"null", "the record is NoneType"),
        (without("document_id"), "the record has no document_id"),
        (without("sentence_id"), "the record has no sentence_id"),
        (without("tokens"), "the record has no tokens"),
        (without("entities"), "the record has no entities"),
        (record() | {"tokens": "Ada met"}, "tokens is str"),
        (record() | {"tokens": None}, "tokens is null"),
        (record(tokens=["Ada", 3, "Bern"]), "token 1 is int, not a string"),
        (record(tokens=["Ada", None, "Bern"]), "token 1 is null"),
        (record(tokens=["Ada", "", "Bern"]), "token 1 is blank"),
        (record(tokens=["Ada", " \t\u3000", "Bern"]), "token 1 is blank"),
        (record(tokens=["Ada", "\ud83d", "Bern"]), "token 1 ('\\ud83d') contains an unpaired surrogate"),
        (record() | {"entities": None}, "entities is not a list"),
        (record() | {"entities": [[0, 1, "PER"]]}, "entity 0 is list"),
        (record() | {"entities": [{"start": 0, "label": "PER"}]}, "entity 0 has no end"),
        (with_entity(start=-1), "entity 0: start -1 and end 1 do not fit 3 words"),
        (with_entity(end=4), "entity 0: start 0 and end 4 do not fit 3 words"),
        (with_entity(end=0), "do not fit"),
        (with_entity(start=2), "do not fit"),
        (with_entity(start="0"), "not both integers"),
        (with_entity(end=1.0), "not both integers"),
        (with_entity(start=False), "not both integers"),
        (with_entity(label=""), "it is empty"),
        (with_entity(label=" PER"), "white space"),
        (with_entity(label="O"), "means no entity"),
        (with_entity(label=None), "not a string"),
        (record(entities=[(0, 1, "PER"), (0, 1, "PER")]), "occurs twice"),
        (record(document=7), "document_id 7 is not a non-empty string"),
        (record(document=""), "is not a non-empty string"),
        (record(document="d\ud83d"), "document_id 'd\\ud83d' contains an unpaired surrogate"),
        (record(sentence="0"), "sentence_id '0'"),
        (record(sentence=-1), "sentence_id -1"),
        (record(sentence=True), "sentence_id True"),
    ],
)
def test_bad_records(write, bad, says):
    path = write(record("good"), bad, record("other"))
    sentences = read_jsonl(path)
    assert next(sentences).document_id == "good"
    with pytest.raises(CoreError) as caught:
        next(sentences)
    assert caught.value.code == "data.bad_record"
    assert f"{path}, line 2: " in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "line", "says"),
    [
        ([("a", 0), ("a", 1), ("a", 1)], 3, "has sentence 1 twice"),
        ([("a", 0), ("a", 2), ("a", 1)], 3, "has sentence 1 after sentence 2"),
        ([("a", 0), ("b", 0), ("a", 1)], 3, "continues after another document"),
        ([("a", 0), ("b", 0), ("a", 0)], 3, "continues after another document"),
        ([("b", 0), ("c", 5), ("c", 5)], 3, "has sentence 5 twice"),
    ],
)
def test_documents_in_one_piece(write, ids, line, says):
    path = write(*(record(*pair) for pair in ids))
    with pytest.raises(CoreError) as caught:
        list(read_jsonl(path))
    assert f"line {line}: " in str(caught.value)
    assert says in str(caught.value)


@given(st.lists(st.text(min_size=1).filter(lambda word: not word.isspace()), max_size=6), st.booleans())
def test_any_words_come_back_as_they_were(tmp_path_factory, words, escaped):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    line = json.dumps(record(tokens=words, entities=[]), ensure_ascii=escaped)
    path.write_bytes(line.encode())
    assert next(read_jsonl(path)).words == words
