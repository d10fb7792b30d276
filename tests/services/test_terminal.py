"""Commands in a terminal: what is on the screen while they work, and what Ctrl-C and SIGTERM leave there."""

import json
import re
import signal
import subprocess
import sys

import pytest

from tests.support.jobs import slow_documents, write_jsonl
from tests.support.processes import environment, finish, shards_done, start, wait_for, wait_for_shards
from tests.support.terminal import Terminal


@pytest.fixture
def job(tmp_path, tiny_bundle):
    corpus = write_jsonl(tmp_path / "in.jsonl", slow_documents(150))
    return ["tag", "--input", corpus, "--output", tmp_path / "out", "--model", tiny_bundle, "--max-shard-bytes", 4000]


@pytest.mark.timeout(600)
def test_a_terminal_shows_a_bar_with_the_remaining_time(job):
    terminal = Terminal(*job, killers=True)
    assert terminal.end() == 0, terminal.text
    text = terminal.text
    assert re.search(r"(^|[\r\n])Model: ", text)
    bar = re.search(r"tagging [━╸╺ ]+\d+ %  \d:\d\d elapsed, about \d:\d\d left", text)
    assert bar, text
    assert re.search(r"\d+ of \d+ shards, \d+ documents?, \d+ entit(y|ies), [\d,]+ words/s", text)
    assert "loading the model" in text
    # The bar is drawn again and again, also while nothing is finished.
    assert len(set(re.findall(r"loading the model [━╸╺ ]+(\d+:\d\d) elapsed", text))) > 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_says_what_is_kept_and_how_to_continue(job, tmp_path, number, code):
    terminal = Terminal(*job, killers=True)
    terminal.read(lambda text: shards_done(tmp_path / "out") >= 1 and "documents" in text)
    terminal.process.send_signal(number)
    assert terminal.end() == code
    last = terminal.text[-2000:]
    done = shards_done(tmp_path / "out")
    assert re.search(rf"{done} of \d+ shards of this run (is|are) done and kept", last), last
    command = last[last.index("  spanmarker tag --input") :].split()
    assert command[1:] == [str(word) for word in job]
    status = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "status", str(tmp_path / "out"), "--json"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert status.returncode == 3
    found = json.loads(status.stdout)
    assert found["shards"]["done"] == done
    assert "done and kept" in found["run"]["error"]


@pytest.mark.timeout(600)
def test_a_log_on_standard_error_is_all_that_is_written(job):
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *map(str, job), "--log-json", "-"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (0, "")
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert (events[0], events[-1]) == ("run.started", "run.finished")


@pytest.mark.timeout(600)
def test_quiet_is_quiet_and_verbose_names_the_device(job):
    assert finish(start(*job, "--quiet")) == ""
    assert "device: cpu" in finish(start(*job, "--force", "--verbose"))


@pytest.mark.timeout(600)
def test_a_status_shows_a_run_in_another_process(job, tmp_path):
    run = start(*job, killers=True)
    wait_for_shards(tmp_path / "out", 1, run)
    wait_for(lambda: (tmp_path / "out" / "progress.json").exists(), process=run)
    status = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "status", str(tmp_path / "out"), "--json"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert status.returncode == 5
    assert json.loads(status.stdout)["writer"]["pid"] == run.pid
    finish(run)
