"""The local engine: real worker processes."""

import json
import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from pipelines.engines import ENGINES, Settings, local
from pipelines.errors import PipelineError
from pipelines.jobs.tag import TagJob
from pipelines.output.plan_file import read_plan
from pipelines.runs.run import run_job
from spanmarker_core.errors import CoreError
from spanmarker_core.windows.packer import Context
from tests.support.jobs import all_rows, assert_same_rows, documents, rows, tag, write_jsonl
from tests.support.stuck_workers import never_ends, never_ready
from tests.support.tiny import tiny_bundle as write_tiny_bundle


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", documents(40))


def run(corpus, out, bundle, **options):
    job = TagJob(input=[str(corpus)], output=str(out), model=str(bundle), max_shard_bytes=600, threads=1, **options)
    console = Console(record=True, width=200)
    run_job(job, console)
    return console.export_text()


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.services)]
)
def test_workers_write_the_rows_that_one_process_writes(workers, corpus, tmp_path, tiny_bundle):
    text = run(corpus, tmp_path / "out", tiny_bundle, workers=workers)
    first = text.splitlines()[0]
    for part in ("device: cpu", "dtype: float32", f"workers: {workers}", "threads per worker: 1", "batches: "):
        assert part in first
    tag([corpus], tmp_path / "inline", tiny_bundle)
    assert_same_rows(all_rows(tmp_path / "out"), all_rows(tmp_path / "inline"))


@pytest.mark.services
def test_fault_of_the_job_in_a_worker_stops_it_before_any_shard(corpus, tmp_path, tiny_bundle):
    with pytest.raises(CoreError, match=r"device\.(cpu_build|no_gpu).*cuda:99"):
        run(corpus, tmp_path / "out", tiny_bundle, device="cuda:99")
    assert list((tmp_path / "out" / "documents").iterdir()) == []


def test_an_output_in_memory_is_refused_before_any_worker(corpus, tmp_path, tiny_bundle):
    with pytest.raises(PipelineError, match=r"output.not_shared"):
        run(corpus, f"memory://{tmp_path}/out", tiny_bundle)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(local, "LOAD_SECONDS", 0.3)
    monkeypatch.setattr(local, "_GRACE", 0.3)


@pytest.mark.services
def test_workers_that_never_load_their_model_end_the_run(monkeypatch, impatient):
    monkeypatch.setattr(local, "work", never_ready)
    with pytest.raises(PipelineError, match=r"worker.start_failed.* 3 .*exit code -9"):
        local.run(iter([]), SimpleNamespace(output="out", shard_seconds=0), Settings(2, 1), Recorder(None))


@pytest.mark.services
def test_a_worker_that_does_not_end_is_ended(monkeypatch, impatient):
    monkeypatch.setattr(local, "work", never_ends)
    monkeypatch.setattr(local, "LOAD_SECONDS", 60)
    start = time.monotonic()
    local.run(iter([]), SimpleNamespace(output="out", shard_seconds=0), Settings(1, 1), Recorder(None))
    assert time.monotonic() - start < 30
    assert not multiprocessing.active_children()


class Recorder:
    """A listener that kills a worker when a shard has begun."""

    def __init__(self, kill):
        self.kill, self.done, self.retries = kill, [], []

    def started(self, facts):
        pass

    def progressed(self, shard, documents, words, n_bytes):
        if self.kill(shard, len(self.retries)):
            for worker in self.pool.workers:
                os.kill(worker.process.pid, signal.SIGKILL)

    def finished(self, entry, n_bytes, worker):
        self.done.append(entry.shard)

    def retried(self, shard, reason):
        self.retries.append((shard, reason))

    def failed(self, shard, reason):
        assert reason


def run_pool(monkeypatch, corpus, tmp_path, bundle, recorder):
    def engine(shards, task, settings, listener):
        recorder.pool = local._Pool(shards, task, Settings(1, 1), recorder)
        recorder.pool.run()

    monkeypatch.setattr(local, "run", engine)
    assert ENGINES["local"] == "pipelines.engines.local"
    run(corpus, tmp_path / "out", bundle)


