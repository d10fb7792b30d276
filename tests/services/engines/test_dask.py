"""The Dask engine: what it does with the outcomes of attempts, in threads of this process."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from distributed import LocalCluster
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps

from pipelines.engines import GIVE_UP, TRIES, Settings
from pipelines.engines.dask import driver as engine
from pipelines.engines.dask import scheduler
from pipelines.engines.dask import worker as dask_worker
from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.planning.files import MAX_NAMES_BYTES
from pipelines.shards.progress import ShardProgress
from pipelines.shards.worker import Done, Failed, Fault
from schemas.manifest import MANIFEST_VERSION, Entry
from schemas.shards import Shard
from spanmarker_core.bundle.reader import read_info
from tests.services.engines.recorder import Recorder


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
    progress(ShardProgress(1, 1, 1))
    return Done(entry(shard.name))


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
            return Failed("no luck")
        if shard.name == "s-00007":
            return Failed("another file", retry=False)
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
        attempts(lambda shard, task, progress: Fault(fault), map(shard, range(500)))
    assert str(caught.value) == str(fault)


@pytest.mark.default
def test_an_attempt_that_nobody_waits_for_ends_at_its_next_word(attempts):
    """The first shard runs until it is cancelled; another one ends the run."""
    begun, ended, first = threading.Event(), threading.Event(), threading.Lock()

    def attempt(shard, task, progress):
        if not first.acquire(blocking=False):
            begun.wait(30)
            return Fault(PipelineError("output.not_shared", path="x"))
        begun.set()
        try:
            for _ in range(600):
                progress(ShardProgress(1, 1, 1))
                time.sleep(0.05)
        except RuntimeError:
            ended.set()
            raise

    with pytest.raises(PipelineError, match=r"output.not_shared"):
        attempts(attempt, map(shard, range(8)))
    assert ended.wait(30)


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
        return Failed("[output.not_writable] no space")

    with pytest.raises(PipelineError, match=r"shards.failed(.|\n)*\[output.not_writable\] no space") as caught:
        attempts(attempt, map(shard, range(5000)))
    assert f"{GIVE_UP} failures in a row" in caught.value.values["others"]
    assert GIVE_UP * TRIES <= len(tried) < 2 * GIVE_UP * TRIES


@pytest.mark.default
def test_shards_whose_inputs_changed_keep_no_other_from_being_done(attempts):
    def attempt(shard, task, progress):
        return Failed("another file", retry=False) if shard.name < "s-00100" else done(shard, task, progress)

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

    monkeypatch.setattr(scheduler, "LocalCluster", fails)
    with pytest.raises(PipelineError, match=r"engine.not_started.*Cluster failed to start: no more"):
        engine.run(iter([]), task, Settings(1, 1), Recorder())
