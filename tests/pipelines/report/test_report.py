"""The run report and the progress that a run shows."""

import json
import shlex
from collections import Counter

import pyarrow as pa

from pipelines.output.digest_set import DigestSet
from pipelines.report.entities import EntityCounts, describe_entities
from pipelines.report.run_counts import RunCounts
from pipelines.report.run_markdown import report_markdown
from pipelines.report.run_values import MAX_WORKERS, RunFacts, report_json, report_values
from pipelines.report.sources import SourceCounts
from pipelines.report.totals import MAX_SHARDS, Totals
from spanmarker_core.evaluation.density import DevDensity
from tests.support.outputs import a_shard, an_entry

NASTY = "a|b`c\r\n# d\u2028<e>"
ESCAPED = "a\\|b\\`c # d \\<e\\>"


def storable(text):
    """A text as rows can hold it."""
    return text.encode("utf-8", "replace").decode()


def values(example=NASTY, counts=None):
    if counts is None:
        counts = RunCounts(machine={"device": "cpu"}, shards=1, seconds=2.0)
        counts.throughput.add(0, 3, 300)
    facts = RunFacts(
        command={"input": [example]},
        identity={"text_column": example},
        started="2026-01-01T00:00:00+00:00",
        counts=counts,
        superseded=0,
        orphaned=DigestSet.of([]),
        orphaned_documents=0,
        duplicates=1,
        duplicate_examples=[example],
        line=f"spanmarker tag --input {shlex.quote(example)}",
        reasons={"new": 1},
        **dict(zip(("found", "density"), found_and_density(storable(example)), strict=True)),
    )
    reject = {"document_id": example, "source": "/in.jsonl", "source_row": 1000, "code": "bad_id", "message": example}
    totals = Totals()
    entry = an_entry(a_shard(f"/in/{example}.jsonl"))
    totals.add(entry)
    totals.reject_examples.append(reject)
    totals.reject_codes["bad_id"] = 1
    totals.labels = Counter({example: 1})
    totals.versions[example] = 1
    return report_values(facts, totals)


FACTS = RunFacts(
    command={},
    identity={},
    started="2026-01-01T00:00:00+00:00",
    counts=RunCounts(),
    superseded=0,
    orphaned=DigestSet.of([]),
    orphaned_documents=0,
    duplicates=None,
    duplicate_examples=[],
)


def found_and_density(example):
    """What rows come to that hold hostile labels, texts and sources."""
    found, sources = EntityCounts(), SourceCounts()
    columns = [pa.array([example] * 3, pa.large_string()), pa.array([0.1, 0.5, 1], pa.float32())]
    found.add(pa.RecordBatch.from_arrays([*columns, columns[0]], ["label", "score", "text"]))
    entry = an_entry(a_shard(f"/in/{example}.jsonl"))
    entry.counts.update(words=10_000, entities=3)
    sources.add(entry)
    dev = DevDensity(60_000, 3_000, 60, 1.2, False, "flat.v1", "None", "off")
    return describe_entities(found, 1, 2, 6), sources.described(dev, lambda: [entry.source])


def test_ids_and_messages_can_not_break_the_page():
    page = report_markdown(values()).decode()
    lines = page.splitlines()
    assert f"| {ESCAPED} | /in.jsonl | 1,000 | bad\\_id | {ESCAPED} |" in lines
    assert f"| {ESCAPED} | 1 |" in lines
    assert f"| text\\_column | {ESCAPED} |" in lines
    assert any(line.endswith(f"in another shard: 1, {ESCAPED}.") for line in lines)
    assert not any(line.startswith("# d") for line in lines)


def test_a_reject_without_an_id_has_an_empty_one():
    made = values()
    made["output"]["rejects"]["examples"][0]["document_id"] = None
    assert "|  | /in.jsonl | 1,000 | bad\\_id |" in report_markdown(made).decode()


def test_texts_and_sources_can_not_break_the_page():
    lines = report_markdown(values()).decode().splitlines()
    assert f"| {ESCAPED} | 0.5333 | {ESCAPED} 3 | exact |" in lines
    source = next(line for line in lines if line.endswith("| too few entities |"))
    assert source.startswith(f"| /in/{ESCAPED}.jsonl | 10,000 | 3 | 0.3 | ")
    assert "**Alarm: of 1 sources, 1 has too few entities" in "\n".join(lines)
    assert "    spanmarker tag --input 'a|b`c # d <e>'" in lines
    assert "3 of 6 rows, in 1 of 2 shards" in "\n".join(lines)


def test_the_slowest_and_the_largest_shards_are_kept():
    totals = Totals()
    for number in range(30):
        entry = an_entry(a_shard(f"/in/{number}.jsonl"))
        entry.seconds.update(tag=float(number * 7 % 30), wait=0.0)
        entry.counts["words"] = number * 11 % 30
        totals.add(entry)
    found = report_values(FACTS, totals)["output"]
    assert [shard["seconds"] for shard in found["slowest_shards"]] == [float(s) for s in range(29, 19, -1)]
    assert [shard["words"] for shard in found["largest_shards"]] == list(range(29, 19, -1))
    assert len(totals.slowest) == len(totals.largest) == MAX_SHARDS
    assert found["shards_by_versions"] == {"code c": 30}


def test_versions_without_number_are_counted():
    totals = Totals()
    for number in range(50):
        entry = an_entry(a_shard(f"/in/{number}.jsonl"))
        entry.versions["torch"] = str(number)
        totals.add(entry)
    assert len(totals.versions) == 21
    assert totals.versions["others"] == 30


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
    assert "3 more workers with fewer words." in page
    assert "more workers with fewer" not in report_markdown(values()).decode()


def test_names_without_utf8_can_be_reported():
    assert json.loads(report_json(values("a\udcff")))["job"]["input"] == ["a\udcff"]
    assert "a\\udcff" in report_markdown(values("a\udcff")).decode()
