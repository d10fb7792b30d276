"""Beam's processes are killed, stopped and stuck. The job ends, leaves no process behind, and the next run is right."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from rich.console import Console

from pipelines.engines import ENGINES
from pipelines.engines.beam import driver as engine
from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.runs.run import run_job
from tests.services.engines.beam_processes import assert_all_end, descendants, sdk_workers
from tests.support.jobs import all_rows, assert_same_rows, documents, tag, write_jsonl

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
COUNT = 240


@pytest.fixture(autouse=True)
def engines(monkeypatch):
    monkeypatch.setitem(ENGINES, "inline", "tests.support.inline_engine")
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.2)


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", documents(COUNT))


def run(corpus, out, bundle, **options):
    values = {"max_shard_bytes": 600, "engine": "beam", "threads": 1, "workers": 2, **options}
    run_job(TagJob(input=[str(corpus)], output=str(out), model=str(bundle), **values), Console(quiet=True))


def when_a_shard_is_done(monkeypatch, out, deed):
    """Do `deed` with the worker processes once, while shards are being done; return those that were there."""
    there, run_all = [], engine.run

    def watch():
        while not any((out / "manifest").glob("*.json")):
            time.sleep(0.05)
        there.extend(descendants())
        deed(sdk_workers())

    def wrapped(*given):
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        run_all(*given)

    monkeypatch.setattr(engine, "run", wrapped)
    return there, run_all


def assert_next_run_is_right(corpus, out, bundle, folder, engine="inline"):
    """The next run does what is missing, and no more; of the engines, the one that the test is not about is quick."""
    done = len(list((out / "manifest").glob("*.json")))  # and not what a killed worker was writing
    assert done > 0
    run(corpus, out, bundle, engine=engine)
    tag([corpus], folder / "inline", bundle)
    assert_same_rows(all_rows(out), all_rows(folder / "inline"))
    assert json.loads((out / "report.json").read_text())["this_run"]["shards_done_before"] == done


def test_killed_worker_ends_the_job_at_once(monkeypatch, corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    there, run_all = when_a_shard_is_done(monkeypatch, out, lambda workers: workers[0].kill())
    with pytest.raises(PipelineError, match=r"engine.died.*return code -9"):
        run(corpus, out, tiny_bundle)
    assert len(there) >= 3
    assert_all_end(there)
    monkeypatch.setattr(engine, "run", run_all)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path, engine="beam")


def test_stopped_workers_end_the_job_at_its_time_limit(monkeypatch, corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    there, _ = when_a_shard_is_done(monkeypatch, out, lambda workers: [each.suspend() for each in workers])
    monkeypatch.setattr(engine, "STALL_SECONDS", 30)
    with pytest.raises(PipelineError) as caught:
        run(corpus, out, tiny_bundle)
    assert (caught.value.code, caught.value.values["seconds"]) == ("engine.stalled", "30")
    assert_all_end(there)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_stuck_shard_ends_the_job_and_is_named(corpus, tmp_path, tiny_bundle, capfd, workers):
    """A limit that no shard of this size can keep."""
    write_jsonl(corpus, documents(5 * COUNT))
    with pytest.raises(PipelineError, match=r"engine.died.*(exit code 70: a shard took longer|code 70,)") as caught:
        run(corpus, tmp_path / "out", tiny_bundle, workers=workers, shard_timeout=0.001, max_shard_bytes=1 << 20)
    assert "ends itself: shard in-00000" in str(caught.value) + capfd.readouterr().err


@pytest.mark.parametrize("victim", ["driver", "pipeline", "interrupted driver"])
def test_no_process_outlives_a_driver_or_a_pipeline_that_is_killed(corpus, tmp_path, tiny_bundle, victim):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pipelines.cli", "tag", "--input", str(corpus), "--output", str(out)]
    command += ["--model", str(tiny_bundle), "--engine", "beam", "--workers", "2", "--max-shard-bytes", "600"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not any((out / "manifest").glob("*.json")):
        assert job.poll() is None
        time.sleep(0.05)
    there = descendants(job.pid)
    assert len(there) >= 3
    if victim == "pipeline":
        (child,) = (each for each in psutil.Process(job.pid).children() if each in there)
        child.kill()
    else:
        os.kill(job.pid, signal.SIGKILL if victim == "driver" else signal.SIGINT)
    text = job.communicate(timeout=30)[0]
    assert job.returncode == {"pipeline": 3, "driver": -9, "interrupted driver": 130}[victim], text
    assert "Traceback" not in text
    assert ("[engine.died] Beam " in text and "exit code -9" in text) == (victim == "pipeline")
    assert_all_end(there)
    assert_next_run_is_right(corpus, out, tiny_bundle, tmp_path)
