"""The Beam engine on Beam's bundled runner and, over the network, on its job service; real worker processes."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import apache_beam as beam
import psutil
import pytest
from apache_beam.options.pipeline_options import DirectOptions, FlinkRunnerOptions, SetupOptions, StandardOptions
from rich.console import Console

from pipelines.engines import GIVE_UP, Settings
from pipelines.engines.beam import driver as engine
from pipelines.engines.beam.pipeline import NAMESPACE, build, options_of, reason_of
from pipelines.errors import EXIT_CODES, PipelineError
from pipelines.jobs.prepare import PrepareJob
from pipelines.jobs.tag import TagJob
from pipelines.output.plan_file import line_of
from pipelines.runs.run import run_job
from tests.services.engines.beam_processes import cluster, sdk_workers
from tests.support.jobs import documents, prepare, rows, write_jsonl
from tests.support.processes import assert_all_end, finish, start, wait_for
from tests.support.rows import prepared

_run = engine.run
#: How the message ends whose way to the user the tests follow.
MESSAGE_END = PipelineError.MESSAGES["worker.other_model"].rpartition("{here}")[2].rstrip(".")


@pytest.fixture
def corpus(tmp_path):
    return write_jsonl(tmp_path / "in.jsonl", [*documents(40), {"id": "n", "text": None}])


def run(corpus, out, bundle, kind=TagJob, **options):
    values = {"max_shard_bytes": 600, "threads": 1, "engine": "beam", **options}
    console = Console(record=True, width=200)
    run_job(kind(input=[str(corpus)], output=str(out), model=str(bundle), **values), console, verbose=True)
    return console.export_text()


#: Engines know nothing of models, and workers that load none start quicker.
run_prepare = partial(run, kind=PrepareJob)


def assert_as_inline(pattern, out, bundle, folder):
    """The output of `run_prepare` holds the rows that this process writes."""
    prepare([pattern], folder / "inline", bundle)
    assert prepared(out) == prepared(folder / "inline")


def in_between(monkeypatch, change):
    """Let `change` have its way with (shards, task, settings, listener) when the job is planned and checked."""
    monkeypatch.setattr(engine, "run", lambda *given: _run(*change(*given)))


def test_two_processes_write_the_rows_of_one_and_a_shard_that_fails_costs_no_other(
    monkeypatch, corpus, tmp_path, tiny_bundle
):
    changed, out = write_jsonl(tmp_path / "b.jsonl", documents(5, "b")), tmp_path / "out"

    def change(*given):
        write_jsonl(changed, documents(5, "c"))
        (out / "todo-of-another-run.jsonl").write_text("")
        return given

    in_between(monkeypatch, change)
    message = r"shards.failed[^\n]*\n  b-00000-\w+: \[input.changed"
    with pytest.raises(PipelineError, match=message) as caught:
        run_prepare(f"{tmp_path}/*.jsonl", out, tiny_bundle, workers=2)
    assert caught.value.count == 1
    assert EXIT_CODES[caught.value.code] == 3
    assert not sdk_workers()
    assert [path.name for path in out.glob("todo*")] == ["todo-of-another-run.jsonl"]
    (failure,) = (out / "failures").iterdir()
    assert failure.name.endswith(".changed.json")
    assert json.loads(failure.read_text())["reason"].startswith("[input.changed]")
    assert_as_inline(corpus, out, tiny_bundle, tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_next_run_does_what_failed(monkeypatch, corpus, tmp_path, tiny_bundle, workers):
    lost, away, out = write_jsonl(tmp_path / "b.jsonl", documents(5, "b")), tmp_path / "away", tmp_path / "out"

    def lose(*given):
        lost.rename(away)
        return given

    in_between(monkeypatch, lose)
    with pytest.raises(PipelineError, match=r"shards.failed[^\n]*\n  b-00000-\w+: FileNotFoundError"):
        run_prepare(f"{tmp_path}/*.jsonl", out, tiny_bundle, workers=workers)
    away.rename(lost)
    monkeypatch.setattr(engine, "run", _run)
    text = run_prepare(f"{tmp_path}/*.jsonl", out, tiny_bundle, workers=workers)
    assert "runner: FnApiRunner" in text
    assert "1 to do" in text
    assert list((out / "failures").iterdir()) == []
    assert_as_inline(f"{tmp_path}/*.jsonl", out, tiny_bundle, tmp_path)


def of_another_model(shards, task, *rest):
    return shards, replace(task, model_digest="0" * 32), *rest


def test_fault_of_the_job_reaches_the_user_as_its_own_message(monkeypatch, corpus, tmp_path, tiny_bundle):
    in_between(monkeypatch, of_another_model)
    with pytest.raises(PipelineError, match=r"engine.failed.*\[worker.other_model\] ") as caught:
        run(corpus, tmp_path / "out", tiny_bundle, workers=2)
    assert "Traceback" not in str(caught.value)
    assert "0" * 32 in str(caught.value)
    assert list((tmp_path / "out" / "documents").iterdir()) == []


class _Planned(Exception):
    pass


@pytest.fixture
def planned(monkeypatch, corpus, tmp_path, tiny_bundle):
    """The shards and the task of a job that is about to run."""

    def stop(*given):
        raise _Planned(*given)

    monkeypatch.setattr(engine, "run", stop)
    with pytest.raises(_Planned) as caught:
        run(corpus, tmp_path / "out", tiny_bundle)
    shards, task, *_ = caught.value.args
    task = replace(task, lease="")  # That run is over.
    (tmp_path / "out" / "failures").mkdir()
    return list(shards), task


def pipeline_of(shards, task, folder):
    """The pipeline alone, to be run in this process."""
    (folder / "todo.jsonl").write_bytes(b"".join(map(line_of, shards)))
    pipeline = beam.Pipeline(options=options_of(Settings(1, 1)))
    build(pipeline, str(folder / "todo.jsonl"), task)
    return pipeline


@pytest.mark.default
def test_pipeline_counts_what_it_does(planned, tmp_path):
    shards, task = planned
    gone = replace(shards[0], name="gone-00000-00", source="gone")
    found = pipeline_of([*shards, gone], task, tmp_path).run().metrics().query()["counters"]
    counters = {each.key.metric.name: each.committed for each in found if each.key.metric.namespace == NAMESPACE}
    words = sum(row["n_words"] for row in rows(tmp_path / "out", "documents"))
    assert words > 1000
    assert counters == {
        "shards_done": len(shards),
        "shards_failed": 1,
        "attempts_failed": 3,
        "documents": 41,
        "words": words,
        "rejects": 1,
    }
    assert len(list((tmp_path / "out" / "manifest").iterdir())) == len(shards)
    failure = json.loads((tmp_path / "out" / "failures" / "gone-00000-00.json").read_text())
    assert failure["reason"].startswith("FileNotFoundError")


@pytest.mark.default
def test_what_beam_makes_of_a_fault_holds_our_message(planned, tmp_path):
    shards, task = planned
    with pytest.raises(RuntimeError) as caught:
        pipeline_of(shards, replace(task, model_digest="0" * 32), tmp_path).run()
    reason = reason_of(str(caught.value))
    assert reason.startswith("[worker.other_model] ")
    assert reason.rstrip(".").endswith(MESSAGE_END)


@pytest.mark.default
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--runer=FlinkRunner"], r"--runer=FlinkRunner is not an option of Beam.*: --runer=FlinkRunner"),
        (["runner=FlinkRunner"], "runner=FlinkRunner is not an option"),
        (["--runner=DirectRunner", "--parallel=3"], "--parallel=3 is not an option"),
        (["--direct_num_workers=many"], "invalid int value: 'many'"),
        (["--direct_running_mode=twice"], "invalid choice: 'twice'"),
        (["--runner=apache_beam.runners.dask.dask_runner.DaskRunner"], "DaskRunner loses rows. Use --engine dask"),
    ],
)
def test_options_that_beam_does_not_know_are_refused(given, reason):
    with pytest.raises(PipelineError, match=f"beam.bad_options.*{reason}"):
        options_of(Settings(1, 1, beam_options=tuple(given)))


@pytest.mark.default
def test_options_are_passed_through():
    given = ("--runner", "FlinkRunner", "--flink_master=host:8081", "--parallelism=8", "--only_the_job_server_knows=1")
    options = options_of(Settings(2, 1, beam_options=given))
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    assert options.view_as(FlinkRunnerOptions).flink_master == "host:8081"
    assert options.get_all_options(retain_unknown_options=True)["only_the_job_server_knows"] == "1"
    assert options.view_as(DirectOptions).direct_num_workers == 1
    assert options.view_as(SetupOptions).save_main_session is False


@pytest.mark.default
@pytest.mark.parametrize(("workers", "mode"), [(1, "in_memory"), (3, "multi_processing")])
def test_without_a_runner_beams_own_is_named(workers, mode):
    options = options_of(Settings(workers, 1))
    assert options.view_as(StandardOptions).runner == "FnApiRunner"
    assert options.view_as(DirectOptions).direct_num_workers == workers
    assert options.view_as(DirectOptions).direct_running_mode == mode
    given = options_of(Settings(workers, 1, beam_options=("--direct_num_workers=7",)))
    assert given.view_as(DirectOptions).direct_num_workers == 7


@pytest.mark.default
def test_an_output_in_memory_is_refused_before_any_process(corpus, tmp_path, tiny_bundle):
    with pytest.raises(PipelineError, match=r"output.not_shared"):
        run(corpus, f"memory://{tmp_path}/out", tiny_bundle)


@pytest.mark.default
def test_reason_without_a_message_of_ours_is_the_last_line():
    assert reason_of("RuntimeError: x\nTraceback\n  in y\nOSError: no room\n\n") == "OSError: no room"


def test_process_whose_model_is_broken_is_replaced_when_a_runner_tries_again_in_it(tmp_path):
    code = """
