"""The JSON log: every line is JSON, whatever the names, and what it tells is what happened."""

import json
import re
from datetime import UTC, datetime

import pytest

from pipelines.errors import PipelineError, ShardsFailed
from pipelines.runs.json_log import JsonLog
from tests.support.outputs import a_shard, an_entry

NASTY = 'a"b\\c\nd\r\u2028e\udcff\x00\x1b[31m😀'


def lines(path):
    """The events of a log, read by a strict reader: no lone surrogates, no NaN, one object a line."""
    content = path.read_bytes()
    assert content.endswith(b"\n")
    assert content.isascii()
    found = []
    for line in content.decode().split("\n")[:-1]:
        assert not re.search(r"(?<!\\)(\\\\)*\\ud[89a-f]..(?!\\ud)", line.replace("\\ud83d\\ude00", ""))
        found.append(json.loads(line, parse_constant=lambda name: pytest.fail(name)))
    return found


def test_every_line_is_json_whatever_the_names(tmp_path):
    path = tmp_path / "new" / "run.log"
    with JsonLog(str(path)) as log:
        log.event("run.started", job={NASTY: [NASTY, {1: (None, 2.5, True)}]})
        log.retried(NASTY, NASTY)
        log.finished(an_entry(a_shard("/in/a.jsonl")), 9, NASTY)
    started, retried, done = lines(path)
    assert 'a"b\\c\nd\r\u2028e\\udcff\x00\x1b[31m😀' in started["job"]
    assert retried["shard"] == retried["reason"] == NASTY.replace("\udcff", "\\udcff")
    assert done["counts"]["documents"] == 1
    assert done["seconds"] == {"tag": 0.5, "wait": 0.1}
    time = datetime.fromisoformat(started["time"])
    assert time.utcoffset().total_seconds() == 0
    assert abs((datetime.now(UTC) - time).total_seconds()) < 60


def test_a_log_is_added_to_and_each_line_is_there_at_once(tmp_path):
    path = tmp_path / "run.log"
    for number in range(2):
        with JsonLog(str(path)) as log:
            log.event("run.started", number=number)
            assert len(lines(path)) == number + 1


def test_standard_error(capfdbinary):
    with JsonLog("-") as log:
        log.event("run.started")
    assert json.loads(capfdbinary.readouterr().err)["event"] == "run.started"
    with JsonLog("-") as log:  # It is still open.
        log.event("run.started")


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (PipelineError("output.busy", path="x", holder="y"), "output.busy", 5),
        (KeyboardInterrupt(), "KeyboardInterrupt", 130),
        (RuntimeError("a bug"), "RuntimeError", 1),
    ],
)
def test_how_a_run_failed(tmp_path, error, code, exit_code):
    path = tmp_path / "run.log"
    with pytest.raises(type(error)), JsonLog(str(path)):
        raise error
    (failed,) = lines(path)
    assert (failed["event"], failed["code"], failed["exit_code"]) == ("run.failed", code, exit_code)
    assert failed["message"]


def test_all_shards_that_failed_are_named(tmp_path):
    error = ShardsFailed("shards.failed", count=2, total=3, tries=3, failures="")
    error.failed = {"a": "why", NASTY: "why not"}
    with pytest.raises(PipelineError), JsonLog(str(tmp_path / "run.log")):
        raise error
    first, second, end = lines(tmp_path / "run.log")
    assert (first["event"], first["shard"], first["reason"]) == ("shard.failed", "a", "why")
    assert second["shard"] == NASTY.replace("\udcff", "\\udcff")
    assert (end["code"], end["exit_code"]) == ("shards.failed", 3)


@pytest.mark.parametrize("path", ["memory://log/run.log", "{}/file/run.log", "{}"])
def test_a_log_that_can_not_be_written_is_found_out_first(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"output.not_writable"), JsonLog(path.format(tmp_path)):
        pytest.fail("the run began")


def test_a_full_disk_does_not_hide_why_a_run_failed():
    with pytest.raises(PipelineError, match=r"output.busy"), JsonLog("/dev/full"):
        raise PipelineError("output.busy", path="x", holder="y")
    with pytest.raises(PipelineError, match=r"output.not_writable.*no space left"), JsonLog("/dev/full") as log:
        log.event("run.started")
