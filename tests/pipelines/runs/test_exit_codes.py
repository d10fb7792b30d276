"""The end of a run as a scheduler sees it: too many rejects, and exit codes."""

import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.errors import PipelineError
from pipelines.jobs.reject_limit import MaxRejects
from pipelines.jobs.tag import TagJob
from pipelines.storage import sole_writer
from tests.pipelines.runs.test_json_log import lines
from tests.support.jobs import SMALL, documents, report, rows, spanmarker, tag, write_jsonl, write_two_files
from tests.support.processes import finish, start, wait_for


@pytest.fixture
def corpus(tmp_path):
    return write_two_files(tmp_path / "in")


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "101%", "%", "1e3", "", "nan%"])
def test_a_limit_that_is_none_is_refused_with_the_job(text):
    with pytest.raises(ValueError, match=r"max_rejects"):
        TagJob(input=["x"], output="y", max_rejects=text)


@pytest.mark.parametrize(
    ("text", "rejects", "documents", "too_many"),
    [
        ("0", 0, 9, False),
        ("0", 1, 9, True),
        ("10", 10, 10, False),
        ("10", 11, 900, True),
        ("1%", 1, 100, False),
        ("1%", 2, 100, True),
        ("0.5 %", 1, 199, True),
        ("100%", 9, 9, False),
        ("0%", 1, 9, True),
    ],
)
def test_how_many_rejects_are_too_many(text, rejects, documents, too_many):
    assert MaxRejects.parse(text).passed_by(rejects, documents) is too_many
    assert TagJob(input=["x"], output="y", max_rejects=text).max_rejects == text


def test_a_share_of_rejects_is_told_when_all_is_done(corpus, tmp_path, tiny_bundle):
    write_jsonl(corpus / "c.jsonl", [{"id": "n", "text": None}, b"{"])
    out = tmp_path / "out"
    for _ in range(2):  # The second time there is nothing to do.
        with pytest.raises(PipelineError) as caught:
            tag([corpus / "*"], out, tiny_bundle, max_rejects="5%", **SMALL)
        assert caught.value.code == "rejects.too_many"
        values = caught.value.values
        assert (values["rejects"], values["documents"], values["limit"], values["stopped"]) == (2, 26, "5%", "")
        assert "broken_json 1" in values["codes"]
        assert report(out)["output"]["counts"]["documents"] == 26
    assert tag([corpus / "*"], out, tiny_bundle, max_rejects="8%", **SMALL).startswith("Nothing to do")
    tag([corpus / "a.jsonl"], tmp_path / "other", tiny_bundle, max_rejects="0")


def test_a_number_of_rejects_stops_a_run_early(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in.jsonl", [{"id": n, "text": None} for n in range(200)])
    out = tmp_path / "out"
    with pytest.raises(PipelineError) as caught:
        tag([tmp_path / "in.jsonl"], out, tiny_bundle, max_rejects="30", **SMALL)
    run = report(out)["this_run"]
    assert (caught.value.code, caught.value.values["limit"]) == ("rejects.too_many", "30")
    assert f" {run['shards_left']:,} shards are left" in caught.value.values["stopped"]
    assert 0 < run["shards_run"] < run["shards_run"] + run["shards_left"]
    assert 30 < len(rows(out, "rejects")) < 100
    tag([tmp_path / "in.jsonl"], out, tiny_bundle, max_rejects="100%", **SMALL)
    assert len(rows(out, "rejects")) == 200


def test_a_file_that_can_not_be_read_is_a_reject(tmp_path, tiny_bundle):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(PipelineError, match=r"rejects.too_many.*unreadable_file 1"):
        tag([tmp_path / "x.parquet"], tmp_path / "out", tiny_bundle, max_rejects="0%")


def tagged(*arguments):
    """Run `spanmarker tag` in this process, by the engine that has no others."""
    return spanmarker("tag", "--threads", 1, "--engine", "inline", *arguments)


def ended(done, code):
    """Return the output of a command, which must end with this code."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def arguments(corpus, tmp_path, tiny_bundle):
    files = ["--metrics", tmp_path / "m.prom", "--log-json", tmp_path / "run.log"]
    return ["--input", corpus / "*", "--output", tmp_path / "out", "--model", tiny_bundle, *files]


def told(tmp_path):
    """(exit code, success) as the metrics have it, and the last line of the log."""
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families((tmp_path / "m.prom").read_text())
        for sample in family.samples
    }
    return (found["spanmarker_run_exit_code"], found["spanmarker_run_success"]), lines(tmp_path / "run.log")[-1]


def test_exit_codes_of_rejects_and_of_a_good_end(corpus, arguments, tmp_path):
    write_jsonl(corpus / "c.jsonl", [{"id": "n", "text": None}])
    for _ in range(2):
        assert "[rejects.too_many]" in ended(tagged(*arguments, "--max-rejects", "0"), 4)
        metrics, last = told(tmp_path)
        assert metrics == (4, 0)
        assert (last["event"], last["code"], last["exit_code"]) == ("run.failed", "rejects.too_many", 4)
    assert "Nothing to do" in ended(tagged(*arguments, "--max-rejects", "4%"), 0)
    metrics, last = told(tmp_path)
    assert metrics == (0, 1)
    assert (last["event"], last["reason"]) == ("run.finished", "nothing to do")


def test_exit_codes_of_faults_and_of_a_busy_output(arguments, tmp_path):
    ended(tagged("--nonsense"), 2)
    assert "5 output in use by another run" in " ".join(ended(tagged("--help"), 0).split())
    assert "[job.invalid]" in ended(tagged(*arguments, "--max-rejects", "few"), 1)
    (tmp_path / "out").mkdir()
    with sole_writer(str(tmp_path / "out"), "the test"):
        (tmp_path / "m.prom").write_text("# HELP spanmarker_run_ of the run at work")
        assert "[output.busy]" in ended(tagged(*arguments), 5)
    assert (tmp_path / "m.prom").read_text() == "# HELP spanmarker_run_ of the run at work"
    assert lines(tmp_path / "run.log")[-1]["exit_code"] == 5


@pytest.mark.services
def test_exit_code_of_a_shard_that_failed(corpus, arguments, tmp_path):
    process = start("tag", "--threads", 1, "--workers", 1, *arguments)
    # The worker imports torch and loads the model now.
    wait_for(lambda: (tmp_path / "out" / "plan.jsonl").exists(), process=process)
    write_jsonl(corpus / "b.jsonl", documents(12, "c"))
    assert "[shards.failed] 1 of 2 " in finish(process, 3)
    assert told(tmp_path)[0] == (3, 0)
    assert [line["event"] for line in lines(tmp_path / "run.log")].count("shard.failed") == 1
    assert len(list((tmp_path / "out" / "documents").iterdir())) == 1


@pytest.mark.services
def test_exit_code_of_ctrl_c(arguments, tmp_path):
    process = start("tag", "--threads", 1, *arguments)
    wait_for(lambda: (tmp_path / "out" / "plan.jsonl").exists(), process=process)
    os.killpg(process.pid, signal.SIGINT)
    # Python ends itself by the signal, which shells call 130 too, if it came while a string was being executed, as
    # where dataclasses are defined.
    text = process.communicate(timeout=300)[0]
    assert process.returncode in (130, -signal.SIGINT), text
    assert "Traceback" not in text
    metrics, last = told(tmp_path)
    assert metrics == (130, 0)
    assert (last["event"], last["exit_code"]) == ("run.failed", 130)
