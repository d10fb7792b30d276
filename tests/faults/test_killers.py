"""Documents that end the process that works on them: a shard that holds some ends with them rejected, and no others."""

from functools import partial

import pytest

from tests.support.jobs import all_rows, assert_same_annotations, documents, prepare, rows, tag, write_jsonl
from tests.support.processes import finish, start
from tests.support.rows import prepared

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
GOOD = [record | {"text": f"{record['text']} Obama"} for record in documents(150)]

spanmarker = partial(start, killers=True)


def corpus(folder, *words):
    """A hundred and fifty good documents, with one of each word among them, behind what planning looks at."""
    records = list(GOOD)
    for number, word in enumerate(words):
        records.insert(120 + 7 * number, {"id": f"bad-{word}-{number}", "text": f"Obama {word} Paris"})
    return write_jsonl(folder / "a.jsonl", records)


@pytest.fixture(scope="module")
def clean(tmp_path_factory, tiny_bundle):
    """The rows of the good documents alone."""
    folder = tmp_path_factory.mktemp("clean")
    tag([corpus(folder)], folder / "out", tiny_bundle)
    return all_rows(folder / "out")


def assert_only_these_are_rejected(out, clean, expected):
    """`expected` are (id, stage) of the rejects."""
    found = all_rows(out)
    assert sorted((row["document_id"] or "", row["stage"]) for row in found["rejects"]) == expected
    assert {row["code"] for row in found["rejects"]} == {"ends_process"}
    assert len(found["documents"]) == len(GOOD) + len(found["rejects"])
    named = {row["document_id"] for row in clean["documents"]}
    assert_same_annotations(found["annotations"], clean["annotations"], places=False)
    tagged = {row["document_id"] for row in found["documents"] if row["status"] != "rejected"}
    assert tagged == named


def test_records_and_documents_that_kill_are_rejected_alone(tmp_path, tiny_bundle, clean):
    """Whichever stage they end, and several of a kind in one shard."""
    out = tmp_path / "out"
    path = corpus(tmp_path, "KILLREAD", "KILLREAD", "KILLSPLIT", "KILLTAG", "KILLTAG")
    finish(spanmarker("tag", "--input", path, "--output", out, "--model", tiny_bundle, "--workers", 1))
    read = [row for row in rows(out, "rejects") if row["stage"] == "read"]
    assert [row["n_documents"] for row in read] == [1, 1]
    assert all(b"KILLREAD" in row["raw"] for row in read)
    expected = [("", "read")] * 2 + [("bad-KILLSPLIT-2", "split"), ("bad-KILLTAG-3", "tag"), ("bad-KILLTAG-4", "tag")]
    assert_only_these_are_rejected(out, clean, expected)


@pytest.mark.parametrize("engine", ["dask", "beam"])
def test_a_killer_is_rejected_alone_on_each_engine(tmp_path, tiny_bundle, engine):
    """While preparing, which starts quicker: engines know nothing of models."""
    path, out = corpus(tmp_path, "KILLSPLIT"), tmp_path / "out"
    words = ["prepare", "--input", path, "--output", out, "--model", tiny_bundle, "--engine", engine, "--workers", 2]
    if engine == "beam":  # Beam's bundled runner ends with its worker; the same command goes on.
        assert "[engine.died]" in finish(spanmarker(*words), code=3)
    finish(spanmarker(*words))
    (tmp_path / "good").mkdir()
    prepare([corpus(tmp_path / "good")], tmp_path / "clean", tiny_bundle)
    found, expected = prepared(out), prepared(tmp_path / "clean")
    rejects = [row for row in found["inputs"] if row[9] is not None]
    assert [(row[0], row[9]) for row in rejects] == [("bad-KILLSPLIT-0", "ends_process")]
    assert {row[0] for row in found["inputs"]} - {"bad-KILLSPLIT-0"} == {row[0] for row in expected["inputs"]}
    assert len(found["samples"]) == len(expected["samples"])


def test_a_document_that_never_ends_or_takes_all_memory_is_rejected(tmp_path, tiny_bundle, clean):
    path, out = corpus(tmp_path, "HANGTAG", "EATTAG"), tmp_path / "out"
    limits = ["--shard-timeout", 20, "--worker-memory", "2GB", "--workers", 1]
    finish(spanmarker("tag", "--input", path, "--output", out, "--model", tiny_bundle, *limits))
    assert_only_these_are_rejected(out, clean, [("bad-EATTAG-1", "tag"), ("bad-HANGTAG-0", "tag")])


def test_samples_that_kill_are_rejected_when_they_are_tagged(tmp_path, tiny_bundle, clean):
    samples, out = tmp_path / "samples", tmp_path / "out"
    prepare([corpus(tmp_path, "KILLTAG")], samples, tiny_bundle)
    finish(spanmarker("tag", "--samples", samples, "--output", out, "--model", tiny_bundle, "--workers", 1))
    assert_only_these_are_rejected(out, clean, [("bad-KILLTAG-0", "tag")])


def test_annotated_documents_that_kill_are_rejected_alone(tmp_path):
    from tests.support.training import write_encoder

    entities = [{"start": 0, "end": 5, "label": "P"}]
    records = [{"id": f"d{n}", "text": "Obama flew.", "entities": entities} for n in range(150)]
    records[130]["text"] = "Obama KILLSPLIT"
    records[140]["text"] = "Obama KILLREAD"
    path, out, encoder = (
        write_jsonl(tmp_path / "a.jsonl", records),
        tmp_path / "out",
        write_encoder(tmp_path / "encoder"),
    )
    limits = ["--encoder", encoder, "--max-tokens", 48, "--entity-max-length", 4, "--workers", 1]
    finish(spanmarker("prepare", "--annotated", "--input", path, "--output", out, *limits))
    assert [row["code"] for row in rows(out, "rejects")] == ["ends_process"] * 2
    statuses = [row["status"] for row in rows(out, "documents")]
    assert len(statuses) == 150
    assert statuses.count("prepared") == 148
