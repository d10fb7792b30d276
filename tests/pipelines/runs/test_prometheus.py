"""The metrics file, as Prometheus' own parser reads it."""

import shutil
import time

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.errors import PipelineError, ShardsFailed
from pipelines.output.digest_set import DigestSet
from pipelines.output.progress_file import RunState
from pipelines.report.run_counts import RunCounts
from pipelines.report.run_values import RunFacts, report_values
from pipelines.report.totals import Totals
from pipelines.runs import prometheus as module
from pipelines.runs.prometheus import GAUGES, Metrics, collected
from tests.support.outputs import a_shard, an_entry

NASTY = 'a"b\\c\nd\\n{},=\u2028 😀'


def read(content: bytes) -> dict[tuple[str, tuple], float]:
    """(name without its prefix, labels but for the output) -> value."""
    found = {}
    for family in text_string_to_metric_families(content.decode()):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            own = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "output"))
            assert "output" in sample.labels
            key = sample.name.removeprefix("spanmarker_"), own
            assert key not in found
            found[key] = sample.value
    return found


def exposition(*values) -> bytes:
    return generate_latest(collected(*values))


def counted() -> RunCounts:
    counts = RunCounts(skipped=4, started_at=1_700_000_000.5)
    counts.started({"device": "cpu"})
    entry = an_entry(a_shard("/in/a.jsonl"))
    entry.counts.update(rejected=3, unreadable=1, words=500)
    entry.labels[NASTY] = 2
    entry.reject_codes["null_text"] = 4
    counts.finished(entry, 9, "w")
    counts.retried("x", "y")
    counts.seconds = 2.0
    return counts


def the_values(counts):
    totals = Totals()
    entry = an_entry(a_shard("/in/a.jsonl"))
    entry.labels[NASTY] = 2
    totals.add(entry)
    totals.add(entry)
    facts = RunFacts({}, {}, "", counts, 0, DigestSet.of([]), 0, 0, [])
    return report_values(facts, totals)


def test_what_a_run_did_and_what_its_output_holds():
    counts = counted()
    found = read(exposition(NASTY, counts, the_values(counts), (None,)))
    assert found["run_shards", (("state", "run"),)] == 1
    assert found["run_shards", (("state", "skipped"),)] == 4
    assert found["run_shards", (("state", "failed"),)] == 0
    assert found["run_retries", ()] == 1
    assert found["run_documents", (("status", "rejected"),)] == 3
    assert found["run_documents", (("status", "tagged"),)] == 1
    assert found["run_entities", (("label", NASTY),)] == 2
    assert found["run_rejects", (("code", "null_text"),)] == 4
    assert found["run_all_rejects", ()] == 4
    assert found["run_words", ()] == 500
    assert found["run_words_per_second", ()] == 250
    assert found["run_stage_seconds", (("stage", "tag"),)] == 0.5
    assert found["run_start_timestamp_seconds", ()] == 1_700_000_000.5
    assert found["run_finish_timestamp_seconds", ()] == pytest.approx(time.time(), abs=60)
    assert (found["run_success", ()], found["run_exit_code", ()]) == (1, 0)
    assert found["output_documents", (("status", "tagged"),)] == 2
    assert found["output_entities", (("label", NASTY),)] == 4
    assert found["output_shards", ()] == 2
    state = RunState("", "", 1, 0, 9, 4, 2, 500, 3, 0, 250.0, 7.5)
    several = [collected(NASTY, counts, the_values(counts), end, state) for end in (None, (None,))]
    names = {family.name for metrics in several for family in metrics.collect()}
    assert names == {f"spanmarker_{name}" for name in GAUGES}  # none is declared in vain


@pytest.mark.parametrize(("output", "label"), [(NASTY, NASTY), ("a\udcff", "a\\udcff")])
def test_every_series_names_the_output_as_it_is(output, label):
    content = exposition(output, counted(), None, None)
    assert b"\\u" not in content.replace(rb"\\", b"")  # the format has no such escape
    for family in text_string_to_metric_families(content.decode()):
        assert {sample.labels["output"] for sample in family.samples} <= {label}


def test_a_run_that_goes_on_has_no_end():
    found = read(exposition("o", counted(), None, None))
    assert found["run_success", ()] == 0
    names = {name for name, _ in found}
    assert names.isdisjoint({"run_finish_timestamp_seconds", "run_exit_code", "output_shards"})


def failed_shards():
    error = ShardsFailed("shards.failed", count=2, total=9, tries=3, others="", failures="")
    error.failed, error.count = {"a": "x"}, 2
    return error


def end_with(error, path, meanwhile=lambda: None):
    """A run that ends with this error, None for well."""
    with Metrics(str(path), "o", counted()) as metrics:
        metrics.begin()
        assert ("run_success", ()) in read(path.read_bytes())
        meanwhile()
        if error is not None:
            raise error


NO_BUCKET = PipelineError("url.no_bucket", bucket="b")


@pytest.mark.parametrize(
    ("error", "code"), [(failed_shards(), 3), (KeyboardInterrupt(), 130), (RuntimeError(), 1), (NO_BUCKET, 1)]
)
def test_the_file_is_written_whatever_the_outcome(tmp_path, error, code):
    path = tmp_path / "run.prom"
    with pytest.raises(type(error)):
        end_with(error, path)
    found = read(path.read_bytes())
    assert (found["run_success", ()], found["run_exit_code", ()]) == (0, code)
    assert found["run_shards", (("state", "failed"),)] == (2 if code == 3 else 0)


def test_the_file_is_written_while_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.02)
    path, counts = tmp_path / "run.prom", RunCounts()
    with Metrics(str(path), "o", counts) as metrics:
        metrics.begin()
        assert read(path.read_bytes())["run_words", ()] == 0
        counts.finished(an_entry(a_shard("/in/a.jsonl")), 9, "w")
        deadline = time.monotonic() + 30
        while read(path.read_bytes())["run_words", ()] == 0:  # never torn: it is replaced as a whole
            assert time.monotonic() < deadline
    assert [found.name for found in tmp_path.iterdir()] == ["run.prom"]


def test_a_file_that_can_not_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    metrics = Metrics(f"{tmp_path}/file/x", "o", RunCounts())
    with pytest.raises(PipelineError, match=r"output.not_writable"):
        metrics.begin()
    folder = tmp_path / "folder"
    for error, code in ((None, r"output.not_writable"), (NO_BUCKET, r"url.no_bucket")):
        folder.mkdir()
        with pytest.raises(PipelineError, match=code):
            end_with(error, folder / "x", lambda: shutil.rmtree(folder))


@pytest.mark.parametrize("code", ["output.busy", "output.lock_lost"])
def test_a_run_that_has_not_its_output_leaves_the_file_to_the_one_that_has(tmp_path, code):
    path = tmp_path / "run.prom"
    path.write_text("of the run at work")
    with pytest.raises(PipelineError, match=code), Metrics(str(path), "o", counted()):
        raise PipelineError(code, path="o", holder="another")
    assert path.read_text() == "of the run at work"
