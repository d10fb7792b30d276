"""Annotated shards of files in the formats of other tools: the same windows, and bad records cost themselves alone."""

import bz2
import gzip
import json

import pytest

from pipelines.errors import PipelineError
from pipelines.training_data.windows import PreparedWindows
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity
from spanmarker_core.formats.options import WriteOptions
from spanmarker_core.formats.registry import FORMATS, write_documents
from tests.support.annotated import prepare_annotated as prepare
from tests.support.annotated import spans_of
from tests.support.jobs import rows, write_jsonl
from tests.support.variants import some_by_default

FOREIGN = [name for name, each in FORMATS.items() if each.writer and name not in ("conll", "datasets", "sentences")]


def pack(folder, how):
    """Compress or encode the files of a folder that may be so."""
    for path in list(folder.iterdir()):
        if how == "gz" and path.name not in ("annotation.conf", "TypeSystem.xml"):
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        if how == "utf16":
            path.write_bytes(path.read_bytes().decode().encode("utf-16"))


#: Formats of lines or JSON, which may be in UTF-16.
OF_LINES = [name for name in FOREIGN if not FORMATS[name].folder and name != "spacy"]
BY_DEFAULT = [("brat", "gz"), ("doccano", "utf16")]
PACKED = [(name, "gz") for name in FOREIGN] + [(name, "utf16") for name in OF_LINES]


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "") for name in FOREIGN), *some_by_default(PACKED, [("brat", "gz"), ("doccano", "utf16")])],
)
def test_formats_of_other_tools_give_the_same(name, how, encoder, tmp_path):
    documents = [
        AnnotatedDocument("a/b", "obama of paris", None, [AnnotatedEntity(0, 5, "PER"), AnnotatedEntity(9, 14, "LOC")]),
        AnnotatedDocument("c", "😀 zürich the\r\n paris", None, [AnnotatedEntity(2, 8, "LOC")]),
    ]
    (tmp_path / "in").mkdir()
    form = FORMATS[name]
    opened = (lambda path: (tmp_path / "in" / path).open("wb")) if form.folder else None
    target = opened or (tmp_path / "in" / f"x{form.endings[0]}").open("wb")
    write_documents(documents, name, target, WriteOptions())
    if opened is None:
        target.close()
    pack(tmp_path / "in", how)
    lines = [
        {"id": each.document_id, "text": each.text, "entities": [entity_record(entity) for entity in each.entities]}
        for each in documents
    ]
    write_jsonl(tmp_path / "expected.jsonl", lines)
    prepare([tmp_path / "expected.jsonl"], tmp_path / "expected", encoder)
    told = prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder, scheme="IOB2" if name == "conllu" else None)
    assert "2 documents" in told
    found, expected = PreparedWindows(str(tmp_path / "out")), PreparedWindows(str(tmp_path / "expected"))
    assert sorted(spans_of(found)) == sorted(spans_of(expected))
    assert found.gold == expected.gold
    ids = {row["document_id"] for row in rows(tmp_path / "out", "documents")}
    assert ids == ({"x-0", "x-1"} if name == "gliner" else {"a/b", "c"})


def entity_record(entity):
    return {"start": entity.char_start, "end": entity.char_end, "label": entity.label}


def test_bad_records_and_files_of_other_tools_cost_themselves_alone(encoder, tmp_path):
    lines = [
        {"text": "obama", "label": [[0, 5, "PER"]]},
        {"text": "paris", "label": [[0, 9, "LOC"]]},
        {"text": "the", "label": []},
    ]
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "doccano.jsonl", lines)
    (tmp_path / "in" / "broken.spacy").write_bytes(b"no such file")
    (tmp_path / "in" / "x.ann").write_text("T1\tPER 0 99\tobama\n")
    (tmp_path / "in" / "x.txt").write_text("obama")
    (tmp_path / "in" / "tags.jsonl").write_text(json.dumps({"tokens": ["paris"], "ner_tags": ["S-LOC"]}))
    with pytest.raises(CoreError) as caught:
        prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder)
    assert caught.value.code == "data.scheme_needed"
    prepare([tmp_path / "in" / "*"], tmp_path / "out", encoder, scheme="BIOES")
    prepared = [row["document_id"] for row in rows(tmp_path / "out", "documents") if row["status"] == "prepared"]
    assert sorted(prepared) == ["doccano-0", "doccano-2", "tags-0"]
    codes = sorted((row["source"].rpartition("/")[2], row["code"]) for row in rows(tmp_path / "out", "rejects"))
    assert codes == [("broken.spacy", "damaged_file"), ("doccano.jsonl", "bad_annotation"), ("x.ann", "bad_annotation")]


def test_columns_of_conll_are_part_of_the_job(encoder, tmp_path):
    (tmp_path / "a.conll").write_text("x\tparis\tB-LOC\tO\n")
    columns = {"token_column": 1, "tag_column": "2"}
    prepare([tmp_path / "a.conll"], tmp_path / "out", encoder, scheme="BIO", **columns)
    assert PreparedWindows(str(tmp_path / "out")).labels == ["LOC"]
    identity = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (identity["token_column"], identity["tag_column"]) == ("1", "2")
    with pytest.raises(PipelineError) as caught:
        prepare([tmp_path / "a.conll"], tmp_path / "out", encoder, scheme="BIO", token_column=1)
    assert caught.value.code == "output.other_job"


