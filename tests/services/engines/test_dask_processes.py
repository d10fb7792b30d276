"""The Dask engine with real schedulers and workers: who takes part, who is refused, and what dies.

The jobs prepare, except where a model is what a test is about: engines know nothing of models, and workers that load
none start quicker.
"""

import os
import re
import signal
import time
from dataclasses import replace

import pytest
from rich.console import Console

from pipelines.engines.dask import driver as engine
from pipelines.errors import PipelineError
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.runs.run import run_job
from spanmarker_core.bundle.reader import read_info
from tests.services.engines.dask_cluster import Cluster
from tests.services.engines.recorder import Recorder
from tests.support.jobs import all_rows, assert_same_rows, prepare, slow_documents, tag, write_jsonl
from tests.support.processes import assert_all_end, children, finish, start, wait_for, wait_for_shards
from tests.support.rows import prepared

VALUES = {"max_shard_bytes": 900, "threads": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_jsonl(tmp_path_factory.mktemp("corpus") / "in.jsonl", slow_documents(250))


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory, tiny_bundle):
    """The rows of a clean run without Dask."""
    out = tmp_path_factory.mktemp("clean")
    prepare([corpus], out, tiny_bundle, **VALUES)
    rows = prepared(out)
    assert len(rows["inputs"]) == 250
    return rows


@pytest.fixture
def record(monkeypatch, corpus, tmp_path, tiny_bundle):
    """Run a job in this process; return what its listener heard. `change` changes the task."""

    def run(change=lambda task: task, kind=PrepareJob, **options):
        recorder = Recorder()
        whole = engine.run

        def recorded(shards, task, settings, listener):
            whole(shards, change(task), settings, _Both(recorder, listener))

        values = VALUES | {"input": [str(corpus)], "output": str(tmp_path / "out"), "model": str(tiny_bundle)}
        with monkeypatch.context() as patch:
            patch.setattr(engine, "run", recorded)
            run_job(kind(engine="dask", **values, **options), Console(quiet=True))
        return recorder

    return run


class _Both:
    def __init__(self, *listeners):
        self.listeners = listeners

    def __getattr__(self, name):
        def call(*values):
            for listener in self.listeners:
                getattr(listener, name)(*values)

        return call


@pytest.fixture
def begin(corpus, tiny_bundle):
    """Start a command on a cluster, or on one that it starts itself."""

    def run(out, cluster=None, *options, verb="prepare", **process):
        words = [verb, "--engine", "dask", "--input", corpus, "--output", out, "--model", tiny_bundle]
        words += ["--max-shard-bytes", 900, "--threads", 1, *options]
        return start(*words, *(["--scheduler", cluster.address] if cluster else []), killers=True, **process)

    return run


def test_a_cluster_on_this_machine_writes_the_rows_of_a_local_run(tmp_path, corpus, tiny_bundle, begin):
    (tmp_path / "cwd").mkdir()
    run = begin(tmp_path / "out", None, "--workers", 2, "--verbose", verb="tag", cwd=tmp_path / "cwd")
    lines = finish(run).splitlines()
    tag([corpus], tmp_path / "inline", tiny_bundle, **VALUES)
    assert_same_rows(all_rows(tmp_path / "out"), all_rows(tmp_path / "inline"))
    (facts,) = [line for line in lines if line.startswith("device: cpu, dtype: float32, ")]
    assert "workers: 2" in facts
    ours = "Model: |1 file, |device: |(looking|starting|tagging).*|250 doc|Most |[0-9]+ shards in |Rows: |Next:|  "
    assert [line for line in lines if not re.match(ours, line)] == []  # nothing of Dask's own
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path / "cluster", SCHEDULER__WORKER_TTL="4s") as cluster:
        yield cluster


def test_only_workers_with_the_resources_take_part(tmp_path, cluster, record, expected):
    workers = [cluster.worker(), cluster.worker("--resources", "GPU=1")]
    _, with_gpu = map(cluster.ready, workers)
    recorder = record(scheduler=cluster.address, resources={"GPU": 1})
    assert set(recorder.finished_on.values()) == {with_gpu}
    assert prepared(tmp_path / "out") == expected
    assert recorder.documents == 250
    assert recorder.retries == []


def test_workers_that_join_late_take_part(tmp_path, cluster, begin, expected):
    run = begin(tmp_path / "out", cluster)
    wait_for(lambda: (tmp_path / "out" / "plan.jsonl").exists(), process=run)
    first = cluster.worker()
    wait_for_shards(tmp_path / "out", 2, run)
    cluster.ready(cluster.worker())
    os.killpg(first.pid, signal.SIGKILL)  # so that only the second is left
    finish(run)
    assert prepared(tmp_path / "out") == expected