import sys
from types import SimpleNamespace
from pipelines.engines.beam import pipeline
from pipelines.output.plan_file import line_of
from pipelines.shards.worker import Failed
from schemas.shards import Shard
pipeline.attempt = lambda shard, task, careful: Failed("[model.broken] no luck", new_process=True)
task = SimpleNamespace(output=sys.argv[1])
tagging, line = pipeline.TagShards(task), line_of(Shard("a-00000-00", "a", "text", 0, 0, (), 1, "")).decode()
try:
    tagging.process(line)
except RuntimeError as error:
    assert str(error) == "[model.broken] no luck"
    pipeline.TagShards(task).process(line)
"""
    (tmp_path / "failures").mkdir()
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=300).returncode == 72


def test_job_service_with_a_pool_of_workers_gives_the_same_rows_and_tells_faults(
    monkeypatch, corpus, tmp_path, tiny_bundle
):
    with open(tmp_path / "log", "w") as log, cluster(log) as options:
        text = run_prepare(corpus, tmp_path / "out", tiny_bundle, beam_options=options)
        in_between(monkeypatch, of_another_model)
        with pytest.raises(PipelineError) as caught:
            run(corpus, tmp_path / "other", tiny_bundle, beam_options=options)
        assert caught.value.code == "engine.failed"
        assert caught.value.values["reason"].startswith("[worker.other_model] ")
        assert caught.value.values["reason"].endswith(MESSAGE_END)
    assert "runner: PortableRunner" in text
    assert_as_inline(corpus, tmp_path / "out", tiny_bundle, tmp_path)


def test_user_sees_one_message_and_no_traceback(corpus, tmp_path, tiny_bundle):
    words = ["tag", "--input", corpus, "--output", tmp_path / "out", "--model", tiny_bundle, "--engine", "beam"]
    text = finish(start(*words, "--workers", 1, "--device", "cuda:99"), code=1)
    *lines, message = text.splitlines()
    assert len(lines) in (2, 3), text  # the model, the work and, after a while, the progress
    assert message.startswith("spanmarker: [engine.failed] Beam ")
    assert ": [device." in message


@pytest.mark.parametrize("runner", ["NoSuchRunner", "no.such.Runner", "DataflowRunner"])
def test_runner_that_can_not_be_had_is_refused(corpus, tmp_path, tiny_bundle, runner):
    with pytest.raises(PipelineError, match=r"beam.bad_options"):
        run_prepare(corpus, tmp_path / "out", tiny_bundle, beam_options=[f"--runner={runner}"])


@pytest.mark.parametrize(("sent", "seconds"), [(signal.SIGKILL, 0), (signal.SIGTERM, 2), (signal.SIGINT, 0)])
def test_what_was_handed_in_is_cancelled_when_the_driver_ends(corpus, tmp_path, tiny_bundle, sent, seconds):
    """Also if it ends while the answer to the handing in is under way, which takes these seconds."""
    cancelled, handed_in, out = tmp_path / "CANCELLED", tmp_path / "HANDED_IN", tmp_path / "out"
    marks = {path.name: str(path) for path in (cancelled, handed_in)} | {"HANDING_IN_SECONDS": str(seconds)}
    words = ["prepare", "--input", corpus, "--output", out, "--model", tiny_bundle, "--engine", "beam"]
    driver = start(*words, "--", "--runner=tests.services.engines.cancel_runner.Runner", **marks)
    wait_for(lambda: handed_in.exists() and handed_in.read_text(), process=driver)
    runner = psutil.Process(int(handed_in.read_text()))
    driver.send_signal(sent)
    finish(driver, code={signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[sent])
    wait_for(cancelled.exists, 15)
    wait_for(lambda: not list(out.glob("todo*")), 15)
    assert_all_end([runner])


def test_a_run_ends_when_all_of_late_failed(monkeypatch, tmp_path, tiny_bundle):
    """Each shard is of a file, and all the files are gone."""
    for number in range(2 * GIVE_UP):
        write_jsonl(tmp_path / "in" / f"{number}.jsonl", documents(1))

    def change(*given):
        (tmp_path / "in").rename(tmp_path / "away")
        return given

    in_between(monkeypatch, change)
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.01)
    with pytest.raises(PipelineError, match=r"shards.failed(.|\n)*: FileNotFound") as caught:
        run_prepare(f"{tmp_path}/in/*.jsonl", tmp_path / "out", tiny_bundle)
    assert f"{GIVE_UP} failures in a row" in caught.value.values["others"]


@pytest.mark.default
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("[device.not_available] no cuda:99", "engine.failed"),
        ("[output.not_writable] output x can't be written", "engine.died"),
        ("its process ended (exit code -9: killed)", "engine.died"),
    ],
)
def test_a_fault_of_the_job_is_told_from_a_death(reason, code):
    assert engine._broken_off(reason).code == code
    assert EXIT_CODES.get(code, 1) == {"engine.failed": 1, "engine.died": 3}[code]
    assert reason in str(engine._broken_off(reason))
