"""The Dask engine: what it does with outcomes in threads of this process, and with real schedulers and workers."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace

import psutil
import pytest
from distributed import LocalCluster
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps
from rich.console import Console

from pipelines.engines import GIVE_UP, TRIES, Settings
from pipelines.engines.dask import driver as engine
from pipelines.engines.dask import worker as dask_worker
from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.planning.documents import MAX_NAMES_BYTES
from pipelines.runs.run import run_job
from pipelines.shards.worker import Outcome
from schemas.manifest import MANIFEST_VERSION, Entry
from schemas.shards import Shard
from spanmarker_core.bundle.reader import read_info
from tests.services.engines.dask_cluster import ROOT, Cluster
from tests.support.jobs import all_rows, documents, write_jsonl


@dataclass
class Recorder:
    """A listener that keeps what it hears."""

    facts: list[dict] = field(default_factory=list)
    finished_on: dict[str, str] = field(default_factory=dict)
    retries: list[tuple[str, str]] = field(default_factory=list)
    documents: int = 0

    def started(self, facts):
        self.facts.append(facts)

    def progressed(self, shard, documents, words, n_bytes):
        self.documents += documents

    def finished(self, entry, n_bytes, worker):
        assert entry.shard not in self.finished_on
        self.finished_on[entry.shard] = worker

    def retried(self, shard, reason):
        self.retries.append((shard, reason))

    def failed(self, shard, reason):
        assert reason


def shard(number, **values):
    fields = {"source": "in", "format": "jsonl", "start": 0, "end": 1, "files": (), "n_bytes": 1, "content": "c"}
    return Shard(f"s-{number:05d}", **(fields | values))


def entry(name):
    return Entry(MANIFEST_VERSION, name, "in", [], "job", *({} for _ in range(3)), [], {}, {}, 0, {}, {})


@pytest.fixture
def task(tmp_path, tiny_bundle):
    job = TagJob(input=["in"], output=str(tmp_path / "out"), model=str(tiny_bundle), threads=1)
    return job.task(read_info(job.model_path), "job")


# --- no processes ---


@pytest.mark.default
def test_a_task_is_small_also_with_the_most_file_names_a_shard_may_have(task):
    names = tuple("n" * 31 for _ in range(MAX_NAMES_BYTES // 31))
    largest = shard(0, source="s3://" + "b" * 500, format="text", files=names)
    assert len(dumps((engine.attempt_here, (largest, task, "spanmarker-Client-" + "0" * 36, 10**6)))) < 10_000


@pytest.mark.default
def test_the_driver_needs_no_torch():
    code = "import sys, pipelines.engines.dask.driver; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.default
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "http://127.0.0.1:9", "127.0.0.1"])
def test_a_scheduler_that_is_not_there_is_named(monkeypatch, task, address):
    monkeypatch.setattr(engine, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(PipelineError, match=rf"engine.not_reached.*{address}.*--scheduler"):
        engine.run(iter([]), task, Settings(1, 1, address), Recorder())


@pytest.mark.default
def test_an_output_in_memory_is_refused(task):
    with pytest.raises(PipelineError, match=r"output.not_shared"):
        engine.run(iter([]), replace(task, output="memory://out"), Settings(1, 1), Recorder())


# --- a scheduler and two workers in threads of this process, where attempts are replaced ---


@pytest.fixture(scope="module")
def threads():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def attempts(monkeypatch, threads, task):
    """Run shards with a function in place of the attempt."""
    monkeypatch.setattr(engine, "_LOOK_SECONDS", 0.2)
    monkeypatch.setattr(dask_worker, "facts", lambda task: {"device": "none"})
    monkeypatch.setattr(engine, "committed_entry", lambda output, name: entry(name))

    def run(attempt, shards, **settings):
        monkeypatch.setattr(
            dask_worker, "attempt", lambda shard, task, progress, careful: attempt(shard, task, progress)
        )
        recorder = Recorder()
        engine.run(iter(shards), task, Settings(1, 1, threads.scheduler_address, **settings), recorder)
        return recorder

    return run


def done(shard, task, progress):
    progress(1, 1, 1)
    return Outcome("done", entry(shard.name))


@pytest.mark.default
def test_few_shards_are_out_at_once_whatever_their_number(attempts, threads):
    taken, most, known = 0, 0, 0

    def shards():
        nonlocal taken
        for taken in range(1, 201):
            yield shard(taken)

    def attempt(shard, task, progress):
        nonlocal most, known
        most = max(most, taken - int(shard.name[2:]))
        known = max(known, len(threads.scheduler.tasks))
        return done(shard, task, progress)

    recorder = attempts(attempt, shards())
    assert len(recorder.finished_on) == recorder.documents == 200
    assert set(recorder.finished_on.values()) == {worker.address for worker in threads.workers.values()}
    assert most <= 2 * engine.IN_FLIGHT
    assert 2 <= known <= 10 * engine.IN_FLIGHT  # of 200; with those that are done, until a busy machine has told so
    assert [facts["workers"] for facts in recorder.facts] == ["2"]


@pytest.mark.default
def test_a_failed_shard_is_tried_elsewhere_and_fails_alone(attempts):
    tried = {}

    def attempt(shard, task, progress):
        tried.setdefault(shard.name, []).append(dask_worker.get_worker().address)
        if shard.name == "s-00003" or (shard.name == "s-00005" and len(tried[shard.name]) == 1):
            return Outcome("failed", "no luck")
        if shard.name == "s-00007":
            return Outcome("changed", "another file")
        return done(shard, task, progress)

    with pytest.raises(PipelineError) as caught:
        attempts(attempt, map(shard, range(20)))
    assert [caught.value.values[name] for name in ("count", "total", "tries")] == [2, 20, 3]
    assert "s-00003: no luck" in str(caught.value)
    assert "s-00007: another file" in str(caught.value)
    assert {name: len(workers) for name, workers in tried.items() if len(workers) > 1} == {"s-00003": 3, "s-00005": 2}
    assert tried["s-00005"][0] != tried["s-00005"][1]


@pytest.mark.default
def test_a_fault_ends_the_run_as_it_is(attempts, threads):
    fault = PipelineError("worker.other_model", worker="w", path="p", there="a", here="b")
    with pytest.raises(PipelineError) as caught:
        attempts(lambda shard, task, progress: Outcome("fault", fault), map(shard, range(500)))
    assert str(caught.value) == str(fault)


@pytest.mark.default
def test_an_attempt_that_nobody_waits_for_ends_at_its_next_word(attempts):
    ended = []

    def attempt(shard, task, progress):
        if shard.name == "s-00001":
            time.sleep(0.3)
            return Outcome("fault", PipelineError("output.not_shared", path="x"))
        try:
            for _ in range(200):
                progress(1, 1, 1)
                time.sleep(0.05)
        except RuntimeError as error:
            ended.append(str(error))
            raise
        return done(shard, task, progress)

    with pytest.raises(PipelineError, match=r"output.not_shared"):
        attempts(attempt, map(shard, range(2)))
    deadline = time.monotonic() + 5
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended == ["nobody waits for this shard any more"]


@pytest.mark.default
def test_resources_that_no_worker_has_are_named_after_a_while(monkeypatch, attempts):
    monkeypatch.setattr(engine, "NO_WORKER_SECONDS", 0.5)
    with pytest.raises(PipelineError, match=r"engine.no_worker[^\n]* GPU=1[^\n]*\n  tcp:[^\n]*: no resources\n"):
        attempts(done, map(shard, range(20)), resources={"GPU": 1})


@pytest.mark.default
def test_an_output_that_only_workers_see_is_refused(monkeypatch, attempts):
    monkeypatch.setattr(engine, "committed_entry", lambda output, name: None)
    with pytest.raises(PipelineError) as caught:
        attempts(done, map(shard, range(20)))
    assert caught.value.code == "output.not_seen"
    assert caught.value.values["path"].endswith("/out")


@pytest.mark.default
def test_shards_that_all_fail_end_the_run_soon(attempts):
    tried = []

    def attempt(shard, task, progress):
        tried.append(shard.name)
        return Outcome("failed", "[output.not_writable] no space")

    with pytest.raises(PipelineError, match=r"shards.failed(.|\n)*\[output.not_writable\] no space") as caught:
        attempts(attempt, map(shard, range(5000)))
    assert f"the last {GIVE_UP} failed in a row" in caught.value.values["others"]
    assert GIVE_UP * TRIES <= len(tried) < 2 * GIVE_UP * TRIES


@pytest.mark.default
def test_shards_whose_inputs_changed_keep_no_other_from_being_done(attempts):
    def attempt(shard, task, progress):
        return Outcome("changed", "another file") if shard.name < "s-00100" else done(shard, task, progress)

    with pytest.raises(PipelineError) as caught:
        attempts(attempt, map(shard, range(103)))
    assert caught.value.code == "shards.failed"
    assert (caught.value.values["count"], caught.value.values["total"]) == (100, 103)
    assert caught.value.values["others"] == "all others are done"


@pytest.mark.default
def test_a_model_that_is_never_loaded_ends_the_run_and_its_worker_is_named(monkeypatch, attempts, caplog):
    asked, over = [], threading.Event()

    def stuck(task):
        asked.append(task)
        over.wait(30)
        return {"device": "none"}

    monkeypatch.setattr(dask_worker, "facts", stuck)
    monkeypatch.setattr(engine, "_PATIENCE", 0.5)
    monkeypatch.setattr(engine, "LOAD_SECONDS", 1.0)
    try:
        with pytest.raises(PipelineError, match=r"worker.start_failed.*worker tcp:\S+ was not ready after 1 s"):
            attempts(done, map(shard, range(5)))
    finally:
        over.set()
    assert len(asked) == 2
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.default
def test_one_worker_whose_model_is_not_loaded_does_not_keep_the_other(monkeypatch, attempts):
    asked, over = [], threading.Event()

    def one_is_stuck(task):
        asked.append(task)
        if len(asked) == 1:
            over.wait(30)
        return {"device": "none"}

    monkeypatch.setattr(dask_worker, "facts", one_is_stuck)
    monkeypatch.setattr(engine, "_PATIENCE", 0.5)
    recorder = attempts(done, map(shard, range(5)))
    over.set()
    assert len(recorder.finished_on) == 5
    assert len(asked) == 2


@pytest.mark.default
def test_a_cancellation_that_finds_no_scheduler_is_no_error_of_its_own():
    class Gone:
        async def cancel(self, futures):
            raise CommClosedError("gone")

    driver = engine._Driver(iter([]), None, Settings(1, 1), Recorder(), "tcp://gone")
    driver.client = Gone()
    asyncio.run(driver._cancel(None))


@pytest.mark.default
def test_a_cluster_that_does_not_start_is_one_message(monkeypatch, task):
    def fails(**options):
        raise RuntimeError("Cluster failed to start: no more processes")

    monkeypatch.setattr(engine, "LocalCluster", fails)
    with pytest.raises(PipelineError, match=r"engine.not_started.*Cluster failed to start: no more"):
        engine.run(iter([]), task, Settings(1, 1), Recorder())


# --- real workers ---


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_jsonl(tmp_path_factory.mktemp("corpus") / "in.jsonl", documents(250))


def job(corpus, out, bundle, **options):
    return TagJob(input=[str(corpus)], output=str(out), model=str(bundle), max_shard_bytes=900, threads=1, **options)


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory, tiny_bundle):
    """The rows of a clean local run."""
    out = tmp_path_factory.mktemp("clean")
    run_job(job(corpus, out, tiny_bundle), Console(quiet=True))
    rows = all_rows(out)
    assert len(rows["documents"]) == 250
    return rows


@pytest.fixture
def record(monkeypatch, corpus, tmp_path, tiny_bundle):
    """Run a job in this process; return what its listener heard. `change` changes the task."""

    def run(change=lambda task: task, **options):
        recorder = Recorder()
        whole = engine.run

        def recorded(shards, task, settings, listener):
            whole(shards, change(task), settings, _Both(recorder, listener))

        with monkeypatch.context() as patch:
            patch.setattr(engine, "run", recorded)
            run_job(job(corpus, tmp_path / "out", tiny_bundle, engine="dask", **options), Console(quiet=True))
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


def start(corpus, out, bundle, *options, cwd=None):
    command = [sys.executable, "-m", "pipelines.cli", "tag", "--engine", "dask", "--input", str(corpus)]
    command += ["--output", str(out), "--model", str(bundle), "--max-shard-bytes", "900", "--threads", "1", *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def finish(process, code=0):
    text = process.communicate(timeout=400)[0]
    assert process.returncode == code, text
    assert "Traceback" not in text
    return text


def wait_for(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def wait_for_shards(out, count, seconds=90):
    wait_for(lambda: len(list((out / "manifest").glob("*.json"))) >= count, seconds)


def child_of(process):
    """The worker below a nanny."""
    wait_for(lambda: any("spawn_main" in " ".join(c.cmdline()) for c in psutil.Process(process.pid).children()))
    return next(c for c in psutil.Process(process.pid).children() if "spawn_main" in " ".join(c.cmdline()))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cluster_on_this_machine_writes_the_rows_of_a_local_run(tmp_path, corpus, expected, tiny_bundle, workers):
    (tmp_path / "cwd").mkdir()
    (tmp_path / "tmp").mkdir()
    text = finish(start(corpus, tmp_path / "out", tiny_bundle, "--workers", str(workers), cwd=tmp_path / "cwd"))
    assert all_rows(tmp_path / "out") == expected
    first, *others = text.splitlines()
    assert first.startswith("device: cpu, dtype: float32, ")
    assert f"workers: {workers}" in first
    assert len([line for line in others if "%," not in line]) == 4, text  # nothing of Dask's own
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path / "cluster", SCHEDULER__WORKER_TTL="4s") as cluster:
        yield cluster


def test_only_workers_with_the_resources_tag(tmp_path, cluster, record, expected):
    cluster.ready(cluster.worker())
    with_gpu = {cluster.ready(cluster.worker("--resources", "GPU=1"))}
    recorder = record(scheduler=cluster.address, resources={"GPU": 1})
    assert set(recorder.finished_on.values()) == with_gpu
    assert all_rows(tmp_path / "out") == expected
    assert recorder.documents == 250
    assert recorder.retries == []


def test_workers_that_join_late_take_part(tmp_path, cluster, corpus, expected, tiny_bundle):
    out = tmp_path / "out"
    run = start(corpus, out, tiny_bundle, "--scheduler", cluster.address)
    wait_for(lambda: (out / "plan.jsonl").exists())
    first = cluster.worker()
    cluster.ready(first)
    wait_for_shards(out, 2)
    cluster.ready(cluster.worker())
    os.killpg(first.pid, signal.SIGKILL)  # so that only the second is left
    finish(run)
    assert all_rows(out) == expected


def test_a_worker_of_another_version_is_refused_and_both_versions_named(tmp_path, cluster, record):
    cluster.ready(cluster.worker())
    other = cluster.ready(cluster.worker(preload="import pipelines; pipelines.CODE_VERSION = '0.0.9'"))
    with pytest.raises(PipelineError) as caught:
        record(scheduler=cluster.address)
    assert caught.value.code == "worker.other_version"
    assert caught.value.values == {"worker": other, "there": "0.0.9", "here": "0.1.0"}
    assert list((tmp_path / "out" / "documents").iterdir()) == []


def test_a_worker_with_another_model_is_refused_and_both_digests_named(tmp_path, cluster, record, tiny_bundle):
    cluster.ready(cluster.worker())
    there, here = read_info(tiny_bundle).digest, "0" * 64
    with pytest.raises(PipelineError) as caught:
        record(lambda task: replace(task, model_digest=here), scheduler=cluster.address)
    assert caught.value.code == "worker.other_model"
    assert [str(caught.value.values[name]) for name in ("path", "there", "here")] == [str(tiny_bundle), there, here]
    assert list((tmp_path / "out" / "documents").iterdir()) == []


@pytest.mark.faults
@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_a_worker_that_is_killed_loses_nothing(tmp_path, cluster, corpus, expected, tiny_bundle, nanny):
    workers = [cluster.worker(nanny) for _ in range(2)]
    for worker in workers:
        cluster.ready(worker)
    out = tmp_path / "out"
    run = start(corpus, out, tiny_bundle, "--scheduler", cluster.address)
    wait_for_shards(out, 4)
    (child_of(workers[0]) if nanny == "--nanny" else workers[0]).kill()
    finish(run)
    assert all_rows(out) == expected


@pytest.mark.faults
def test_a_worker_that_stops_is_given_up_by_the_scheduler(tmp_path, cluster, corpus, expected, tiny_bundle):
    workers = [cluster.worker() for _ in range(2)]
    for worker in workers:
        cluster.ready(worker)
    out = tmp_path / "out"
    run = start(corpus, out, tiny_bundle, "--scheduler", cluster.address)
    wait_for_shards(out, 4)
    child_of(workers[0]).send_signal(signal.SIGSTOP)
    finish(run)
    assert all_rows(out) == expected


@pytest.mark.faults
def test_the_end_of_the_scheduler_ends_the_run_and_the_next_one_goes_on(tmp_path, corpus, expected, tiny_bundle):
    out = tmp_path / "out"
    with Cluster(tmp_path / "one") as cluster:
        cluster.ready(cluster.worker())
        run = start(corpus, out, tiny_bundle, "--scheduler", cluster.address)
        wait_for_shards(out, 3)
        cluster.scheduler.kill()
        killed = time.monotonic()
        text = finish(run, code=3)
        assert time.monotonic() - killed < 20
        assert "[engine.lost] " in text
        assert cluster.address in text.partition("[engine.lost] ")[2]
    done = len(list((out / "manifest").glob("*.json")))
    with Cluster(tmp_path / "two") as cluster:
        cluster.ready(cluster.worker())
        text = finish(start(corpus, out, tiny_bundle, "--scheduler", cluster.address))
    assert f"{done} done before" in text
    assert all_rows(out) == expected


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
"""


