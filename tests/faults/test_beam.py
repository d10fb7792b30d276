"""Beam's processes are killed, stopped and stuck. The job ends, leaves no process behind, and the next run is right.

The jobs prepare: engines know nothing of models, and workers that load none start quicker.
"""

import json
import os
import signal
import threading

import psutil
import pytest
from rich.console import Console

from pipelines.engines.beam import driver as engine
from pipelines.errors import PipelineError
from pipelines.jobs.prepare import PrepareJob
from pipelines.runs.run import run_job
from tests.services.engines.beam_processes import descendants, sdk_workers
from tests.support.jobs import prepare, slow_documents, write_jsonl
from tests.support.processes import KILLERS, assert_all_end, finish, shards_done, start, wait_for, wait_for_shards
from tests.support.rows import prepared

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def slowly(monkeypatch):
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.2)
    monkeypatch.setenv("PYTHONPATH", str(KILLERS))


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", slow_documents(240))


def run(corpus, out, bundle, **options):
    values = {"max_shard_bytes": 600, "engine": "beam", "threads": 1, "workers": 2, **options}
    run_job(PrepareJob(input=[str(corpus)], output=str(out), model=str(bundle), **values), Console(quiet=True))


def when_a_shard_is_done(monkeypatch, out, deed):
    """Do `deed` with the worker processes once, while shards are being done; return those that were there."""
    there, run_all = [], engine.run
    before = descendants()  # such as a server that the session started for other tests

    def watch():
        wait_for(lambda: shards_done(out), 250)
        there.extend(each for each in descendants() if each not in before)
        deed(sdk_workers())

    def wrapped(*given):
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        run_all(*given)

    monkeypatch.setattr(engine, "run", wrapped)
    return there


def assert_next_run_is_right(corpus, out, bundle, folder):
    """The next run does only what is missing. It uses the fastest engine, because any engine may continue."""
    done = shards_done(out)  # without the files that a killed worker was writing
    assert done > 0
    run(corpus, out, bundle, engine="inline")
    prepare([corpus], folder / "inline", bundle)
    assert prepared(out) == prepared(folder / "inline")
    assert json.loads((out / "report.json").read_text())["this_run"]["shards_done_before"] == done


def test_killed_worker_ends_the_job_at_once(monkeypatch, corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    there = when_a_shard_is_done(monkeypatch, out, lambda workers: workers[0].kill())
    with pytest.raises(PipelineError, match=r"engine.died.*return code -9"):
        run(corpus, out, tiny_bundle)
    assert len(there) >= 3
    assert_all_end(there)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path)


def test_stopped_workers_end_the_job_at_its_time_limit(monkeypatch, corpus, tmp_path, tiny_bundle):
    """The limit holds from the moment at which they stop: how long they take to start is the machine's affair."""

    def suspend(workers):
        for each in workers:
            each.suspend()
        monkeypatch.setattr(engine, "STALL_SECONDS", 3)

    out = tmp_path / "out"
    there = when_a_shard_is_done(monkeypatch, out, suspend)
    with pytest.raises(PipelineError) as caught:
        run(corpus, out, tiny_bundle)
    assert (caught.value.code, caught.value.values["seconds"]) == ("engine.stalled", "3")
    assert_all_end(there)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_stuck_shard_ends_the_job_and_is_named(corpus, tmp_path, tiny_bundle, capfd, workers):
    """A limit that no shard of this size can keep."""
    with pytest.raises(PipelineError, match=r"engine.died.*(exit code 70: a shard exceeded|code 70,)") as caught:
        run(corpus, tmp_path / "out", tiny_bundle, workers=workers, shard_timeout=0.001, max_shard_bytes=1 << 20)
    assert "is stopping: shard in-00000" in str(caught.value) + capfd.readouterr().err


@pytest.mark.parametrize("victim", ["driver", "pipeline", "interrupted driver"])
def test_no_process_outlives_a_driver_or_a_pipeline_that_is_killed(corpus, tmp_path, tiny_bundle, victim):
    out = tmp_path / "out"
    words = ["prepare", "--input", corpus, "--output", out, "--model", tiny_bundle, "--engine", "beam", "--workers", 2]
    job = start(*words, "--max-shard-bytes", 600, killers=True)
    wait_for_shards(out, 1, job)
    there = descendants(job.pid)
    assert len(there) >= 3
    if victim == "pipeline":
        (child,) = (each for each in psutil.Process(job.pid).children() if each in there)
        child.kill()
    else:
        os.kill(job.pid, signal.SIGKILL if victim == "driver" else signal.SIGINT)
    text = finish(job, code={"pipeline": 3, "driver": -9, "interrupted driver": 130}[victim])
    assert ("[engine.died] Beam " in text and "exit code -9" in text) == (victim == "pipeline")
    assert_all_end(there)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path)
