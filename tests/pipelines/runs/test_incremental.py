"""Scheduled runs: the shards that a second run does, the reasons, and the shards that it removes."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from pipelines.engines import failure
from pipelines.errors import PipelineError
from pipelines.output import compaction, manifest
from pipelines.output import pending_shards as work
from pipelines.output import reconcile as reconciling
from pipelines.runs import run as running
from pipelines.storage import publish_bytes
from spanmarker_core.errors import CodedError
from tests.pipelines.runs.test_json_log import lines
from tests.support import inline_engine
from tests.support.jobs import (
    SMALL,
    all_rows,
    assert_same_rows,
    documents,
    report,
    rows,
    tag,
    write_jsonl,
    write_two_files,
)


@pytest.fixture
def corpus(tmp_path):
    return write_two_files(tmp_path / "in")


def test_the_log_and_the_report_say_why_each_shard_is_done(corpus, tmp_path, tiny_bundle):
    out, log = tmp_path / "out", tmp_path / "run.log"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    changed = documents(12, "a")
    changed[11]["text"] += " Paris"
    write_jsonl(corpus / "a.jsonl", changed)
    write_jsonl(corpus / "c.jsonl", documents(1, "c"))
    next((out / "documents").glob("b-00000-*")).unlink()
    text = tag([corpus / "*"], out, tiny_bundle, log_json=str(log), **SMALL)
    assert "3 to do (1 output lost or damaged, 1 content changed, 1 new)" in text
    events = lines(log)
    assert [event["event"] for event in (events[0], events[1], events[-1])] == [
        "run.started",
        "shard.skipped" if events[1]["event"] == "shard.skipped" else "workers.started",
        "run.finished",
    ]
    queued = {event["shard"][:1]: event["reason"] for event in events if event["event"] == "shard.queued"}
    assert queued == {"a": "content changed", "b": "output lost or damaged", "c": "new"}
    skipped = [event for event in events if event["event"] == "shard.skipped"]
    assert {event["reason"] for event in skipped} == {"skipped: done"}
    done = {event["shard"]: event for event in events if event["event"] == "shard.done"}
    assert {name[:1] for name in done} == {"a", "b", "c"}
    assert all(event["worker"] == "here" and event["seconds"]["tag"] > 0 for event in done.values())
    run = report(out)["this_run"]
    assert run["shards_by_reason"] == {"output lost or damaged": 1, "content changed": 1, "new": 1}
    assert run["shards_done_before"] == len(skipped) == events[-1]["shards_skipped"]
    assert "| content changed | 1 |" in (out / "report.md").read_text()

    tag([corpus / "*"], out, tiny_bundle, log_json=str(log), **SMALL)
    again = lines(log)[len(events) :]
    assert {event["event"] for event in again} == {"run.started", "shard.skipped", "run.finished"}
    assert again[-1]["reason"] == "nothing to do"
    assert len(again) == len(skipped) + len(done) + 2


def test_secrets_of_options_are_nowhere(corpus, tmp_path, tiny_bundle, capfd):
    out, log = tmp_path / "out", tmp_path / "run.log"
    options = {"storage_option": ["s3.secret=hush hush"], "log_json": str(log), "metrics": str(tmp_path / "m.prom")}
    tag([corpus / "*"], out, tiny_bundle, metrics_push="http://name:hush@127.0.0.1:1", **options)
    events = lines(log)
    assert events[0]["job"]["storage_option"] == ["s3.secret"]
    assert events[0]["job"]["metrics_push"] == "http://…@127.0.0.1:1"
    # Nothing listens there: that is a warning, and the run succeeds.
    assert [event["code"] for event in events if event["event"] == "run.warning"] == ["metrics.not_pushed"]
    assert events[-1]["exit_code"] == 0
    printed = capfd.readouterr().err
    assert printed.count("[metrics.not_pushed]") == 1
    assert "hush" not in printed
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"hush" not in path.read_bytes(), path


def test_prune_removes_rows_of_inputs_that_are_gone(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    (corpus / "a.jsonl").unlink()
    kept = all_rows(out)
    assert "of inputs that no longer exist" in tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert all_rows(out) == kept
    text = tag([corpus / "*"], out, tiny_bundle, prune=True, **SMALL)
    assert "removed because the input no longer exists" in text
    assert "Removed: 12 documents of inputs that no longer exist" in text
    found = report(out)
    assert found["this_run"]["documents_pruned"] == 12
    assert found["output"]["counts"]["documents"] == 12
    assert f"{found['this_run']['shards_pruned']} removed (12 documents)" in (out / "report.md").read_text()
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **SMALL)
    assert all_rows(out) == all_rows(tmp_path / "clean")
    assert tag([corpus / "*"], out, tiny_bundle, prune=True, **SMALL).startswith("Nothing to do")


def test_force_replaces_the_rows_of_another_job(corpus, tmp_path, tiny_bundle, monkeypatch):
    monkeypatch.setattr(compaction, "COMPACT_AT", 2)
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    with pytest.raises(PipelineError, match=r"output.other_job"):
        tag([corpus / "a.jsonl"], out, tiny_bundle, decoder="all.v1", **SMALL)
    with pytest.raises(PipelineError, match=r"input.no_match"):  # A mistake in a forced job costs nothing.
        tag([corpus / "z"], out, tiny_bundle, decoder="all.v1", force=True)
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    text = tag([corpus / "a.jsonl"], out, tiny_bundle, decoder="all.v1", force=True, **SMALL)
    assert "forced)" in text
    assert "removed because of --force" in text
    tag([corpus / "a.jsonl"], tmp_path / "clean", tiny_bundle, decoder="all.v1", **SMALL)
    assert all_rows(out) == all_rows(tmp_path / "clean")
    assert (out / "job.json").read_text() == (tmp_path / "clean" / "job.json").read_text()


def test_force_does_not_take_what_is_somebody_elses(corpus, tmp_path, tiny_bundle):
    mine = tmp_path / "out" / "documents" / "mine.parquet"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(PipelineError, match=r"output.foreign"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle, force=True)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("end", ["failed", "interrupted", "bug"])
def test_no_table_shows_half_a_shard_after_a_run_that_failed(corpus, tmp_path, tiny_bundle, monkeypatch, end):
    out, run = tmp_path / "out", inline_engine.run

    def engine(shards, task, settings, listener):
        first, second = next(shards), next(shards)
        run(iter([first]), task, settings, listener)
        publish_bytes(manifest.join(task.output, "annotations", f"{second.name}.parquet"), b"half")
        raise {
            "failed": failure({second.name: "why"}, 2),
            "interrupted": KeyboardInterrupt(),
            "bug": RuntimeError("a bug"),
        }[end]

    monkeypatch.setattr(inline_engine, "run", engine)
    log = tmp_path / "run.log"
    with pytest.raises((CodedError, KeyboardInterrupt, RuntimeError)):
        tag([corpus / "*"], out, tiny_bundle, log_json=str(log), **SMALL)
    assert len(list((out / "annotations").iterdir())) == (2 if end == "bug" else 1)
    assert [event["reason"] for event in lines(log) if event["event"] == "shard.failed"] == ["why"] * (end == "failed")
    assert not (out / "report.json").exists()
    monkeypatch.setattr(inline_engine, "run", run)
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **SMALL)
    assert all_rows(out) == all_rows(tmp_path / "clean")


def test_an_engine_that_loses_shards_is_not_believed(corpus, tmp_path, tiny_bundle, monkeypatch):
    monkeypatch.setattr(inline_engine, "run", lambda shards, task, settings, listener: list(shards))
    with pytest.raises(PipelineError, match=r"output.not_readable.*entries of .* finished shards are missing"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle)
    assert not (tmp_path / "out" / "report.json").exists()


class Deaf:
    """A driver that is gone."""

    started = progressed = finished = retried = failed = lambda *_: None


@pytest.fixture
def orphan(corpus, tmp_path, tiny_bundle, monkeypatch):
    """Starts an engine that hands out all shards of a run whose driver then dies; returns (shards, task)."""

    def start(**options):
        handed = []

        def engine(shards, task, settings, listener):
            handed.extend([list(shards), task])
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(inline_engine, "run", engine)
            with pytest.raises(KeyboardInterrupt):
                tag([corpus / "*"], tmp_path / "out", tiny_bundle, **SMALL, **options)
        return handed

    return start


@pytest.mark.parametrize("late", ["before it publishes", "after its last look"])
@pytest.mark.parametrize("then", ["another cut", "another job"])
def test_a_worker_of_a_dead_driver_doubles_no_rows(corpus, tmp_path, tiny_bundle, monkeypatch, orphan, late, then):
    shards, task = orphan()
    options = SMALL if then == "another cut" else {**SMALL, "decoder": "all.v1", "force": True}
    if then == "another cut":
        write_jsonl(corpus / "c.jsonl", documents(2, "c"))
        (corpus / "a.jsonl").rename(tmp_path / "a.jsonl")
        write_jsonl(corpus / "a.jsonl", [{"id": "a-new", "text": "Paris"}, *documents(12, "a")])
    run = inline_engine.run

    def engine(mine, my_task, settings, listener):
        now = (corpus / "a.jsonl").read_bytes()
        if then == "another cut":  # It read its input before that changed.
            (corpus / "a.jsonl").write_bytes((tmp_path / "a.jsonl").read_bytes())
        old = iter(shard for shard in shards if shard.source.endswith("a.jsonl"))
        if late == "after its last look":
            run(old, replace(task, lease=""), settings, Deaf)
        else:
            with pytest.raises(PipelineError) as caught:
                run(old, task, settings, Deaf)
            assert caught.value.code == "output.lock_lost"
            assert str(caught.value.values["holder"]).startswith("spanmarker tag")
            assert not list((tmp_path / "out" / "documents").iterdir())
        (corpus / "a.jsonl").write_bytes(now)
        run(mine, my_task, settings, listener)

    with monkeypatch.context() as patch:
        patch.setattr(inline_engine, "run", engine)
        tag([corpus / "*"], tmp_path / "out", tiny_bundle, **options)
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **options)
    assert all_rows(tmp_path / "out") == all_rows(tmp_path / "clean")
    assert report(tmp_path / "out")["output"]["counts"] == report(tmp_path / "clean")["output"]["counts"]
    assert len(list((tmp_path / "out" / "manifest").iterdir())) == len(
        list((tmp_path / "clean" / "manifest").iterdir())
    )


def test_a_worker_whose_driver_has_ended_stops_even_if_no_other_run_begins(tmp_path, orphan):
    shards, task = orphan()
    with pytest.raises(PipelineError, match=r"output.lock_lost.*nobody"):
        inline_engine.run(iter(shards), task, None, Deaf)
    assert not list((tmp_path / "out" / "rejects").iterdir())


def test_a_run_that_lost_its_lock_hands_out_no_more_shards(corpus, tmp_path, tiny_bundle, monkeypatch):
    taken = []

    def engine(shards, task, settings, listener):
        taken.append(next(shards))
        (tmp_path / "out" / ".lock").unlink()
        taken.append(next(shards))

    monkeypatch.setattr(running, "_CHECK_SECONDS", -1.0)
    monkeypatch.setattr(inline_engine, "run", engine)
    with pytest.raises(PipelineError, match=r"output.lock_lost"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle, **SMALL)
    assert len(taken) == 1


@pytest.mark.parametrize(
    "step", [(running, "remove"), (reconciling, "keep_only"), (reconciling, "_remove_outputs"), (work, "PendingShards")]
)
def test_a_crash_amid_removals_leaves_no_report_that_is_false(corpus, tmp_path, tiny_bundle, monkeypatch, step):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    (corpus / "b.jsonl").unlink()

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*step, crash)
        with pytest.raises(KeyboardInterrupt):
            tag([corpus / "*"], out, tiny_bundle, prune=True, **SMALL)
    tag([corpus / "*"], out, tiny_bundle, prune=True, **SMALL)
    assert report(out)["output"]["counts"]["documents"] == len(rows(out, "documents")) == 12


def test_the_report_tells_of_orphans_as_they_are_now(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert report(out)["this_run"]["documents_orphaned"] == 0
    for name in "ab":  # as many shards, but others
        (corpus / f"{name}.jsonl").rename(tmp_path / name)
        tag([corpus / "*"], out, tiny_bundle, **SMALL)
        found = report(out)["this_run"]
        assert found["documents_orphaned"] == 12
        assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
        assert report(out)["this_run"] == found
        (tmp_path / name).rename(corpus / f"{name}.jsonl")
    before = report(out)["this_run"]["orphaned_digest"]
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert report(out)["this_run"]["orphaned_digest"] != before
    assert report(out)["this_run"]["documents_orphaned"] == 0


def test_a_report_of_another_shape_is_made_anew(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle)
    (out / "report.json").write_text('{"this_run": {"shards_left": 0}, "output": {"counts": {"a": 1}}}')
    tag([corpus / "*"], out, tiny_bundle)
    assert report(out)["output"]["counts"]["documents"] == 24


def test_the_engines_own_word_is_taken_for_what_it_runs_on(corpus, tmp_path, tiny_bundle, monkeypatch):
    run = inline_engine.run

    def engine(shards, task, settings, listener):
        started = listener.started
        monkeypatch.setattr(listener, "started", lambda facts: started({**facts, "workers": "7 elsewhere"}))
        run(shards, task, settings, listener)

    monkeypatch.setattr(inline_engine, "run", engine)
    log = tmp_path / "run.log"
    tag([corpus / "*"], tmp_path / "out", tiny_bundle, log_json=str(log), threads=3)
    machine = {"device": "cpu", "workers": "7 elsewhere", "threads per worker": "3"}
    assert report(tmp_path / "out")["machine"] == machine
    assert [event["machine"] for event in lines(log) if event["event"] == "workers.started"] == [machine]


def test_entries_in_the_table_change_nothing(corpus, tmp_path, tiny_bundle, monkeypatch):
    monkeypatch.setattr(compaction, "COMPACT_AT", 2)
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert [path.name for path in (out / "manifest").iterdir()] == ["entries.parquet"]
    before = report(out)["output"]
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    write_jsonl(corpus / "a.jsonl", documents(14, "a"))
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert report(out)["output"]["counts"]["documents"] == before["counts"]["documents"] + 2
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **SMALL)
    assert_same_rows(all_rows(out), all_rows(tmp_path / "clean"))
    tabled = pq.read_table(out / "manifest" / "entries.parquet")["shard"].to_pylist()
    loose = [path.stem for path in (out / "manifest").glob("*.json")]
    assert sorted(tabled + loose) == sorted(path.stem for path in (out / "documents").iterdir())
    assert tabled
    assert loose