def test_our_own_records_may_be_in_other_files(encoder, tmp_path):
    entities = [{"start": 0, "end": 5, "label": "LOC"}]
    record = {"id": "a", "text": "paris", "entities": entities}
    (tmp_path / "array.json").write_text(json.dumps([record]))
    (tmp_path / "lines.jsonl.bz2").write_bytes(bz2.compress(json.dumps({**record, "id": "b"}).encode()))
    write_jsonl(tmp_path / "no_ids.jsonl", [{"text": "paris", "entities": entities}])
    prepare([tmp_path / "*.json*"], tmp_path / "out", encoder)
    assert sorted(row["document_id"] for row in rows(tmp_path / "out", "documents")) == ["a", "b", "no_ids-0"]
    windows = spans_of(PreparedWindows(str(tmp_path / "out")))
    assert [entities for _, _, entities in windows] == [[(0, 1, "LOC")]] * 3
    with pytest.raises(PipelineError) as caught:
        prepare([tmp_path / "no_ids.jsonl"], tmp_path / "none", encoder, id_column="key")
    assert caught.value.code == "input.bad_annotated"


def test_a_bad_sentence_is_not_counted_as_a_document(encoder, tmp_path):
    words = ["\t".join(["1", word, *"_" * 7, f"NER={tag}\n"]) for word, tag in (("paris", "B-LOC"), ("the", "X"))]
    (tmp_path / "a.conllu").write_text("\n".join(["# newdoc id = a\n" + words[0], *words]))
    prepare([tmp_path / "a.conllu"], tmp_path / "out", encoder, scheme="IOB2")
    assert [row["n_documents"] for row in rows(tmp_path / "out", "rejects")] == [0]
    documents = [(row["document_id"], row["n_sentences"]) for row in rows(tmp_path / "out", "documents")]
    assert documents == [("a", 2)]


def test_entities_of_several_parts_are_left_out_with_a_reject(encoder, tmp_path):
    (tmp_path / "x.ann").write_text("T1\tLOC 0 5;9 14\tparis paris\nT2\tLOC 9 14\tparis\n")
    (tmp_path / "x.txt").write_text("paris of paris")
    prepare([tmp_path / "x.ann"], tmp_path / "out", encoder)
    (reject,) = rows(tmp_path / "out", "rejects")
    assert (reject["code"], reject["n_documents"]) == ("discontinuous", 0)
    assert [row["status"] for row in rows(tmp_path / "out", "documents")] == ["prepared"]


@pytest.mark.parametrize("compression", ["gz", "bz2"])
@pytest.mark.parametrize(("name", "scheme"), [("a.conll", "BIO"), ("a.jsonl", None)])
def test_compressed_files_are_read_as_the_plain_ones(encoder, tmp_path, compression, name, scheme):
    entities = [{"start": 0, "end": end, "label": "LOC"} for end in (3, 5)]
    records = [{"id": "a", "text": "paris", "entities": [entity]} for entity in entities]
    records += [{"id": "b", "text": "paris", "entities": entities[1:]}, {"id": "c", "text": "the", "entities": [1]}]
    content = "paris\tB-LOC\n\nthe\tX\n\nof\tO\n" if scheme else "\n".join(map(json.dumps, records))
    (tmp_path / name).write_text(content)
    (tmp_path / f"{name}.{compression}").write_bytes({"gz": gzip, "bz2": bz2}[compression].compress(content.encode()))
    found = []
    for path in (tmp_path / name, tmp_path / f"{name}.{compression}"):
        output = tmp_path / f"out{path.suffix}"
        prepare([path], output, encoder, scheme=scheme)
        documents = [(row["document_id"], row["status"], row["source_row"]) for row in rows(output, "documents")]
        rejects = [(row["code"], row["source_row"], row["n_documents"], row["raw"]) for row in rows(output, "rejects")]
        problems = [{**row, "source": ""} for row in rows(output, "gold_problems")]
        found.append((documents, rejects, problems))
    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz"])
def test_damage_of_conll_keeps_the_sentences_before_it(encoder, tmp_path, name):
    content = ("# comment\n" + "".join(f"w{number}\tO\n\n" for number in range(50))).encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(content)[:-8] if name.endswith("gz") else content + b"x")
    prepare([tmp_path / name], tmp_path / "out", encoder, scheme="BIO")
    (reject,) = rows(tmp_path / "out", "rejects")
    assert (reject["code"], reject["n_documents"]) == ("damaged_file", 0)
    assert len(rows(tmp_path / "out", "documents")) == 50


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.csv", "x", "input.not_annotated"),
        ("a.json", '[{"x": 1}]', "input.bad_annotated"),
        ("a.jsonl", '{"id": 1, "text": "paris"}', "input.bad_annotated"),
        ("a.json.gz", "no gzip", "input.bad_annotated"),
        ("annotation.conf", "[entities]", "input.no_match"),
    ],
)
def test_files_without_annotations_are_refused(encoder, tmp_path, name, content, code):
    (tmp_path / name).write_text(content)
    with pytest.raises(PipelineError) as caught:
        prepare([tmp_path / "a*"], tmp_path / "out", encoder)
    assert caught.value.code == code
