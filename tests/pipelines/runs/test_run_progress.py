"""The progress of a run: what is added up, what is told to whom, and what an interruption says."""

import contextlib
import io
import json
import shlex
from dataclasses import replace

import duckdb
import pytest
from prometheus_client import generate_latest
from rich.console import Console

from pipelines.commands import status as status_command
from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.progress_file import PROGRESS, read_state
from pipelines.report import status as status_module
from pipelines.report.run_counts import RunCounts
from pipelines.runs import run_progress as module
from pipelines.runs.json_log import JsonLog
from pipelines.runs.progress import Display
from pipelines.runs.prometheus import collected
from pipelines.runs.run_progress import RunProgress
from pipelines.shards.progress import BatchProgress, ShardProgress, Throttle
from pipelines.storage import sole_writer
from tests.support.jobs import documents, spanmarker, tag, write_jsonl
from tests.support.outputs import a_shard, an_entry
from tests.support.processes import wait_for

A, B, C = (a_shard(f"/in/{name}.jsonl") for name in "abc")


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def running(tmp_path, console):
    with Display(console) as display, JsonLog(None) as log:
        yield RunProgress(str(tmp_path), 3, 300, "tag", display, log)


def numbers(progress):
    state = progress.state()
    return state.done_shards, state.done_bytes, state.documents, state.words, state.entities, state.rejects


def test_reports_within_shards_and_finished_shards_are_added_up(running):
    with running as progress:
        progress.started({"device": "cpu"})
        assert progress.state().eta_s is None
        progress.progressed(A.name, ShardProgress(2, 30, 40, 5, 1))
        progress.progressed(B.name, ShardProgress(0, 10, 20))
        assert numbers(progress) == (0, 60, 2, 40, 5, 1)
        assert progress.state().eta_s >= 0
        entry = an_entry(A)
        entry.counts.update(documents=3, words=50, rejected=1)
        entry.labels["person"] = 9
        progress.finished(entry, 100, "w")  # what was reported within it counts no more
        assert numbers(progress) == (1, 100 + 50, 3, 60, 9, 1)  # A had 2.5 times as many bytes as were reported
        progress.retried(B.name, "it died")
        assert numbers(progress) == (1, 100, 3, 50, 9, 1)
        assert progress.state().last_failure == f"{B.name}: it died"


def test_the_file_is_there_while_a_run_is_and_after_one_that_failed(running, tmp_path):
    with running as progress:
        progress.started({})
        assert read_state(str(tmp_path)).planned_shards == 3
    assert not (tmp_path / PROGRESS).exists()


def test_a_run_that_fails_leaves_the_reason(running, tmp_path):
    running.finished(an_entry(A), 100, "w")
    with pytest.raises(PipelineError), running:
        raise PipelineError("output.not_readable", path="x", reason="y")
    state = read_state(str(tmp_path))
    assert state.done_shards == 1
    assert state.error.startswith("[output.not_readable]")


def test_a_run_that_lost_its_output_leaves_the_file_to_the_other_run(running, tmp_path):

    def lose():
        (tmp_path / PROGRESS).write_text("theirs")
        raise PipelineError("output.lock_lost", path="x", holder="y")

    with pytest.raises(PipelineError), running:
        lose()
    assert (tmp_path / PROGRESS).read_text() == "theirs"


def test_an_interruption_says_what_is_kept_and_what_is_done_again(running):
    with running as progress:
        progress.started({})
        assert "0 of 3 shards" in progress.interrupted()
        progress.finished(an_entry(A), 100, "w")
        progress.progressed(B.name, ShardProgress(35, 10, 20))
        said = progress.interrupted()
        assert "1 of 3 shards" in said
        assert "1 shard under way (35 finished documents)" in said


