"""Inputs of whole commands: words of the command line, standard input, and runs in which nothing can be tagged."""

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from pipelines.errors import PipelineError
from tests.support.jobs import assert_same_annotations, documents, prepare, rows, spanmarker, tag, write_jsonl
from tests.support.processes import environment


def tagged(*arguments):
    return spanmarker("tag", "--threads", 1, "--engine", "inline", *arguments)


def ids(out):
    return [row["document_id"] for row in rows(out, "documents")]


def test_words_behind_an_input_are_inputs(tmp_path, tiny_bundle):
    files = [write_jsonl(tmp_path / f"{name}.jsonl", documents(2, name)) for name in "abcd"]
    rest = ["--model", tiny_bundle, "--output", tmp_path / "out"]
    done = tagged("--input", *files[:2], *rest, tmp_path / "[c-d].jsonl")
    assert done.returncode == 0, done.stderr
    assert {name.partition("-")[0] for name in ids(tmp_path / "out")} == {"a", "b", "c", "d"}


@pytest.mark.parametrize("command", [["tag"], ["prepare"], ["gate", "fit"]])
def test_words_that_are_no_files_are_named(tmp_path, command, tiny_bundle):
    path = write_jsonl(tmp_path / "a.jsonl", documents(2))
    option = "--corpus" if command[0] == "gate" else "--input"
    words = [*command, option, path, "stray", tmp_path / "none*", "--output", tmp_path / "out", "--model", tiny_bundle]
    done = spanmarker(*words)
    assert done.returncode == 1
    assert f"[job.stray_words] no file or folder matches stray {tmp_path}/none*." in done.stderr
    assert not (tmp_path / "out").exists()


def test_words_after_two_dashes_are_options_of_beam(tmp_path, tiny_bundle):
    path = write_jsonl(tmp_path / "a.jsonl", documents(2))
    done = tagged("--input", path, path, "--output", tmp_path / "out", "--model", tiny_bundle, "--", "--runner=X")
    assert done.returncode == 1
    assert "[job.invalid]" in done.stderr
    assert "only for --engine beam" in done.stderr


def piped(content, out, model, *more, name="-"):
    words = ["prepare", "--input", name, "--output", out, "--model", model, "--threads", 1, *more]
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *map(str, words)],
        input=content,
        capture_output=True,
        env=environment(),
        timeout=300,
    )


def test_standard_input(tmp_path, tiny_bundle):
    path, out = write_jsonl(tmp_path / "a.jsonl", documents(12)), tmp_path / "out"
    for said, name in ((b"12 documents", "-"), (b"Nothing to do", "/dev/stdin")):
        done = piped(path.read_bytes(), out, tiny_bundle, name=name)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    (copy,) = (out / "stdin").iterdir()
    assert copy.read_bytes() == path.read_bytes()
    assert prepare([copy], out, tiny_bundle).startswith("Nothing to do")  # without standard input
    tag([path], tmp_path / "named", tiny_bundle)
    tag([], tmp_path / "tagged", tiny_bundle, samples=str(out))
    assert {row["source"] for row in rows(tmp_path / "tagged", "documents")} == {str(copy)}
    found, expected = (rows(tmp_path / name, "annotations") for name in ("tagged", "named"))
    assert {row.pop("source") for row in found} == {str(copy)}
    assert {row.pop("source") for row in expected} == {str(path)}
    assert_same_annotations(found, expected)


@pytest.mark.slow
def test_standard_input_in_another_format(tmp_path, tiny_bundle):
    content = gzip.compress(b"id,text\na,Obama\nb,x,y\n")
    done = piped(content, tmp_path / "out", tiny_bundle, "--format", "csv.gz")
    assert done.returncode == 0, done.stderr
    counts = json.loads((tmp_path / "out" / "report.json").read_text())["output"]["counts"]
    assert (counts["documents"], counts["rejected"]) == (2, 1)


