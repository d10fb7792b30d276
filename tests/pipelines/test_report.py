"""The run report and the progress that a run shows."""

import io
import json

from rich.console import Console

from pipelines.listeners import RunCounts
from pipelines.names import NameSet
from pipelines.progress import ProgressDisplay
from pipelines.report.run import MAX_WORKERS, RunFacts, report_json, report_values
from pipelines.report.run_markdown import report_markdown
from pipelines.report.totals import Totals
from tests.pipelines.made import a_shard, an_entry

NASTY = "a|b`c\r\n# d\u2028<e>"
ESCAPED = "a\\|b\\`c # d \\<e\\>"


def values(example=NASTY, counts=None):
    if counts is None:
        counts = RunCounts(machine={"device": "cpu"}, shards=1, seconds=2.0)
    facts = RunFacts(
        command={"input": [example]},
        identity={"text_column": example},
        started="2026-01-01T00:00:00+00:00",
        counts=counts,
        superseded=0,
        orphaned=NameSet.of([]),
        orphaned_documents=0,
        duplicates=1,
        duplicate_examples=[example],
    )
    reject = {"document_id": example, "source": "/in.jsonl", "source_row": 1000, "code": "bad_id", "message": example}
    totals = Totals(reject_examples=[reject])
    totals.labels[example] = 1
    return report_values(facts, totals)


def test_ids_and_messages_can_not_break_the_page():
    page = report_markdown(values()).decode()
    lines = page.splitlines()
    assert f"| {ESCAPED} | /in.jsonl | 1,000 | bad\\_id | {ESCAPED} |" in lines
    assert f"| {ESCAPED} | 1 |" in lines
    assert f"| text\\_column | {ESCAPED} |" in lines
    assert any(line.endswith(f"in another shard: 1, {ESCAPED}.") for line in lines)
    assert not any(line.startswith("# d") for line in lines)


def test_what_each_worker_did_is_told_of_those_that_did_most():
    counts = RunCounts()
    for number in range(MAX_WORKERS + 3):
        for _ in range(2 if number == 7 else 1):
            counts.finished(an_entry(a_shard("/in/a.jsonl")), 9, f"w|{number:02}")
    found = values(counts=counts)
    workers = found["this_run"]["workers"]
    assert len(workers) == MAX_WORKERS
    assert workers[0] == {"worker": "w|07", "shards": 2, "words": 2, "seconds": 1.2, "words_per_second": 1.7}
    page = report_markdown(found).decode()
    assert "| w\\|07 | 2 | 2 | 1.2 | 1.7 |" in page
    assert "And 3 workers with fewer words." in page
    assert "workers with fewer words" not in report_markdown(values()).decode()


def test_names_without_utf8_can_be_reported():
    assert json.loads(report_json(values("a\udcff")))["job"]["input"] == ["a\udcff"]
    assert "a\\udcff" in report_markdown(values("a\udcff")).decode()


def test_a_terminal_is_told_that_tagging_began():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with ProgressDisplay(console, "1 shard", 100) as display:
        (bar,) = display._progress.tasks
        assert bar.description == "loading the model"
        display.started({"device": "cpu"})
        assert bar.description == "tagging"
        display.progressed("a", 0, 500, 40)
        assert bar.completed == 40
        assert bar.description.startswith("0 documents, ")
        display.finished(an_entry(a_shard("/in/b.jsonl")), 10, "w")
        display.failed("a", "for good")
        assert bar.completed == 10