def test_the_log_and_the_metrics_have_progress(tmp_path, console, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.02)
    path = tmp_path / "log"
    with (
        Display(console) as display,
        JsonLog(str(path)) as log,
        RunProgress(str(tmp_path), 3, 300, "tag", display, log) as progress,
    ):
        progress.started({})
        progress.progressed(A.name, ShardProgress(2, 30, 60, 5, 1))
        seen = path.read_bytes().count(b"run.progress")
        wait_for(lambda: path.read_bytes().count(b"run.progress") > seen + 1)
        metrics = generate_latest(collected("out", RunCounts(), None, None, progress.state())).decode()
    event = json.loads(path.read_text().splitlines()[-1])
    assert event["event"] == "run.progress"
    assert (event["planned_shards"], event["planned_bytes"], event["done_bytes"]) == (3, 300, 60)
    assert event["eta_s"] >= 0
    for line in ("planned_shards", "planned_bytes", "done_bytes"):
        assert f'spanmarker_run_{line}{{output="out"}} ' in metrics
    assert "spanmarker_run_eta_seconds" in metrics


def test_a_throttle_adds_up_and_loses_nothing():
    sent = []
    throttle = Throttle(sent.append, 3600)
    for _ in range(4):
        throttle.add(ShardProgress(1, 2, 3))
    assert (sent, throttle.rest) == ([ShardProgress(1, 2, 3)], ShardProgress(3, 6, 9))
    throttle.flush()
    throttle.flush()
    assert sent[1:] == [ShardProgress(3, 6, 9)]


def test_a_throttle_passes_on_that_a_worker_is_alive():
    sent = []
    always = Throttle(sent.append, 0)
    always.add(ShardProgress())
    assert sent == [ShardProgress()]


def test_a_batch_that_is_scored_twice_counts_once():
    class Group:
        told_so_far = (0, 0, 0)

        def text_bytes(self, batch):
            return 1000

        def told(self, *step):
            self.told_so_far = tuple(map(sum, zip(self.told_so_far, step, strict=True)))

    class Batch:
        group = Group()

    sent = []
    progress = BatchProgress(Batch(), 40, sent.append)
    for words in (10, 20, 25, 30):
        progress.advance(words)
    assert [step.words for step in sent] == [10, 20, 10, 0]
    assert [step.n_bytes for step in sent] == [250, 500, 250, 0]
    progress.found(3)
    assert sent[-1] == ShardProgress(entities=3)
    assert Batch.group.told_so_far == (40, 1000, 3)


