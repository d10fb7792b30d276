"""Documents that end the process that works on them: a shard that holds some ends with them rejected, and no others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jobs import all_rows, assert_same_annotations, documents, rows, write_jsonl, write_parquet

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
KILLERS = Path(__file__).parent / "killers"
GOOD = [record | {"text": f"{record['text']} Obama"} for record in documents(150)]


def corpus(folder, *words, write=write_jsonl, name="a.jsonl", **options):
    """A hundred and fifty good documents, with one of each word among them, behind what planning looks at."""
    records = list(GOOD)
    for number, word in enumerate(words):
        records.insert(120 + 7 * number, {"id": f"bad-{word}-{number}", "text": f"Obama {word} Paris"})
    return write(folder / name, records, **options)


def spanmarker(*arguments, killers=True):
    environment = os.environ | ({"PYTHONPATH": str(KILLERS)} if killers else {})
    command = [sys.executable, "-m", "pipelines.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def clean(tmp_path_factory, tiny_bundle):
    """The rows of the good documents alone."""
    folder = tmp_path_factory.mktemp("clean")
    path = write_jsonl(folder / "a.jsonl", GOOD)
    spanmarker("tag", "--input", path, "--output", folder / "out", "--model", tiny_bundle, killers=False)
    return all_rows(folder / "out")


def assert_only_these_are_rejected(out, clean, expected):
    """`expected` are (id, stage) of the rejects."""
    found = all_rows(out)
    assert {(row["document_id"], row["stage"]) for row in found["rejects"]} == expected
    assert {row["code"] for row in found["rejects"]} == {"ends_process"}
    assert len(found["documents"]) == len(GOOD) + len(found["rejects"])
    named = {row["document_id"] for row in clean["documents"]}
    assert_same_annotations(found["annotations"], clean["annotations"])
    tagged = {row["document_id"] for row in found["documents"] if row["status"] != "rejected"}
    assert tagged == named


@pytest.mark.parametrize("engine", ["local", "dask", "beam"])
def test_each_killer_is_rejected_alone(tmp_path, tiny_bundle, clean, engine):
    words = ("KILLSPLIT", "KILLTAG", "KILLTAG")[: 3 if engine == "local" else 1]  # Each costs a process and its model.
    path = corpus(tmp_path, *words)
    command = ["tag", "--input", path, "--output", tmp_path / "out", "--model", tiny_bundle, "--engine", engine]
    if engine == "beam":  # Beam's bundled runner ends with its worker; the same command goes on.
        environment = os.environ | {"PYTHONPATH": str(KILLERS)}
        line = [sys.executable, "-m", "pipelines.cli", *map(str, command), "--workers", "2"]
        first = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=600)
        assert first.returncode == 3, first.stdout + first.stderr
    spanmarker(*command, *(["--workers", "2"] if engine == "beam" else []))
    expected = {("bad-KILLSPLIT-0", "split"), ("bad-KILLTAG-1", "tag"), ("bad-KILLTAG-2", "tag")}
    expected = {(name, stage) for name, stage in expected if int(name[-1]) < len(words)}
    assert_only_these_are_rejected(tmp_path / "out", clean, expected)


def test_a_record_that_kills_its_reader_is_rejected_alone(tmp_path, tiny_bundle, clean):
    path = corpus(tmp_path, "KILLREAD", "KILLREAD")
    spanmarker("tag", "--input", path, "--output", tmp_path / "out", "--model", tiny_bundle)
    rejects = rows(tmp_path / "out", "rejects")
    assert [(row["stage"], row["code"], row["n_documents"]) for row in rejects] == [("read", "ends_process", 1)] * 2
    assert all(b"KILLREAD" in row["raw"] for row in rejects)
    assert_only_these_are_rejected(tmp_path / "out", clean, {(None, "read")})


def test_a_document_that_never_ends_or_takes_all_memory_is_rejected(tmp_path, tiny_bundle, clean):
    path = corpus(tmp_path, "HANGTAG", "EATTAG")
    limits = ["--shard-timeout", "20", "--worker-memory", "2GB"]
    spanmarker("tag", "--input", path, "--output", tmp_path / "out", "--model", tiny_bundle, *limits)
    expected = {("bad-HANGTAG-0", "tag"), ("bad-EATTAG-1", "tag")}
    assert_only_these_are_rejected(tmp_path / "out", clean, expected)


def test_samples_that_kill_are_rejected_when_they_are_tagged(tmp_path, tiny_bundle, clean):
    path = corpus(tmp_path, "KILLSPLIT", "KILLTAG", write=write_parquet, name="a.parquet")
    spanmarker("prepare", "--input", path, "--output", tmp_path / "samples", "--model", tiny_bundle)
    spanmarker("tag", "--samples", tmp_path / "samples", "--output", tmp_path / "out", "--model", tiny_bundle)
    expected = {("bad-KILLSPLIT-0", "split"), ("bad-KILLTAG-1", "tag")}
    assert_only_these_are_rejected(tmp_path / "out", clean, expected)


def test_annotated_documents_that_kill_are_rejected_alone(tmp_path):
    from tests.support.training import write_encoder

    records = [
        {"id": f"d{n}", "text": "Obama flew.", "entities": [{"start": 0, "end": 5, "label": "P"}]} for n in range(150)
    ]
    records[130]["text"] = "Obama KILLSPLIT"
    records[140]["text"] = "Obama KILLREAD"
    path = write_jsonl(tmp_path / "a.jsonl", records)
    encoder = write_encoder(tmp_path / "encoder")
    spanmarker(
        "prepare",
        "--annotated",
        "--input",
        path,
        "--output",
        tmp_path / "out",
        "--encoder",
        encoder,
        "--max-tokens",
        48,
        "--entity-max-length",
        4,
    )
    rejects = rows(tmp_path / "out", "rejects")
    assert {row["code"] for row in rejects} == {"ends_process"}
    assert len(rejects) == 2
    documents_ = rows(tmp_path / "out", "documents")
    assert len(documents_) == 150
    assert sum(row["status"] == "prepared" for row in documents_) == 148
