"""What is selected, refused, replaced and left behind."""

import gzip
import json
import os
import shutil
from functools import partial

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.export.destination import RECORD
from pipelines.storage import open_input
from tests.pipelines.export.conftest import Run
from tests.pipelines.export.exported import content_of, documents_at, expected, export, records
from tests.support.jobs import prepare, rows, tag, write_jsonl, write_parquet


def files_in(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def selected(labels, score, row):
    return row["label"] in labels and row["score"] >= score


def test_labels_and_scores(nested, tmp_path):
    found = rows(nested.output, "annotations")
    labels = sorted({row["label"] for row in found})
    assert len(labels) == 2
    score = float(np.float32(sorted(row["score"] for row in found)[len(found) // 2]))
    cases = [
        (labels, ["--label", " ,".join(labels)]),
        (labels, ["--label", labels[0], "--label", labels[1]]),
        (labels[1:], ["--label", labels[1]]),
    ]
    for number, (chosen, given) in enumerate(cases):
        target = tmp_path / str(number)
        export(nested.output, "jsonl", target, "--one-file", *given, "--min-score", score)
        wanted = expected(nested.output, nested.texts, partial(selected, chosen, score))
        assert content_of(documents_at(target, "jsonl")) == wanted
        assert 0 < sum(len(entities) for _, entities in wanted.values()) < len(found)
    assert export(nested.output, "jsonl", tmp_path / "x", "--label", "persona") == "export.unknown_label"
    assert not (tmp_path / "x").exists()


def rewrite(output, path, column, values):
    """Replace a column of a file of annotations; the manifest knows its new size."""
    table = pq.read_table(path)
    field = table.schema.field(column)
    table = table.set_column(table.schema.get_field_index(column), field, pa.array(values(table[column]), field.type))
    pq.write_table(table, path)
    entry = output / "manifest" / f"{path.stem}.json"
    known = json.loads(entry.read_text())
    known["outputs"]["annotations"]["n_bytes"] = path.stat().st_size
    known.pop("digest", None)
    entry.write_text(json.dumps(known))


def test_a_score_is_compared_as_it_is_stored(own, tmp_path):
    for path in (own.output / "annotations").iterdir():
        rewrite(own.output, path, "score", lambda scores: [0.9] * len(scores))
    export(own.output, "jsonl", tmp_path / "x", "--one-file", "--min-score", 0.9)
    assert content_of(documents_at(tmp_path / "x", "jsonl")) == expected(own.output, own.texts)


def test_documents_by_id(nested, tmp_path):
    listed = tmp_path / "ids.txt"
    listed.write_bytes(b"row/3\r\n\nbad\nc1.txt\n")
    printed = export(nested.output, "jsonl", tmp_path / "x", "--document", "line/7", "--document-file", listed)
    wanted = expected(nested.output, nested.texts)
    assert content_of(documents_at(tmp_path / "x", "jsonl")) == {
        name: wanted[name] for name in ("line/7", "row/3", "c1.txt")
    }
    assert "1 rejected documents" in printed
    for name in ("line/77", "line/7\n"):
        assert export(nested.output, "jsonl", tmp_path / "y", "--document", name) == "export.unknown_document"
    assert export(nested.output, "jsonl", tmp_path / "y", "--document-file", tmp_path / "z") == "output.not_readable"
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_limit(nested, tmp_path, limit):
    export(nested.output, "jsonl", tmp_path / "all", "--one-file")
    export(nested.output, "jsonl", tmp_path / "x", "--one-file", "--limit", limit)
    lines = (tmp_path / "all").read_bytes().splitlines(True)
    assert (tmp_path / "x").read_bytes() == b"".join(lines[:limit])


def test_a_changed_or_missing_source_is_refused_or_counted(own, tmp_path):
    wanted = expected(own.output, own.texts)
    line = own.folder / "in" / "a.jsonl"
    content = line.read_bytes()
    # Another text of the same length in the last document: only the content of the file shows it.
    line.write_bytes(content[:-10] + content[-10:].replace(b" ", b"_"))
    assert line.stat().st_size == len(content)
    assert export(own.output, "jsonl", tmp_path / "x") == "export.source_changed"
    assert not (tmp_path / "x").exists()
    os.remove(own.folder / "in" / "c1.txt")
    line.write_bytes(content)
    assert export(own.output, "jsonl", tmp_path / "x", "--one-file") == "export.source_gone"
    assert not (tmp_path / "x").exists()

    line.write_bytes(content[:-10] + content[-10:].replace(b" ", b"_"))
    os.mkfifo(own.folder / "in" / "c1.txt")  # opening it would block
    printed = export(own.output, "jsonl", tmp_path / "x", "--skip-missing")
    found = content_of(documents_at(tmp_path / "x", "jsonl"))
    record = json.loads((tmp_path / "x" / RECORD).read_text())
    assert record["missing_documents"].keys() == {"gone", "changed"}
    assert "their source no longer exists" in printed
    assert "their source has changed" in printed
    assert found == {name: wanted[name] for name in found}
    missing, rejected = sum(record["missing_documents"].values()), record["rejected_documents"]
    assert 0 < len(found) == len(rows(own.output, "documents")) - missing - rejected
    gone = next(name for name in wanted if name not in found)
    export(own.output, "jsonl", tmp_path / "one", "--skip-missing", "--document", gone)
    missing_documents = json.loads((tmp_path / "one" / RECORD).read_text())["missing_documents"]
    assert sum(missing_documents.values()) == 1


def test_rows_that_do_not_agree_with_the_text_are_refused(own, tmp_path):
    path = next(path for path in (own.output / "annotations").iterdir() if pq.read_metadata(path).num_rows)
    for column, value in (("text", "Q"), ("document_id", "line/999")):
        rewrite(own.output, path, column, lambda values: [value, *values.to_pylist()[1:]])  # noqa: B023 - called at once
        assert export(own.output, "jsonl", tmp_path / "x", "--skip-missing") == "export.mismatch"
        assert not (tmp_path / "x").exists()


def test_unfinished_outputs_and_others_are_refused(own, tmp_path, tiny_bundle):
    assert export(tmp_path, "jsonl", tmp_path / "x") == "output.not_a_job"
    prepare([own.folder / "in" / "a.jsonl"], tmp_path / "samples", tiny_bundle)
    assert export(tmp_path / "samples", "jsonl", tmp_path / "x") == "export.not_tagged"
    own.tag("a.jsonl")
    assert export(own.output, "jsonl", tmp_path / "x") == "export.unplanned"
    printed = export(own.output, "jsonl", tmp_path / "x", "--skip-missing")
    assert "25 documents (the last run did not name their source)" in printed
    assert {each.document_id[:5] for each in documents_at(tmp_path / "x", "jsonl")} == {"line/"}
    os.remove(next((own.output / "documents").glob("a-*")))
    assert export(own.output, "jsonl", tmp_path / "y") == "export.not_finished"
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("to", ["jsonl", "brat"])
@pytest.mark.parametrize("one_file", [False, True])
def test_stores(nested, tmp_path, to, one_file):
    local, more = tmp_path / "local", ["--one-file"] * one_file
    export(nested.output, to, local, *more)
    wanted = {"": local.read_bytes()} if local.is_file() else files_in(local)
    for root in (f"file://{tmp_path}/url", f"memory://export{tmp_path}/{to}/{one_file}"):
        for force in ([], ["--force"]):
            printed = export(nested.output, to, root, *more, *force)
            assert "documents with" in printed, printed
        assert export(nested.output, to, root, *more) == "export.exists"
        for name, content in wanted.items():
            with open_input(f"{root}/{name}".rstrip("/")) as file:
                assert file.read() == content


@pytest.mark.parametrize("one_file", [False, True])
def test_only_a_previous_export_is_replaced(flat, tmp_path, one_file):
    target, more = tmp_path / "x", ["--one-file"] * one_file
    export(flat.output, "brat", target, *more, "--limit", 3)
    before = files_in(target)
    assert export(flat.output, "brat", target, *more) == "export.exists"
    mine = target / "notes.md"
    mine.write_text("mine")
    assert export(flat.output, "brat", target, *more, "--force") == "output.would_replace"
    assert files_in(target) == before | {"notes.md": b"mine"}
    mine.unlink()
    export(flat.output, "conll", target, "--force")
    assert [path for path in target.rglob("*") if path.suffix in (".ann", ".txt") or path.is_dir()] == []
    assert export(flat.output, "jsonl", target, "--one-file", "--force") != ""
    assert (target / RECORD).exists()  # the folder is not a file of an export

    for folder in (tmp_path / "mine", tmp_path / "empty"):
        folder.mkdir()
    (tmp_path / "mine" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    assert export(flat.output, "brat", tmp_path / "mine", *more) == "export.exists"
    for name in ("mine", "file"):
        assert export(flat.output, "brat", tmp_path / name, *more, "--force") == "output.would_replace"
    assert files_in(tmp_path / "mine") == {"a.txt": b"mine"}
    assert "documents with" in export(flat.output, "brat", tmp_path / "empty", *more)


def test_only_a_file_of_the_format_is_replaced(flat, tmp_path):
    for to in ("jsonl", "conllu", "spacy", "label-studio", "gliner", "prodigy", "doccano", "sentences", "conll"):
        target = tmp_path / to
        export(flat.output, to, target, "--one-file", "--limit", 1)
        assert export(flat.output, to, target, "--one-file") == "export.exists"
        assert "documents with" in export(flat.output, to, target, "--one-file", "--force")
        target.write_text('{"id": "mine", "text": "x"}\n')
        assert export(flat.output, to, target, "--one-file", "--force") == "output.would_replace"
        assert target.read_text() == '{"id": "mine", "text": "x"}\n'


def test_a_task_in_which_nothing_was_found_is_a_prediction(flat, tmp_path):
    """Label Studio counts a task with an annotation, even an empty one, as done."""
    export(flat.output, "label-studio", tmp_path / "x", "--one-file", "--min-score", 1)
    tasks = json.loads((tmp_path / "x").read_text())
    assert [task["predictions"] for task in tasks] == [[{"result": []}]] * len(tasks)
    assert len(tasks) > 1
    assert not any("annotations" in task for task in tasks)


def test_what_an_interrupted_export_left_is_replaced(nested, flat, tmp_path):
    export(flat.output, "jsonl", tmp_path / "x")
    complete = files_in(tmp_path / "x")
    record = json.loads(complete[RECORD])
    (tmp_path / "x" / RECORD).write_text(json.dumps(record | {"finished": False}))
    (tmp_path / "x" / ".a-00000-0123456789abcdef.jsonl.1234abcd.scratch").write_text("{")
    assert export(flat.output, "jsonl", tmp_path / "x") == "export.exists"
    export(flat.output, "jsonl", tmp_path / "x", "--force")
    assert files_in(tmp_path / "x") == complete


@pytest.mark.parametrize("to", ["datasets", "conllu"])
def test_a_failed_export_leaves_nothing(nested, tmp_path, to):
    for more in ([], ["--one-file"]):
        target = tmp_path / "-".join(["x", *more])
        assert export(nested.output, to, target, *more) == "format.cannot_hold"
        assert not target.exists()
    target.mkdir()
    assert export(nested.output, to, target, "--one-file") == (
        "format.cannot_hold" if to == "datasets" else "output.would_replace"
    )
    assert list(target.iterdir()) == []


def test_inputs_and_the_output_are_not_written(own, tmp_path):
    before = files_in(own.folder)
    for target in (own.output, own.output / "documents", own.output / "new"):
        assert export(own.output, "jsonl", target, "--force") == "output.is_input"
        assert export(own.output, "jsonl", target, "--force", "--one-file") == "output.is_input"
    for target in (own.folder / "in", own.folder, own.folder / "in" / "a.jsonl"):
        assert export(own.output, "jsonl", target, "--force") == "output.is_input"
    assert files_in(own.folder) == before

    # An export that was tagged is an input.
    exported = own.folder / "exported.jsonl"
    export(own.output, "jsonl", exported, "--one-file")
    again = Run.__new__(Run)
    again.folder, again.model, again.output, again.options = own.folder, own.model, tmp_path / "again", {}
    shutil.copy(exported, own.folder / "in" / "d.jsonl")
    again.tag("d.jsonl")
    assert export(again.output, "jsonl", own.folder / "in" / "d.jsonl", "--one-file", "--force") == "output.is_input"


def test_unknown_formats(flat, tmp_path):
    assert export(flat.output, "xml", tmp_path / "x") == "call.unknown_option"
    assert export(flat.output, "parquet", tmp_path / "x") == "format.not_writable"
    assert export(flat.output, "conll", tmp_path / "x", "--scheme", "IOBES") == "call.unknown_option"


@pytest.fixture
def damaged(tmp_path, tiny_bundle):
    """A run over a row group that can't be read, the rest of an archive that is cut off, and no Parquet file at all."""
    run = Run.__new__(Run)
    run.folder, run.model, run.output, run.options = tmp_path, tiny_bundle, tmp_path / "out", {}
    table = write_parquet(tmp_path / "in" / "a.parquet", records(30, "row"), row_group_size=10, compression="none")
    chunk = pq.read_metadata(table).row_group(1).column(1)
    with open(table, "r+b") as file:
        file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        file.write(b"\xff" * 40)
    lost = {"id": "lost", "text": " " * 500_000}  # more than is decompressed at once
    lines = gzip.compress(write_jsonl(tmp_path / "lines", [*records(100, "line"), lost]).read_bytes(), mtime=0)
    (tmp_path / "in" / "b.jsonl.gz").write_bytes(lines[:-20])
    (tmp_path / "in" / "c.parquet").write_bytes(b"PAR1")
    run.texts = {each["id"]: each["text"] for each in [*records(30, "row"), *records(100, "line")]}
    run.tag("*")
    return run


def test_damaged_sources(damaged, tmp_path):
    statuses = [row["status"] for row in rows(damaged.output, "documents") if row["document_id"] is None]
    assert statuses == ["rejected"] * 10
    printed = export(damaged.output, "jsonl", tmp_path / "x")
    found = content_of(documents_at(tmp_path / "x", "jsonl"))
    assert found == expected(damaged.output, damaged.texts)
    assert len(found) == 120
    assert "10 rejected documents" in printed


def test_outputs_of_samples_and_outputs_in_stores(flat, tmp_path):
    inputs = [flat.folder / "in" / name for name in ("a.jsonl", "b.parquet", "c*.txt")]
    prepare(inputs, tmp_path / "prepared", flat.model)
    tag([], tmp_path / "out", flat.model, samples=str(tmp_path / "prepared"), decoder="flat.v1")
    export(tmp_path / "out", "conllu", tmp_path / "x", "--one-file")
    wanted = expected(flat.output, flat.texts)
    found = content_of(documents_at(tmp_path / "x", "conllu"))
    assert found == {name: value for name, value in wanted.items() if value[0].strip()}

    fs, url = fsspec.filesystem("memory"), f"memory://output{tmp_path}"
    fs.put(f"{flat.output}/", f"/output{tmp_path}/", recursive=True)
    for output, name in ((url, "store"), (flat.output, "disk")):
        export(output, "jsonl", tmp_path / name, "--one-file")
    assert (tmp_path / "store").read_bytes() == (tmp_path / "disk").read_bytes() != b""


def test_an_output_without_documents(tmp_path, tiny_bundle):
    run = Run.__new__(Run)
    run.folder, run.model, run.output, run.options = tmp_path, tiny_bundle, tmp_path / "out", {}
    write_jsonl(tmp_path / "in" / "a.jsonl", [])
    run.tag("a.jsonl")
    printed = export(run.output, "jsonl", tmp_path / "x")
    assert "0 documents with 0 entities" in printed
    assert json.loads((tmp_path / "x" / RECORD).read_text())["finished"]