@pytest.fixture
def output(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in.jsonl", [*documents(30), {"id": "n", "text": None}])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle, max_shard_bytes=1000)
    return tmp_path / "out"


def test_a_status_says_by_its_exit_code_whether_all_is_done(output):
    done = spanmarker("status", output, "--json")
    values = json.loads(done.stdout)
    assert (done.returncode, values["finished"], values["writer"], values["run"]) == (0, True, None, None)
    assert values["counts"]["documents"] == 31
    assert values["rejects"] == {"null_text": 1}
    next((output / "manifest").iterdir()).unlink()
    left = spanmarker("status", output, "--json")
    assert (left.returncode, json.loads(left.stdout)["shards"]["left"]) == (3, 1)


def test_a_status_names_the_run_that_is_writing(output, console, monkeypatch):
    with (
        Display(console) as display,
        JsonLog(None) as log,
        sole_writer(str(output), "spanmarker tag"),
        RunProgress(str(output), 3, 300, "tag", display, log) as progress,
    ):
        progress.started({})
        progress.progressed(A.name, ShardProgress(2, 30, 60, 5, 1))
        module.write_state(str(output), progress.state())
        shown = spanmarker("status", output)
        values = json.loads(spanmarker("status", output, "--json").stdout)
        assert shown.returncode == 5
        assert "Running: spanmarker tag, process " in shown.stdout
        assert "0 of 3 shards, 60 B of 300 B (20 %)" in shown.stdout
        assert values["writer"]["who"] == "spanmarker tag"
        assert values["run"]["done_bytes"] == 60
        assert values["finished"] is False
        # A machine that failed releases nothing.
        monkeypatch.setattr(status_module, "_SILENT", -1)
        assert spanmarker("status", output).returncode == 0


def test_a_status_follows_a_run_until_it_ends(output, console, monkeypatch):
    with Display(console) as display, JsonLog(None) as log, sole_writer(str(output), "spanmarker tag"):
        state = RunProgress(str(output), 3, 300, "tag", display, log).state()
        module.write_state(str(output), state)
        writing = status_module.read_status(str(output))
    ended = status_module.read_status(str(output))
    found = iter([writing, writing, ended])
    monkeypatch.setattr(status_module, "read_status", lambda path: next(found))
    monkeypatch.setattr(status_command, "_WATCH_SECONDS", 0.01)
    shown = spanmarker("status", output, "--watch")
    assert shown.returncode == 0
    assert shown.stderr.count("Running: spanmarker tag, process ") == 1  # as a line every 30 seconds
    assert next(found, None) is None


def test_a_status_says_how_the_last_run_ended(output, console):
    with Display(console) as display, JsonLog(None) as log:
        running = RunProgress(str(output), 3, 300, "tag", display, log)
        with pytest.raises(PipelineError), running:
            raise PipelineError("output.not_readable", path="x", reason="y")
    shown = spanmarker("status", output)
    assert "The last run ended at " in shown.stdout
    assert "[output.not_readable]" in shown.stdout


def test_a_run_that_looks_for_its_inputs_is_not_taken_for_the_one_that_was_killed(output, console, monkeypatch):
    with Display(console) as display, JsonLog(None) as log:
        killed = RunProgress(str(output), 3, 300, "tag", display, log).state()
    module.write_state(str(output), replace(killed, updated="2001-01-01T00:00:00+00:00", last_failure="x: y"))
    with sole_writer(str(output), "spanmarker tag"):
        found = status_module.read_status(str(output))
    assert (found.exit_code, found.state) == (5, None)
    assert len(found.run_lines()) == 1


def test_a_run_without_work_removes_the_progress_of_the_one_that_was_killed(output, tmp_path, tiny_bundle, console):
    with Display(console) as display, JsonLog(None) as log:
        module.write_state(str(output), RunProgress(str(output), 3, 300, "tag", display, log).state())
    (output / "report.json").unlink()  # as if it was killed while it wrote the report
    tag([tmp_path / "in.jsonl"], output, tiny_bundle, max_shard_bytes=1000)
    assert read_state(str(output)) is None


def test_a_run_that_lost_its_lock_writes_no_progress(tmp_path, console, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    looked = []

    def lost():
        looked.append(1)
        raise PipelineError("output.lock_lost", path=tmp_path, holder="another")

    path = tmp_path / PROGRESS
    with (
        contextlib.suppress(KeyboardInterrupt),
        Display(console) as display,
        JsonLog(None) as log,
        RunProgress(str(tmp_path), 3, 300, "tag", display, log, lost),
    ):
        path.write_text("of the other run")
        wait_for(lambda: len(looked) > 1)
        raise KeyboardInterrupt
    assert path.read_text() == "of the other run"


def test_the_first_and_last_lines_speak_to_the_user(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", [*documents(4), {"id": "n", "text": None}])
    output = tmp_path / "the reader's"
    first, second, *others = tag([corpus], output, tiny_bundle, threshold=0.0).splitlines()
    assert first.startswith("Model: ")
    assert "labels" in first
    assert second.startswith("1 file, ")
    assert ", 1 shard. 1 worker with " in second
    text = "\n".join(others)
    assert "device" not in text
    assert f"Rejects: null_text 1. Each with its reason: {output / 'rejects'}" in text
    assert "Most frequent labels: " in text
    browse, query = (shlex.split(line) for line in others[-2:])
    assert browse == ["spanmarker", "browse", str(output)]
    assert query[:2] == ["duckdb", "-c"]
    assert duckdb.sql(query[2]).fetchall()


def test_files_of_a_plan_are_counted(tmp_path, tiny_bundle):
    for number in range(3):
        write_jsonl(tmp_path / "in" / f"{number}.jsonl", documents(20))
    (tmp_path / "in" / "a.txt").write_text("Obama flew to Paris.")
    (tmp_path / "in" / "b.txt").write_text("Obama flew to Paris.")
    text = tag([tmp_path / "in"], tmp_path / "out", tiny_bundle, max_shard_bytes=600)
    assert "\n5 files, " in text
    assert len(DigestSet.of(path.stem for path in (tmp_path / "out" / "manifest").iterdir())) > 5
