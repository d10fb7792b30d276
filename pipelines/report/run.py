"""The run report: what ran, what became of every document, what it cost. report.json and report.md."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.layout import tables_of
from pipelines.listeners import RunCounts
from pipelines.manifest import committed_names, read_entries
from pipelines.memory import peak_rss_bytes
from pipelines.names import NameSet
from pipelines.report.duplicates import duplicate_ids
from pipelines.report.totals import Totals
from pipelines.tally import STATUSES
from pipelines.work import Work
from schemas import DOCUMENTS
from spanmarker_core.evaluation.report import cell

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
    orphaned: NameSet
    orphaned_documents: int
    duplicates: int | None  # documents with the id of an earlier one in another shard; None where nobody looked
    duplicate_examples: list[str]
    left: int = 0
    pruned: int = 0
    pruned_documents: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # of shards to do


def describe_run(
    output: str, work: Work, counts: RunCounts, command: dict[str, Any], identity: dict[str, str], started: str
) -> dict[str, Any]:
    """Return the report of a run that has ended, as plain values; see `report_values`.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`.
    """
    state, known = work.state, work.known
    totals = Totals.over(read_entries(output, known))
    # Of samples, those who tag them are told.
    looked_at = known if DOCUMENTS in tables_of(identity) else NameSet.of([])
    duplicates: tuple[int | None, list[str]] = None, []
    if len(looked_at) <= MAX_LOOKED_AT:
        duplicates = duplicate_ids(output, lambda: looked_at.among(committed_names(output)))
    gone = Totals.over(read_entries(output, state.orphaned)) if len(state.orphaned) else Totals()
    facts = RunFacts(
        command=command,
        identity=identity,
        started=started,
        counts=counts,
        superseded=state.superseded,
        orphaned=state.orphaned,
        orphaned_documents=gone.counts["documents"],
        duplicates=duplicates[0],
        duplicate_examples=duplicates[1],
        left=len(known) - totals.shards,
        pruned=state.pruned,
        pruned_documents=state.pruned_documents,
        reasons=work.reasons,
    )
    return report_values(facts, totals)


def report_values(facts: RunFacts, totals: Totals) -> dict[str, Any]:
    """Return the report as plain values. `this_run` is about this run, `output` about all rows in the folder."""
    counts = facts.counts
    return {
        "job": facts.command,
        "identity": facts.identity,
        "machine": counts.machine,
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
            "entities_by_label": dict(totals.labels.most_common()),
            "seconds_by_stage": {stage: round(seconds, 2) for stage, seconds in sorted(totals.seconds.items())},
            "worker_peak_rss_bytes": totals.peak_rss_bytes,
            "bytes": totals.output_bytes,
        },
    }


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


def report_markdown(values: dict[str, Any]) -> bytes:
    """Return report.md, the same for people."""
    run, output = values["this_run"], values["output"]
    counts = output["counts"]
    parts = [
        "# Run report",
        f"Started {run['started']}, {run['seconds']:,} s. {run['shards_run']:,} shards run, "
        f"{run['shards_done_before']:,} were done before, {run['shards_left']:,} are left, "
        f"{run['shards_superseded']:,} replaced because their input changed, {run['shards_pruned']:,} removed whose "
        f"input is gone ({run['documents_pruned']:,} documents), {run['shards_orphaned']:,} kept whose input is gone "
        f"({run['documents_orphaned']:,} documents). {run['words']:,} words, {run['words_per_second']:,} words/s.",
        _table(("why", "shards"), run["shards_by_reason"].items()),
        "## Documents",
        f"{documents_words(counts)}. Parts of files with an unknown number of documents that could not "
        f"be read: {counts.get('unreadable', 0):,}. Documents with the id of one in another shard: "
        f"{_duplicates_words(**output['duplicate_ids_across_shards'])}.",
        _table(("what", "count"), counts.items()),
        "## Rejects",
        _table(("code", "rejects"), output["rejects"]["by_code"].items()),
        _table(
            ("document", "source", "row", "code", "reason"),
            (list(example.values()) for example in output["rejects"]["examples"]),
        ),
        "## Entities",
        _table(("label", "entities"), output["entities_by_label"].items()),
        "## Time and memory",
        "Seconds by stage, over all workers. Reading, splitting and packing run beside the model; `wait` is the time "
        "that the model had nothing to do.",
        _table(("stage", "seconds"), output["seconds_by_stage"].items()),
        _work_words(output["work"]),
        _worker_table(run),
        f"Peak memory: {output['worker_peak_rss_bytes'] / 1e6:,.0f} MB a worker at most, "
        f"{run['parent_peak_rss_bytes'] / 1e6:,.0f} MB the parent.",
        "## What ran",
        _table(("", ""), [*values["machine"].items(), *values["job"].items()]),
        "What decides the rows:",
        _table(("", ""), values["identity"].items()),
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8", "backslashreplace")


def documents_words(counts: Mapping[str, int]) -> str:
    """Return what became of the documents that came in, in words."""
    parts = [f"{counts[status]:,} {status}" for status in STATUSES if status in counts]
    return f"{counts.get('documents', 0):,} documents = {' + '.join(parts) or 'none'}"


def _worker_table(run: dict[str, Any]) -> str:
    heads = ("worker", "shards", "words", "seconds", "words/s")
    table = _table(heads, (list(worker.values()) for worker in run["workers"]))
    more = run["workers_in_all"] - len(run["workers"])
    return f"{table}\n\nAnd {more:,} workers with fewer words." if more else table


def _duplicates_words(documents: int | None, examples: list[str]) -> str:
    if documents is None:
        return f"not looked for among more than {MAX_LOOKED_AT:,} shards"
    return ", ".join([f"{documents:,}", *map(cell, examples)])


def _work_words(work: dict[str, Any]) -> str:
    if work["useful_token_share"] is None:
        return ""
    scored, halved = "The model's tags give the entities, and no span was scored.", work.get("out_of_memory")
    if work["scored_share"] is not None:
        scored = (
            f"The model scored {work['scored_candidates']:,} of {work['candidates']:,} candidate spans, "
            f"{work['scored_share']:.2%}; a gate turns the others away."
        )
    return (
        f"{scored} It encoded {work['tokens']:,} tokens of text; "
        f"{work['useful_token_share']:.1%} of the places in their attention held a token, the others padding."
        + (f" Memory ran out {halved:,} times, and batches were halved." if halved else "")
    )


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    if not lines:
        return "None." if heads[0] in ("code", "label") else ""
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *lines])


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return cell(text)
