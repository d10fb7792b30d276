"""The values of the run report, stored as report.json: the job, the outcome of every document, the entities, the cost.

`run_markdown` and `run_page` present the same values. The values under `output` depend only on the rows and not on the
engine, except for times and memory.
"""

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from pipelines import CODE_VERSION
from pipelines.jobs.base import ShardJob
from pipelines.jobs.tag import TagJob
from pipelines.output.digest_set import DigestSet, Sizes
from pipelines.output.layout import tables_of
from pipelines.output.manifest import committed_names, entry_rows, read_entries
from pipelines.output.pending_shards import PendingShards
from pipelines.processes.memory import peak_rss_bytes
from pipelines.report.duplicates import duplicate_ids
from pipelines.report.entities import count_entities, describe_entities, shards_to_look_at
from pipelines.report.model import describe_model
from pipelines.report.run_counts import RunCounts, seconds_of
from pipelines.report.samples import sample_sentences
from pipelines.report.sources import SourceCounts, dev_density_of
from pipelines.report.stages import stage_values
from pipelines.report.totals import Totals
from schemas import ANNOTATIONS, DOCUMENTS
from schemas.manifest import Entry

FORMAT_VERSION = 2
#: Maximum number of shards searched for duplicate ids, because the search opens one file per shard.
MAX_LOOKED_AT = 20_000
#: Maximum number of workers listed in the report; further ones are only counted.
MAX_WORKERS = 50


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of a run that are not in its manifest. Counts are numbers of shards unless stated otherwise.

    Attributes:
        command: the resolved job.
        identity: the job identity.
        started: start of the run, UTC, ISO 8601.
        counts: counters of the run.
        superseded: shards that were removed because their input changed.
        orphaned: shards whose input no longer exists.
        orphaned_documents: number of documents in orphaned shards.
        duplicates: number of documents whose id occurs in an earlier shard; None if not searched.
        duplicate_examples: some duplicate ids.
        line: the command line.
        left: shards that are still to be processed.
        pruned: shards that were removed because their input no longer exists.
        pruned_documents: number of documents in removed shards.
        reasons: pending shards by the reason why they were processed.
        found: values of `describe_entities`; None if nothing is tagged.
        density: values of `SourceCounts.described`; None if nothing is tagged.
        sample: values of `sample_sentences`; None if nothing is tagged, or if the job shows no examples.
        model: values of `describe_model`; None if nothing is tagged or the model cannot be read.
    """

    command: dict[str, Any]
    identity: dict[str, str]
    started: str
    counts: RunCounts
    superseded: int
    orphaned: DigestSet
    orphaned_documents: int
    duplicates: int | None
    duplicate_examples: list[str]
    line: str = ""
    left: int = 0
    pruned: int = 0
    pruned_documents: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    density: dict[str, Any] | None = None
    sample: dict[str, Any] | None = None
    model: dict[str, Any] | None = None


def describe_run(
    output: str,
    work: PendingShards,
    counts: RunCounts,
    job: ShardJob,
    identity: dict[str, str],
    started: str,
    line: str,
) -> dict[str, Any]:
    """Return the report of a finished run as plain values.

    Args:
        output: the output folder.
        work: the shards planned for the run.
        counts: counters of the run.
        job: the resolved job.
        identity: the job identity.
        started: start of the run, UTC, ISO 8601.
        line: the command line.

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
    found = density = sample = model = None
    if ANNOTATIONS in tables_of(identity):
        assert isinstance(job, TagJob)
        found, names = _found(output, rows, texts=job.examples)
        sample = sample_sentences(output, names, job.input, identity) if job.examples else None
        model = describe_model(job.model_path)
        density = sources.described(dev_density_of(job.model_path, identity), lambda: _sources(output))
    # For samples, the tagging run reports duplicates.
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
        sample=sample,
        model=model,
    )
    return report_values(facts, totals)


def _found(output: str, rows: Sizes, *, texts: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the entity statistics, and the names of the shards with annotations that they come from."""
    chosen = shards_to_look_at(rows)
    names = list(chosen.among(committed_names(output)))
    counts = count_entities(output, names)
    described = describe_entities(counts, len(chosen), len(rows.names), int(rows.sizes.sum()), texts=texts)
    empty = DigestSet(rows.names.keys[rows.sizes == 0])
    return described, list(empty.missing(names))


def _rows(entry: Entry) -> int:
    there = entry.outputs.get(ANNOTATIONS.name)
    return 0 if there is None else there.rows


def _sources(output: str) -> Iterator[str]:
    for rows in entry_rows(output, ["shard", "source"]):
        for source in rows["source"].to_pylist():
            yield source.decode("utf-8", "surrogateescape")


def report_values(facts: RunFacts, totals: Totals) -> dict[str, Any]:
    """Return the report as plain values: `this_run` describes the run, `output` all rows in the folder.

    Args:
        facts: facts of the run.
        totals: sums over the manifest.
    """
    counts = facts.counts
    return {
        "format_version": FORMAT_VERSION,
        "command": facts.line,
        "job": facts.command,
        "identity": facts.identity,
        "model": facts.model,
        "machine": counts.machine,
        "versions": versions(),
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
                {"second": round(second, 1), "words_per_second": round(rate, 1)}
                for second, rate in counts.throughput.rates()
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
            **_languages(totals),
            "entities_by_label": dict(totals.labels.most_common()),
            "found": facts.found,
            "density": facts.density,
            "sample": facts.sample,
            "seconds_by_stage": {stage: round(seconds, 2) for stage, seconds in sorted(totals.seconds.items())},
            "stages": stage_values(totals.seconds),
            "slowest_shards": _shards(totals.slowest),
            "largest_shards": _shards(totals.largest),
            "shards_by_versions": dict(totals.versions.most_common()),
            "worker_peak_rss_bytes": totals.peak_rss_bytes,
            "bytes": totals.output_bytes,
        },
    }


def _languages(totals: Totals) -> dict[str, Any]:
    """Return the languages of documents; nothing for outputs of earlier releases, which don't have them."""
    if not totals.languages:
        return {}
    origins = dict(totals.languages_from.most_common())
    return {"languages": {"documents": dict(totals.languages.most_common()), "from": origins}}


def versions() -> dict[str, str]:
    """Return the versions of the code, of Python and of the libraries that a run depends on, and the platform."""
    names = ("torch", "transformers", "sentencex", "pyarrow", "fsspec")
    return {
        "code": CODE_VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: version(name) for name in names},
    }


def _shards(largest: list[tuple[float, str, Entry]]) -> list[dict[str, Any]]:
    """Return the report values of shards, the largest first."""
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
    """Return the report values of workers, those with the most words first; seconds are spent on shards."""
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
    """Return report.json.

    Args:
        values: values of the report.
    """
    return json.dumps(values, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