@pytest.mark.faults
def test_a_shard_that_is_stuck_ends_its_worker_and_after_three_tries_fails_alone(
    tmp_path, cluster, corpus, expected, tiny_bundle
):
    (marks := tmp_path / "marks").mkdir()
    for _ in range(2):
        cluster.ready(cluster.worker(preload=STUCK.format(marks=str(marks))))
    out = tmp_path / "out"
    text = finish(start(corpus, out, tiny_bundle, "--scheduler", cluster.address, "--shard-timeout", "5"), code=3)
    assert "1 of" in text
    assert "in 3 tries" in text
    assert {mark.name[:8]: len(mark.read_text()) for mark in marks.iterdir()} in (
        {"in-00003": 3, "in-00005": 1},
        {"in-00003": 4, "in-00005": 1},
    )
    finish(start(corpus, out, tiny_bundle))
    assert all_rows(out) == expected


@pytest.mark.faults
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_command_ends_its_cluster(tmp_path, corpus, expected, tiny_bundle, sent):
    out = tmp_path / "out"
    run = start(corpus, out, tiny_bundle, "--workers", "2")
    wait_for_shards(out, 3)
    children = psutil.Process(run.pid).children(recursive=True)
    os.killpg(run.pid, sent) if sent == signal.SIGINT else run.send_signal(sent)
    asked = time.monotonic()
    finish(run, code={signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[sent])
    assert time.monotonic() - asked < 10
    assert not psutil.wait_procs(children, timeout=10)[1]
    finish(start(corpus, out, tiny_bundle))
    assert all_rows(out) == expected