@pytest.mark.services
def test_dead_worker_is_replaced_and_its_shard_tried_again(monkeypatch, corpus, tmp_path, tiny_bundle):
    recorder = Recorder(kill=lambda shard, retries: "-00001-" in shard and retries == 0)
    run_pool(monkeypatch, corpus, tmp_path, tiny_bundle, recorder)
    # The kill may come after the shard is committed, or while the next one runs.
    assert len(recorder.retries) <= 1
    assert len(recorder.done) == len(set(recorder.done))
    tag([corpus], tmp_path / "inline", tiny_bundle)
    assert_same_rows(all_rows(tmp_path / "out"), all_rows(tmp_path / "inline"))


@pytest.mark.services
def test_input_that_changes_after_it_was_planned_fails_its_shard_alone(monkeypatch, corpus, tmp_path, tiny_bundle):
    replaced = write_jsonl(tmp_path / "b.jsonl", documents(5, "b"))
    run_all, tries = local.run, []

    def engine(shards, task, settings, listener):
        write_jsonl(replaced, documents(5, "c"))
        monkeypatch.setattr(listener, "retried", lambda *retry: tries.append(retry))
        run_all(shards, task, settings, listener)

    monkeypatch.setattr(local, "run", engine)
    with pytest.raises(PipelineError) as caught:
        run(f"{tmp_path}/*.jsonl", tmp_path / "out", tiny_bundle)
    assert (caught.value.code, caught.value.count) == ("shards.failed", 1)
    ((failed, reason),) = caught.value.failed.items()
    assert failed.startswith("b-00000-")
    assert reason.startswith(f"[input.changed] {replaced} ")
    assert tries == []
    assert {row["source"] for row in rows(tmp_path / "out", "documents")} == {str(corpus)}
    monkeypatch.setattr(local, "run", run_all)
    run(f"{tmp_path}/*.jsonl", tmp_path / "out", tiny_bundle)
    assert {row["document_id"] for row in rows(tmp_path / "out", "documents")} >= {"c-0", "c-4"}


@pytest.mark.faults
def test_shard_that_kills_its_workers_fails_loudly_after_the_others(monkeypatch, corpus, tmp_path, tiny_bundle):
    recorder = Recorder(kill=lambda shard, retries: "-00001-" in shard)
    with pytest.raises(PipelineError, match=r"shards.failed[^\n]*\n  in-00001-") as caught:
        run_pool(monkeypatch, corpus, tmp_path, tiny_bundle, recorder)
    assert (caught.value.count, caught.value.values["tries"]) == (1, 3)
    assert [shard[:8] for shard, _ in recorder.retries] == ["in-00001"] * 2
    planned = {shard.name for shard in read_plan(f"{tmp_path}/out/plan.jsonl")}
    assert {name for name in planned if not name.startswith("in-00001")} == set(recorder.done)
    recorder.kill = lambda *shard: False
    run(corpus, tmp_path / "out", tiny_bundle)
    tag([corpus], tmp_path / "inline", tiny_bundle)
    assert_same_rows(all_rows(tmp_path / "out"), all_rows(tmp_path / "inline"))


def peak_memory(records, folder, bundle, **options):
    """The most bytes that a worker held over a job."""
    corpus = write_jsonl(folder / "in.jsonl", records)
    job = TagJob(input=[str(corpus)], output=str(folder / "out"), model=str(bundle), threads=1, **options)
    run_job(job, Console(quiet=True))
    return json.loads((folder / "out" / "report.json").read_text())["output"]["worker_peak_rss_bytes"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path, tiny_bundle):
    peaks = [
        peak_memory(documents(size), tmp_path / str(size), tiny_bundle, max_shard_bytes=20_000) for size in (300, 3000)
    ]
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_windows_of_a_document(tmp_path):
    """1 MB of short lines: splitting takes 65 MB, all windows with document context at once took 135 MB more."""
    bundle = write_tiny_bundle(tmp_path / "bundle", max_tokens=78, context=Context("document"))
    text = "He flew to Paris.\n\n" * 52_500
    small = peak_memory([{"id": "small", "text": text[:1000]}], tmp_path / "small", bundle)
    large = peak_memory([{"id": "large", "text": text}], tmp_path / "large", bundle)
    assert large - small < 125 << 20
