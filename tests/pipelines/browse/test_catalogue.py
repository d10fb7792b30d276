import json
import os
import threading
import time

import pytest

from pipelines.browse import catalogue as module
from pipelines.browse.catalogue import LiveCatalogue, output_folder, read_catalogue
from pipelines.errors import PipelineError
from pipelines.output.manifest import plan_path
from tests.support.browsed_output import IDENTITY, add_shard, annotation, begin, document


def shard(output, stem, count=2, **options):
    rows = [annotation("a", 0, 3, "Ann", "person" if n else "place") for n in range(count)]
    reject = {"document_id": "b", "source": "/s.jsonl", "source_row": 9, "stage": "read", "code": "null_text"}
    documents = [document("a", "/s.jsonl", 0, 9), document("b", "/s.jsonl", 9, 0, status="rejected")]
    return add_shard(output, stem, rows, documents, [reject | {"message": "m", "raw": None}], **options)


def test_only_what_the_manifest_says_is_done_counts(tmp_path):
    begin(tmp_path)
    first, second = shard(tmp_path, "b"), shard(tmp_path, "a", 3)
    shard(tmp_path, "c", done=False)  # published, and not committed
    shard(tmp_path, "d", identity=IDENTITY | {"model": "another"})  # what an interrupted --force left
    damaged = shard(tmp_path, "e")
    (tmp_path / "annotations" / f"{damaged}.parquet").write_bytes(b"short")
    (tmp_path / "annotations" / "mine.parquet").write_bytes(b"somebody's own")
    found = read_catalogue(str(tmp_path))
    assert found.names == [second, first]  # by name
    assert found.rows["annotations"].tolist() == [3, 2]
    assert found.totals["annotations"] == {"person": 3, "place": 2}
    assert found.totals["documents"] == {"tagged": 2, "rejected": 2}
    assert found.having["rejects"]["null_text"].tolist() == [0, 1]
    assert [found.number_of(name) for name in (first, second, damaged)] == [1, 0, None]


def test_a_run_that_goes_on_is_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LOOK_SHARE", 1e9)
    begin(tmp_path)
    live = LiveCatalogue(str(tmp_path))
    assert live.now().names == []
    name = shard(tmp_path, "a")
    time.sleep(0.01)
    assert live.now().names == [name]
    reading = []
    monkeypatch.setattr(module, "read_catalogue", lambda folder: reading.append(folder))
    assert live.now().names == [name]  # nothing has changed, so nothing is read
    assert reading == []


def test_a_long_manifest_is_read_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_LOOK_SHARE", 1e9)
    monkeypatch.setattr(module, "_WAIT_SECONDS", -1.0)
    begin(tmp_path)
    live = LiveCatalogue(str(tmp_path))
    held, real = threading.Event(), module.read_catalogue

    def slowly(folder):
        held.wait(20)
        return real(folder)

    monkeypatch.setattr(module, "read_catalogue", slowly)
    name = shard(tmp_path, "a")
    assert live.now().names == []
    assert live.now().names == []  # and nobody waits for another
    held.set()
    deadline = time.monotonic() + 20
    while live.now().names != [name]:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    def broken(folder):
        raise PipelineError("browse.not_tagged", path=folder)

    monkeypatch.setattr(module, "read_catalogue", broken)
    shard(tmp_path, "b")
    faults = []
    while not faults and time.monotonic() < deadline:
        try:
            live.now()
        except PipelineError as error:
            faults.append(error.code)
        time.sleep(0.01)
    assert faults == ["browse.not_tagged"]


@pytest.mark.parametrize(
    ("identity", "code"),
    [(IDENTITY | {"schema.samples": "1"}, "browse.not_tagged"), (None, "output.not_a_job")],
)
def test_other_folders_are_refused(tmp_path, identity, code):
    if identity:
        begin(tmp_path, identity)
    with pytest.raises(PipelineError) as caught:
        output_folder(str(tmp_path))
    assert caught.value.code == code


def test_names_in_a_store_that_duckdb_would_take_for_patterns_are_refused():
    with pytest.raises(PipelineError) as caught:
        output_folder("memory://bucket/out[1]")
    assert caught.value.code == "browse.not_local"


def test_a_plan_of_a_later_version_is_refused(tmp_path):
    begin(tmp_path)
    with open(plan_path(str(tmp_path)), "w") as file:
        file.write(json.dumps({"plan_version": 99, "job": IDENTITY}) + "\n")
    with pytest.raises(PipelineError) as caught:
        output_folder(str(tmp_path))
    assert caught.value.code == "plan.other_version"


def test_nothing_is_written_to_the_output(tmp_path):
    begin(tmp_path)
    shard(tmp_path, "a")
    before = sorted((path, os.stat(path).st_mtime_ns) for path in tmp_path.rglob("*"))
    LiveCatalogue(str(tmp_path)).refresh()
    assert sorted((path, os.stat(path).st_mtime_ns) for path in tmp_path.rglob("*")) == before
