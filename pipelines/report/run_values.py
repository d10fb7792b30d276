"""The run report: what ran, what became of every document, what was found, what it cost. report.json and its values.

`run_markdown` and `run_page` show the same values to people. What stands under `output` is the same for the same rows,
whatever engine made them, but for times and memory.
"""

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from pipelines import CODE_VERSION
from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.output.digest_set import DigestSet, Sizes
from pipelines.output.layout import tables_of
from pipelines.output.manifest import committed_names, entry_rows, read_entries
from pipelines.output.pending_shards import PendingShards
from pipelines.processes.memory import peak_rss_bytes
from pipelines.report.duplicates import duplicate_ids
from pipelines.report.entities import count_entities, describe_entities, shards_to_look_at
from pipelines.report.run_counts import RunCounts, seconds_of
from pipelines.report.sources import SourceCounts, dev_density_of
from pipelines.report.stages import stage_values
from pipelines.report.totals import Totals
from schemas import ANNOTATIONS, DOCUMENTS
from schemas.manifest import Entry

FORMAT_VERSION = 2
#: Shards up to which ids that are in two of them are looked for: that opens a file of each.
MAX_LOOKED_AT = 20_000
#: Workers that the report lists; the rest is counted.
MAX_WORKERS = 50


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run knows besides its manifest. Counts are shards unless they say otherwise."""

    command: dict[str, Any]  # the job as it was resolved
    identity: dict[str, str]  # the job identity
    started: str  # UTC, ISO 8601
    counts: RunCounts  # of this run
    superseded: int
    orphaned: DigestSet
    orphaned_documents: int
    duplicates: int | None  # documents with the id of an earlier one in another shard; None where nobody looked
    duplicate_examples: list[str]
    line: str = ""  # the command line
    left: int = 0
    pruned: int = 0
    pruned_documents: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # of shards to do
    found: dict[str, Any] | None = None  # as `describe_entities`; None where nothing is tagged
    density: dict[str, Any] | None = None  # as `SourceCounts.described`, likewise


def describe_run(
    output: str,
    work: PendingShards,
    counts: RunCounts,
    job: ShardJob,
    identity: dict[str, str],
    started: str,
    line: str,
) -> dict[str, Any]:
    """Return the report of a run that has ended, as plain values; see `report_values`.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`.
    """
    state, known = work.state, work.known
    totals, sources = Totals(), SourceCounts()

    def added() -> Iterator[tuple[str, int]]:
        for entry in read_entries(output, known):
            totals.add(entry)
            sources.add(entry)
            yield entry.shard, _rows(entry)

    rows = Sizes.of(added())
    found = density = None
    if ANNOTATIONS in tables_of(identity):
        found = _found(output, rows)
        assert isinstance(job, CorpusJob)
        density = sources.described(dev_density_of(job.model_path, identity), lambda: _sources(output))
    # Of samples, those who tag them are told.
    looked_at = known if DOCUMENTS in tables_of(identity) else DigestSet.of([])
    duplicates: tuple[int | None, list[str]] = None, []
    if len(looked_at) <= MAX_LOOKED_AT:
        duplicates = duplicate_ids(output, lambda: looked_at.among(committed_names(output)))
    gone = Totals.over(read_entries(output, state.orphaned)) if len(state.orphaned) else Totals()
    facts = RunFacts(
        command=job.described(),
        identity=identity,
        started=started,
        counts=counts,
        superseded=state.superseded,
        orphaned=state.orphaned,
        orphaned_documents=gone.counts["documents"],
        duplicates=duplicates[0],
        duplicate_examples=duplicates[1],
        line=line,
        left=len(known) - totals.shards,
        pruned=state.pruned,
        pruned_documents=state.pruned_documents,
        reasons=work.reasons,
        found=found,
        density=density,
    )
    return report_values(facts, totals)


def _found(output: str, rows: Sizes) -> dict[str, Any]:
    chosen = shards_to_look_at(rows)
    counts = count_entities(output, chosen.among(committed_names(output)))
    return describe_entities(counts, len(chosen), len(rows.names), int(rows.sizes.sum()))


def _rows(entry: Entry) -> int:
    there = entry.outputs.get(ANNOTATIONS.name)
    return 0 if there is None else there.rows


def _sources(output: str) -> Iterator[str]:
    for rows in entry_rows(output, ["shard", "source"]):
        for source in rows["source"].to_pylist():
            yield source.decode("utf-8", "surrogateescape")


def report_values(facts: RunFacts, totals: Totals) -> dict[str, Any]:
    """Return the report as plain values. `this_run` is about this run, `output` about all rows in the folder."""
    counts = facts.counts
    return {
        "format_version": FORMAT_VERSION,
        "command": facts.line,
        "job": facts.command,
        "identity": facts.identity,
        "machine": counts.machine,
        "versions": _versions(),
        "this_run": {
            "started": facts.started,
            "seconds": round(counts.seconds, 2),
            "shards_run": counts.shards,
            "shards_done_before": counts.skipped,
            "shards_left": facts.left,
            "shards_retried": counts.retries,
            "shards_by_reason": facts.reasons,
            "shards_superseded": facts.superseded,
            "shards_orphaned": len(facts.orphaned),
            "orphaned_digest": facts.orphaned.digest,
            "documents_orphaned": facts.orphaned_documents,
            "shards_pruned": facts.pruned,
            "documents_pruned": facts.pruned_documents,
            "words": counts.counts["words"],
            "words_per_second": round(counts.words_per_second, 1),
            "pace": [
                {"second": round(second, 1), "words_per_second": round(rate, 1)} for second, rate in counts.pace.rates()
            ],
            "stages": stage_values(counts.stage_seconds),
            "workers": _workers(counts),
            "workers_in_all": len(counts.worker_shards),
            "parent_peak_rss_bytes": peak_rss_bytes(),
        },
        "output": {
            "shards": totals.shards,
            "counts": dict(totals.counts),
            "work": {
                **totals.work,
                "scored_share": _share(totals.work["scored_candidates"], totals.work["candidates"]),
                "useful_token_share": _share(totals.work["tokens"], totals.work["token_places"]),
            },
            "rejects": {"by_code": dict(totals.reject_codes), "examples": totals.reject_examples},
            "duplicate_ids_across_shards": {
                "documents": facts.duplicates,
                "examples": facts.duplicate_examples,
            },
            "duplicate_ids_looked_for_in_up_to_shards": MAX_LOOKED_AT,
            "entities_by_label": dict(totals.labels.most_common()),
            "found": facts.found,
            "density": facts.density,
            "seconds_by_stage": {stage: round(seconds, 2) for stage, seconds in sorted(totals.seconds.items())},
            "stages": stage_values(totals.seconds),
            "slowest_shards": _shards(totals.slowest),
            "largest_shards": _shards(totals.largest),
            "shards_by_versions": dict(totals.versions.most_common()),
            "worker_peak_rss_bytes": totals.peak_rss_bytes,
            "bytes": totals.output_bytes,
        },
    }


def _versions() -> dict[str, str]:
    names = ("torch", "transformers", "sentencex", "pyarrow")
    return {
        "code": CODE_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: version(name) for name in names},
    }


def _shards(largest: list[tuple[float, str, Entry]]) -> list[dict[str, Any]]:
    """Return what is told of some shards, the largest first."""
    return [
        {
            "shard": name,
            "source": entry.source,
            "documents": entry.counts.get("documents", 0),
            "words": (words := entry.counts.get("words", 0)),
            "bytes": sum(output.n_bytes for output in entry.outputs.values()),
            "seconds": round(seconds := seconds_of(entry), 2),
            "words_per_second": round(words / seconds, 1) if seconds else None,
        }
        for _, name, entry in sorted(largest, key=lambda item: (-item[0], item[1]))
    ]


def _workers(counts: RunCounts) -> list[dict[str, Any]]:
    """Return what workers did, those with the most words first; seconds are those that their shards took."""
    return [
        {
            "worker": worker,
            "shards": counts.worker_shards[worker],
            "words": words,
            "seconds": round(seconds := counts.worker_seconds[worker], 2),
            "words_per_second": round(words / seconds, 1) if seconds else 0.0,
        }
        for worker, words in sorted(counts.worker_words.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORKERS]
    ]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def report_json(values: dict[str, Any]) -> bytes:
    """Return report.json."""
    return json.dumps(values, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
