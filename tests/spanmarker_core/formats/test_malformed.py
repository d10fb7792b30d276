"""Malformed files are coded errors that name the file and the place; other dialects of a format are read."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spanmarker_core.errors import CoreError
from spanmarker_core.formats.detect import format_of
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import read_documents
from spanmarker_core.text.tag_schemes import TAG_SCHEMES
from tests.spanmarker_core.formats.conftest import Memory


def source(content, name="data.json", **others):
    memory = Memory({name: content if isinstance(content, bytes) else content.encode(), **others})
    return Source(name, memory.open)


def read(name, content, path="data.json", options=None, **others):
    return list(read_documents(source(content, path, **others), name, options or ReadOptions(scheme="IOB2")))


TEXT = {"x.txt": b"Ada met Bern"}
CONLLU = "\t".join(["1", "Ada", *"_" * 7, "NER=B-PER"])


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        *(
            (name, content, ("data.bad_record", "line", 2))
            for name, first in {
                "jsonl": '{"text": "", "entities": []}',
                "sentences": '{"tokens": [], "entities": []}',
                "tags": '{"tokens": [], "ner_tags": []}',
                "doccano": '{"text": "", "label": []}',
                "prodigy": '{"text": "", "spans": []}',
                "label-studio": '{"data": {"text": ""}}',
                "gliner": '{"tokenized_text": [], "ner": []}',
            }.items()
            for content in (
                f"{first}\n{{",
                f"{first}\n[]",
                f"{first}\nnull",
                f"{first}\n{{}}",
                f'{first}\n{{"a": "\\ud800"}}',
                f"{first}\n".encode() + b'{"\xff": 1}',
            )
        ),
        *(
            (name, f"[{record}, {bad}]", ("data.bad_row", "row", 1))
            for name, record, bad in [
                ("jsonl", '{"text": "", "entities": []}', "{"),
                ("gliner", '{"tokenized_text": [], "ner": []}', '{"tokenized_text": ["a"], "ner": [[0, 1, "X"]]}'),
                ("label-studio", '{"data": {"text": ""}}', '{"data": {}}'),
            ]
        ),
        (
            "jsonl",
            '{"text": "Ada", "entities": [{"start": 0, "end": 4, "label": "X"}]}',
            ("data.bad_record", "line", 1),
        ),
        (
            "jsonl",
            '{"text": "Ada", "entities": [{"start": 2, "end": 1, "label": "X"}]}',
            ("data.bad_record", "line", 1),
        ),
        (
            "jsonl",
            '{"text": "Ada", "entities": [{"start": true, "end": 1, "label": "X"}]}',
            ("data.bad_record", "line", 1),
        ),
        ("jsonl", '{"text": "Ada", "entities": [{"start": 0, "end": 1, "label": ""}]}', ("data.bad_record", "line", 1)),
        ("jsonl", '{"text": "\\ud800", "entities": []}', ("data.bad_record", "line", 1)),
        ("jsonl", '{"text": 1, "entities": []}', ("data.bad_record", "line", 1)),
        ("jsonl", '{"id": [1], "text": "", "entities": []}', ("data.bad_record", "line", 1)),
        (
            "jsonl",
            '{"text": "", "entities": [{"start": 0, "end": 1, "label": "X", "score": "1"}]}',
            ("data.bad_record", "line", 1),
        ),
        ("jsonl", '{"text": "Ada", "entities": [[0, 3]]}', ("data.bad_record", "line", 1)),
        ("jsonl", '{"text": "Ada", "entities": [[0, 4, "X"]]}', ("data.bad_record", "line", 1)),
        ("doccano", '{"text": "Ada", "label": [[0, 3]]}', ("data.bad_record", "line", 1)),
        ("doccano", '{"text": "Ada", "label": "X"}', ("data.bad_record", "line", 1)),
        ("tags", '{"tokens": ["Ada"], "ner_tags": ["O", "O"]}', ("data.bad_record", "line", 1)),
        ("tags", '{"tokens": ["Ada"], "ner_tags": ["S-PER"]}', ("data.bad_record", "line", 1)),
        ("gliner", '{"tokenized_text": ["a"], "ner": [["0", 0, "X"]]}', ("data.bad_record", "line", 1)),
        (
            "label-studio",
            '{"data": {"text": "a"}, "annotations": [{"result": [{"type": "labels", "value": {}}]}]}',
            ("data.bad_record", "line", 1),
        ),
        (
            "label-studio",
            '{"data": {"text": "a"}, "annotations": [{"result": [{"type": "hypertextlabels"}]}]}',
            ("data.bad_record", "line", 1),
        ),
        ("label-studio", '{"data": {"text": "a"}, "annotations": [1]}', ("data.bad_record", "line", 1)),
        ("label-studio", '{"data": {"text": "a"}, "annotations": 1}', ("data.bad_record", "line", 1)),
        ("label-studio", '{"data": {"text": "a"}, "annotations": [{"result": 1}]}', ("data.bad_record", "line", 1)),
        ("conll", "Ada\tB-PER\nmet\n", ("data.bad_record", "line", 2)),
        ("conllu", f"# text = x\n{CONLLU}\n2\tmet\n", ("data.bad_record", "line", 3)),
        ("conllu", f"{CONLLU}\n\n{CONLLU.replace('B-', 'I-')}\n", ("data.bad_record", "line", 3)),
        ("conllu", CONLLU.replace("Ada", " "), ("data.bad_record", "line", 1)),
        ("spacy", "no DocBin", ("data.bad_dataset", "path", "data.json")),
        ("spacy", "", ("data.bad_dataset", "path", "data.json")),
        ("parquet", "no Parquet", ("data.bad_dataset", "path", "data.json")),
    ],
)
def test_places(name, content, place):
    with pytest.raises(CoreError) as caught:
        read(name, content)
    code, value, number = place
    assert (caught.value.code, caught.value.values["path"], caught.value.values[value]) == (code, "data.json", number)


def test_long_values_of_several_lines():
    text = "x" * 100_000
    (document,) = read("jsonl", f'{{"id": "a",\n"text": "{text}",\n"entities": []}}')
    assert document.text == text


def test_a_damaged_page_of_parquet():
    entities = [{"start": 0, "end": 3, "label": "PER"}]
    file = io.BytesIO()
    pq.write_table(pa.table({"text": [f"Ada {n}" for n in range(999)], "entities": [entities] * 999}), file)
    content = bytearray(file.getvalue())
    content[100:900] = b"Z" * 800
    with pytest.raises(CoreError) as caught:
        read("parquet", bytes(content))
    assert (caught.value.code, caught.value.values["path"]) == ("data.bad_dataset", "data.json")


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("T1\tPER 0 99\tAda", 1),
        ("T1\tPER 3 3\t", 1),
        ("#1\tnote\nR1\tof Arg1:T1 Arg2:T2\nT1 PER 0 3", 3),
        ("T1\tPER x 3\tAda", 1),
        (f"T1\tPER 0 {'9' * 5000}\tAda", 1),
        ("T1\tPER 0 3;8 12\tAda Bern", 1),
    ],
)
def test_brat(row, line):
    with pytest.raises(CoreError) as caught:
        read("brat", row, "x.ann", **TEXT)
    assert (caught.value.code, caught.value.values["path"], caught.value.values["line"]) == (
        "data.bad_record",
        "x.ann",
        line,
    )


def test_files_of_a_document_that_are_missing_or_not_text():
    with pytest.raises(CoreError) as caught:
        read("brat", "", "y.ann", **TEXT)
    assert (caught.value.code, caught.value.values["path"]) == ("data.not_found", "y.txt")
    with pytest.raises(CoreError) as caught:
        read("brat", "", "x.ann", **{"x.txt": b"a\n\xff"})
    assert (caught.value.code, caught.value.values["line"]) == ("data.bad_record", 2)


@pytest.mark.parametrize(
    "page",
    [
        "{",
        "[1]",
        "1",
        '{"items": {}}',
        '{"body":"X","target":{"source":"x%00","selector":{"type":"TextPositionSelector","start":0,"end":1}}}',
        '{"first": "http://example.org/page"}',
        '{"items": [{"body": {"value": "X"}, "target": {"source": "../x.txt", "selector": []}}]}',
        '{"items": [{"body": {"value": "X"}, "target": {"source": "x.txt", "selector": {"type": "XPathSelector"}}}]}',
        '{"items": [{"body": [], "target": {"source": "x.txt"}}]}',
        '{"body": "X", "target": {"source": "x.txt", "selector": {"type": "TextPositionSelector", "start": 9}}}',
    ],
)
def test_web_annotations(page):
    with pytest.raises(CoreError) as caught:
        read("web-annotations", page, "x.jsonld", **TEXT)
    assert (caught.value.code, caught.value.values["path"]) == ("data.bad_dataset", "x.jsonld")


@pytest.mark.parametrize("content", ["", "<a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "no XML"])
def test_cas(content):
    with pytest.raises(CoreError) as caught:
        read("cas", content, "x.xmi")
    assert (caught.value.code, caught.value.values["path"]) == ("data.bad_dataset", "x.xmi")


def test_entities_of_several_parts_are_left_out_by_request():
    options = ReadOptions(flatten="longest")
    (found,) = read("brat", "T1\tPER 0 3;8 12\tAda Bern\nT2\tLOC 8 12\tBern\n", "x.ann", options, **TEXT)
    assert [(each.char_start, each.label) for each in found.entities] == [(8, "LOC")]
    assert options.left_out == {"discontinuous": 1}


def test_texts_that_an_annotator_rejected_are_counted():
    options = ReadOptions()
    lines = [{"text": "a", "spans": [], "answer": answer} for answer in ("reject", "accept", "ignore")]
    assert len(read("prodigy", "\n".join(map(json.dumps, lines)), options=options)) == 1
    assert options.left_out == {"not_accepted": 2}


def test_other_dialects():
    value = {"start": 0, "end": 3, "labels": ["PER", "X"]}
    regions = [{"type": "labels", "value": value}, {"type": "choices", "value": {"choices": ["a"]}}]
    tasks = [
        {"id": 7, "data": {"body": "Ada"}, "annotations": [{"was_cancelled": True, "result": []}, {"result": regions}]},
        {"id": 7, "text": "Ada", "ner": [value]},
        {"data": {"text": "Ada"}, "predictions": [{"result": [{**regions[0], "score": 0.5}]}]},
    ]
    found = read("label-studio", json.dumps(tasks))
    assert [[(each.label, each.score) for each in document.entities] for document in found] == [
        [("PER", None), ("X", None)],
        [("PER", None), ("X", None)],
        [("PER", 0.5), ("X", 0.5)],
    ]
    assert [each.document_id for each in found] == ["7", "7", "doc-2"]
    doccano = {"id": 3, "text": "Ada", "entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3}]}
    (found,) = read("doccano", json.dumps(doccano))
    assert [(each.char_end, each.label) for each in found.entities] == [(3, "PER")]
    (found,) = read("jsonl", json.dumps({"text": "Ada", "entities": [[0, 3, "PER"]]}))
    assert [(each.char_start, each.char_end, each.label) for each in found.entities] == [(0, 3, "PER")]
    target = {"source": {"id": "x.txt"}, "selector": {"type": "TextPositionSelector", "start": 0, "end": 3}}
    (found,) = read("web-annotations", json.dumps({"body": "PER", "target": target}), "x.jsonld", **TEXT)
    assert [(each.char_end, each.label) for each in found.entities] == [(3, "PER")]
    stanza = ["# sent_id = 1", "1-2\tzum" + "\t_" * 8, CONLLU.replace("NER=B-PER", "start_char=0|ner=S-PER")]
    (found,) = read("conllu", "\n".join(stanza), options=ReadOptions(scheme="BIOES"))
    assert (found.text, len(found.entities)) == ("Ada", 1)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"text": "", "entities": []}', "jsonl"),
        ('\ufeff [\n{"text": "", "entities": []}]', "jsonl"),
        ('{"text": "", "entities": [{"start_offset": 0}]}', "doccano"),
        ('{"text": "", "entities": [1]}', "jsonl"),
        ('{"text": "", "labels": []}', "doccano"),
        ('{"text": "", "spans": [], "tokens": []}', "prodigy"),
        ('{"tokens": [], "entities": []}', "sentences"),
        ('{"tokens": [], "ner_tags": []}', "tags"),
        ('{"tokenized_text": []}', "gliner"),
        ('[{"id": 1, "data": {}}]', "label-studio"),
        ('[{"text": "", "label": [{"labels": ["X"]}]}]', "label-studio"),
        ('{"@context": "http://www.w3.org/ns/anno.jsonld", "items": []}', "web-annotations"),
        ('{"text": ""}', None),
        ("1", None),
        ("{", None),
    ],
)
def test_formats_are_recognised(content, name):
    if name is None:
        with pytest.raises(CoreError) as caught:
            format_of(source(content))
        assert caught.value.code == "format.unknown"
    else:
        assert format_of(source(content)) == name


@pytest.mark.parametrize("name", ["spacy", "cas"])
def test_a_missing_library_names_its_extra(monkeypatch, memory, name):
    for module in ("spacy.tokens", "cassis"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(CoreError) as caught:
        memory.write([], name)
    assert (caught.value.code, caught.value.values["extra"]) == ("format.not_installed", name)


@pytest.mark.parametrize(
    ("form", "record"),
    [
        ("jsonl", {"id": "i", "text": "Ada", "entities": []}),
        ("doccano", {"id": "i", "text": "Ada", "label": []}),
        ("prodigy", {"meta": {"id": "i"}, "text": "Ada", "spans": []}),
        ("label-studio", {"id": 7, "data": {"id": "i", "text": "Ada"}, "annotations": []}),
    ],
)
def test_columns_that_the_user_names_must_be_there(form, record):
    def found(record, **options):
        try:
            (document,) = read(form, json.dumps(record), "data.jsonl", ReadOptions(**options))
        except CoreError as error:
            return error.code
        return document.document_id, document.text

    named = json.loads(json.dumps(record).replace('"id": "i"', '"key": "i"').replace('"text"', '"body"'))
    assert found(record) == found(record, id_column="id") == ("i", "Ada")
    assert found(named, id_column="key", text_column="body") == ("i", "Ada")
    assert found(record, id_column="key") == found(record, text_column="body") == "data.bad_record"


TAGGED = {"IOB2": ["B-PER", "I-PER", "O", "B-PER"], "BIOES": ["B-PER", "E-PER", "O", "S-PER"], "plain": ["PER", "O"]}


@pytest.mark.parametrize("name", ["tags", "conll"])
@pytest.mark.parametrize("scheme", [*TAGGED, "any"])
def test_tags_without_a_scheme_name_those_in_which_they_can_be_read(name, scheme):
    tags = TAGGED.get(scheme, ["O", "O"])
    if name == "conll":
        content = "".join(f"word {tag}\n" for tag in tags)
    else:
        content = json.dumps({"tokens": ["word"] * len(tags), "ner_tags": tags})
    with pytest.raises(CoreError) as caught:
        read(name, content, options=ReadOptions())
    assert caught.value.code == "data.scheme_needed"
    named = str(caught.value.values["likely"])
    assert [each for each in TAG_SCHEMES if f" {each}" in named] == ([] if scheme == "any" else [scheme])
