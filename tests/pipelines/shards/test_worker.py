"""Attempts at shards, and the limits past which a worker process ends itself."""

import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.output.job_identity import acquire
from pipelines.output.manifest import identity_digest, make_folders
from pipelines.processes.exit_codes import EXIT_MEMORY, EXIT_STUCK
from pipelines.shards import worker
from pipelines.shards.worker import attempt
from spanmarker_core.bundle.reader import read_info
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import documents, rows, write_jsonl


@pytest.fixture
def work(tmp_path, tiny_bundle):
    """(shard, task), with the output folder claimed."""
    info = read_info(tiny_bundle)
    job = TagJob(input=["x"], output=str(tmp_path / "out"), model=str(tiny_bundle))
    make_folders(job.output)
    acquire(job.output, job.identity(info))
    (shard,) = shards(write_jsonl(tmp_path / "in.jsonl", documents(20)))
    return shard, job.task(info, identity_digest(job.identity(info)))


def test_a_shard_that_is_done_is_not_done_again(work, monkeypatch):
    shard, task = work
    first = attempt(shard, task)
    monkeypatch.setattr("pipelines.shards.worker.run_shard", lambda *_: pytest.fail("it was done again"))
    assert isinstance(first, worker.Done)
    assert attempt(shard, task) == first


@pytest.mark.slow
@pytest.mark.parametrize("table", ["annotations", "documents", "rejects"])
def test_an_entry_without_its_files_does_not_count(work, tmp_path, table):
    shard, task = work
    attempt(shard, task)
    before = rows(tmp_path / "out", table)
    (tmp_path / "out" / table / f"{shard.name}.parquet").unlink()
    assert isinstance(attempt(shard, task), worker.Done)
    assert rows(tmp_path / "out", table) == before


@pytest.mark.parametrize(
    ("change", "code"),
    [({"code": "0.0.1"}, "worker.other_version"), ({"model_digest": "f" * 64}, "worker.other_model")],
)
def test_another_version_or_model_is_a_fault_that_names_both(work, change, code):
    shard, task = work
    outcome = attempt(shard, replace(task, **change))
    assert isinstance(outcome, worker.Fault)
    assert outcome.error.code == code
    mine, theirs = ("0.1.0", "0.0.1") if "code" in change else (task.model_digest, "f" * 64)
    assert mine in str(outcome.error)
    assert theirs in str(outcome.error)
    assert str(pickle.loads(pickle.dumps(outcome)).error) == str(outcome.error)


def test_storage_that_stumbles_may_be_tried_again(work, monkeypatch):
    shard, task = work
    monkeypatch.setattr("pipelines.shards.worker.run_shard", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    assert attempt(shard, task) == worker.Failed("OSError: [Errno 5] I/O error")


@pytest.mark.parametrize("code", ["output.not_writable", "output.not_readable"])
def test_an_output_out_of_reach_may_be_in_reach_elsewhere(work, monkeypatch, code):
    shard, task = work
    fault = PipelineError(code, path="out", reason="No space left on device")
    monkeypatch.setattr("pipelines.shards.worker.run_shard", lambda *_: (_ for _ in ()).throw(fault))
    assert attempt(shard, task) == worker.Failed(str(fault))


def test_a_model_that_leaves_no_memory_is_a_fault_that_names_both_numbers(work):
    shard, task = work
    worker.model_for.cache_clear()
    outcome = attempt(shard, replace(task, worker_bytes=100 << 20))
    assert isinstance(outcome, worker.Fault)
    assert outcome.error.code == "worker.memory_too_small"
    assert outcome.error.values["limit"] == "104,857,600"
    assert int(outcome.error.values["held"].replace(",", "")) > 100 << 20
    assert isinstance(attempt(shard, replace(task, worker_bytes=100 << 30)), worker.Done)


def test_a_model_that_is_never_loaded_ends_its_process(tmp_path):
    code = "import time; from pipelines.shards import worker; worker.LOAD_SECONDS = 1.0\n"
    code += "worker.model_for = lambda task: time.sleep(60)\nworker.facts(None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == EXIT_STUCK, done.stderr
    assert "loading the model took more than 1 s" in done.stderr


SLOW = """
import pickle, sys, time
from pipelines.shards import worker
shard, task = pickle.load(open(sys.argv[1], "rb"))
held = []
worker.run_shard = lambda *_: (held.append(bytearray({grab})), time.sleep(60))
print(worker.attempt(shard, task))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "grab", "code", "words"),
    [
        ({"shard_seconds": 1.0}, 1, EXIT_STUCK, "took more than 1 s"),
        ({"worker_bytes": 1 << 30}, 1 << 30, EXIT_MEMORY, "1,073,741,824"),
    ],
)
def test_a_process_past_its_limits_ends_itself(work, tmp_path, limits, grab, code, words):
    shard, task = work
    (tmp_path / "work").write_bytes(pickle.dumps((shard, replace(task, **limits))))
    done = subprocess.run(
        [sys.executable, "-c", SLOW.format(grab=grab), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert shard.name in done.stderr