def test_a_format_that_is_none_is_refused(tmp_path, tiny_bundle):
    for name in ("docx", "parquet.gz", "jsonl.rar"):
        done = tagged("--input", "x", "--output", tmp_path / "out", "--format", name)
        assert (done.returncode, "[job.invalid]" in done.stderr) == (1, True)


@pytest.mark.parametrize("run", [tag, prepare])
def test_a_run_without_a_tagged_document_fails_unless_allowed(tmp_path, tiny_bundle, run):
    write_jsonl(tmp_path / "a.jsonl", [{"id": number, "text": None} for number in range(3)])
    out = tmp_path / "out"
    for _ in range(2):  # The second time there is nothing to do.
        with pytest.raises(PipelineError) as caught:
            run([tmp_path / "a.jsonl"], out, tiny_bundle)
        values = caught.value.values
        assert (caught.value.code, values["documents"], values["unreadable"]) == ("rejects.all", 3, 0)
        assert values["reasons"].splitlines() == ["  null_text: the text is null"] * 3
    run([tmp_path / "a.jsonl"], out, tiny_bundle, max_rejects="100%")
    write_jsonl(tmp_path / "b.jsonl", documents(1))
    run([tmp_path / "*"], out, tiny_bundle)


def test_exit_code_of_a_run_without_a_tagged_document(tmp_path, tiny_bundle):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no PAR1")
    words = ["--input", tmp_path / "a.parquet", "--output", tmp_path / "out", "--model", tiny_bundle]
    done = tagged(*words)
    assert (done.returncode, "[rejects.all]" in done.stderr, "unreadable_file" in done.stderr) == (4, True, True)
    assert tagged(*words, "--max-rejects", "1").returncode == 0


def test_a_printed_array_that_is_named_jsonl_is_read(tmp_path, tiny_bundle):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text(json.dumps(documents(3), indent=2))
    (folder / "gone.jsonl").symlink_to("nowhere")
    tag([folder], tmp_path / "out", tiny_bundle)
    assert len(ids(tmp_path / "out")) == 3
    (reject,) = rows(tmp_path / "out", "rejects")
    assert (reject["code"], reject["source"]) == ("unreadable_file", f"{folder}/gone.jsonl")
    assert tag([folder], tmp_path / "out", tiny_bundle, format="jsonl").startswith("Nothing to do")


def test_documents_of_a_file_without_the_columns_are_counted_as_rejected(tmp_path, tiny_bundle):
    records = [{"id": "a", "body": "x"}, {"id": "b", "body": "y"}, {"id": "c", "body": "z"}]
    inputs = tmp_path / "in"
    inputs.mkdir()
    write_jsonl(inputs / "fits.jsonl", documents(2))
    pq.write_table(pa.Table.from_pylist(records), inputs / "a.parquet")
    feather.write_feather(pa.Table.from_pylist(records), inputs / "b.arrow")
    (inputs / "c.csv").write_text("id,body\n1,x\n2,y\n3,z\n")
    (inputs / "d.json").write_text(json.dumps(records))
    write_jsonl(inputs / "e.jsonl", records)
    (inputs / "f.jsonl.gz").write_bytes(gzip.compress((inputs / "e.jsonl").read_bytes()))
    tag([inputs], tmp_path / "out", tiny_bundle)
    rejects = {row["source"].rpartition("/")[2]: row for row in rows(tmp_path / "out", "rejects")}
    assert sorted(rejects) == ["a.parquet", "b.arrow", "c.csv", "d.json", "e.jsonl", "f.jsonl.gz"]
    assert {(row["code"], row["n_documents"]) for row in rejects.values()} == {("unreadable_file", 3)}
    counts = json.loads((tmp_path / "out" / "report.json").read_text())["output"]["counts"]
    assert (counts["documents"], counts["tagged"], counts["rejected"], counts["unreadable"]) == (20, 2, 18, 0)