def test_workers_of_another_version_or_with_another_model_are_refused(tmp_path, cluster, record, tiny_bundle):
    """The error names the worker and both versions."""
    cluster.ready(cluster.worker())
    digest = read_info(tiny_bundle).digest
    with pytest.raises(PipelineError) as caught:
        record(lambda task: replace(task, model_digest="0" * 64), kind=TagJob, scheduler=cluster.address)
    assert caught.value.code == "worker.other_model"
    found = [str(caught.value.values[name]) for name in ("path", "there", "here")]
    assert found == [str(tiny_bundle), digest, "0" * 64]
    assert list((tmp_path / "out" / "documents").iterdir()) == []

    other = cluster.ready(cluster.worker(preload="import pipelines; pipelines.CODE_VERSION = '0.0.9'"))
    with pytest.raises(PipelineError) as caught:
        record(kind=TagJob, scheduler=cluster.address)
    assert caught.value.code == "worker.other_version"
    assert caught.value.values == {"worker": other, "there": "0.0.9", "here": "0.1.0"}
    assert list((tmp_path / "out" / "documents").iterdir()) == []


@pytest.mark.faults
@pytest.mark.parametrize(
    ("nanny", "sent"),
    [("--nanny", signal.SIGKILL), ("--no-nanny", signal.SIGKILL), ("--nanny", signal.SIGSTOP)],
)
def test_a_worker_that_is_killed_or_stopped_loses_nothing(tmp_path, cluster, begin, expected, nanny, sent):
    workers = [cluster.worker(nanny) for _ in range(2)]
    for worker in workers:
        cluster.ready(worker)
    run = begin(tmp_path / "out", cluster)
    wait_for_shards(tmp_path / "out", 4, run)
    below = children(workers[0].pid, "spawn_main", recursive=False)
    assert bool(below) == (nanny == "--nanny")
    (below[0] if below else workers[0]).send_signal(sent)
    finish(run)
    assert prepared(tmp_path / "out") == expected


@pytest.mark.faults
def test_the_end_of_the_scheduler_ends_the_run_and_the_next_one_goes_on(tmp_path, begin, expected):
    out = tmp_path / "out"
    with Cluster(tmp_path / "one") as cluster:
        cluster.ready(cluster.worker())
        run = begin(out, cluster)
        wait_for_shards(out, 3, run)
        cluster.scheduler.kill()
        killed = time.monotonic()
        text = finish(run, code=3)
        assert time.monotonic() - killed < engine._PATIENCE  # It does not wait for answers that can't come.
        assert "[engine.lost] " in text
        assert cluster.address in text.partition("[engine.lost] ")[2]
    # A worker may have committed a shard while the run that was ending removed what was not committed.
    files = [{path.stem for path in (out / name).iterdir()} for name in ("manifest", "samples", "inputs")]
    done = len(set.intersection(*files))
    with Cluster(tmp_path / "two") as cluster:
        cluster.worker()
        text = finish(begin(out, cluster))
    assert f"{done} done before" in text
    assert prepared(out) == expected


#: A run of a shard that never ends: every time for one shard, once for another.
STUCK = """
import pathlib, time
import pipelines.shards.worker
if not hasattr(pipelines.shards.worker, "whole"):  # Dask imports a preload twice.
    pipelines.shards.worker.whole = pipelines.shards.worker.run_shard
def run_shard(shard, *values):
    marks = pathlib.Path({marks!r})
    mark = marks / shard.name
    if "-00003-" in shard.name or ("-00005-" in shard.name and not mark.exists()):
        mark.open("a").write("x")
        time.sleep(1000)
    return pipelines.shards.worker.whole(shard, *values)
pipelines.shards.worker.run_shard = run_shard
pipelines.shards.worker.LOAD_SECONDS = 4.0  # of the last attempt, whose steps load the model in their processes
"""


@pytest.mark.faults
def test_a_shard_that_is_stuck_ends_its_worker_and_after_three_tries_fails_alone(
    tmp_path, cluster, corpus, begin, expected, tiny_bundle
):
    (marks := tmp_path / "marks").mkdir()
    for worker in [cluster.worker(preload=STUCK.format(marks=str(marks))) for _ in range(2)]:
        cluster.ready(worker)
    out = tmp_path / "out"
    text = finish(begin(out, cluster, "--shard-timeout", 8), code=3)
    assert "1 of" in text
    assert "3 tries" in " ".join(text.split())
    begun = {mark.name[:8]: len(mark.read_text()) for mark in marks.iterdir()}
    assert begun.keys() == {"in-00003", "in-00005"}
    assert begun["in-00005"] == 1
    # Dask may begin each of the three tries once more elsewhere, before the driver hears that its worker ended.
    assert 3 <= begun["in-00003"] <= 6
    prepare([corpus], out, tiny_bundle, **VALUES)
    assert prepared(out) == expected


@pytest.mark.faults
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_command_ends_its_cluster(tmp_path, corpus, begin, expected, tiny_bundle, sent):
    out = tmp_path / "out"
    run = begin(out, None, "--workers", 2)
    wait_for_shards(out, 3, run)
    below = children(run.pid)
    os.killpg(run.pid, sent) if sent == signal.SIGINT else run.send_signal(sent)
    asked = time.monotonic()
    finish(run, code={signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[sent])
    assert time.monotonic() - asked < 10
    assert_all_end(below)
    prepare([corpus], out, tiny_bundle, **VALUES)
    assert prepared(out) == expected
