"""The run report: what ran, what became of every document, what it cost. report.json and report.md."""

import json
from dataclasses import dataclass
from typing import Any

from pipelines.report.totals import Totals
from spanmarker_core.evaluation.report import cell


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run knows besides its manifest. Counts are shards unless they say otherwise."""

    command: dict[str, Any]  # the job as it was resolved
    identity: dict[str, str]  # the job identity
    machine: dict[str, str]  # device, dtype, workers, ...
    started: str  # UTC, ISO 8601
    seconds: float  # wall time of the engine
    ran: int
    skipped: int
    superseded: int
    orphaned: int
    orphaned_documents: int
    words: int  # tagged in this run
    parent_peak_rss_bytes: int
    duplicates: int  # documents with the id of an earlier one in another shard
    duplicate_examples: list[str]


def report_values(facts: RunFacts, totals: Totals) -> dict[str, Any]:
    """Return the report as plain values. `this_run` is about this run, `output` about all rows in the folder."""
    return {
        "job": facts.command,
        "identity": facts.identity,
        "machine": facts.machine,
        "this_run": {
            "started": facts.started,
            "seconds": round(facts.seconds, 2),
            "shards_run": facts.ran,
            "shards_done_before": facts.skipped,
            "shards_superseded": facts.superseded,
            "shards_orphaned": facts.orphaned,
            "documents_orphaned": facts.orphaned_documents,
            "words": facts.words,
            "words_per_second": round(facts.words / facts.seconds, 1) if facts.ran else 0.0,
            "parent_peak_rss_bytes": facts.parent_peak_rss_bytes,
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
        f"Started {run['started']}, {run['seconds']:,} s. {run['shards_run']:,} shards tagged, "
        f"{run['shards_done_before']:,} were done before, {run['shards_superseded']:,} replaced because their input "
        f"changed, {run['shards_orphaned']:,} kept whose input is gone ({run['documents_orphaned']:,} documents). "
        f"{run['words']:,} words, {run['words_per_second']:,} words/s.",
        "## Documents",
        f"{counts.get('documents', 0):,} in = {counts.get('tagged', 0):,} tagged + {counts.get('empty', 0):,} empty + "
        f"{counts.get('rejected', 0):,} rejected. Parts of files with an unknown number of documents that could not "
        f"be read: {counts.get('unreadable', 0):,}. Documents with the id of one in another shard: "
        f"{output['duplicate_ids_across_shards']['documents']:,}"
        + "".join(f", {cell(name)}" for name in output["duplicate_ids_across_shards"]["examples"])
        + ".",
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
        f"Peak memory: {output['worker_peak_rss_bytes'] / 1e6:,.0f} MB a worker at most, "
        f"{run['parent_peak_rss_bytes'] / 1e6:,.0f} MB the parent.",
        "## What ran",
        _table(("", ""), [*values["machine"].items(), *values["job"].items()]),
        "What decides the rows:",
        _table(("", ""), values["identity"].items()),
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8", "backslashreplace")


def _work_words(work: dict[str, Any]) -> str:
    if work["scored_share"] is None:
        return ""
    return (
        f"The model scored {work['scored_candidates']:,} of {work['candidates']:,} candidate spans, "
        f"{work['scored_share']:.2%}; a gate turns the others away. It encoded {work['tokens']:,} tokens of text; "
        f"{work['useful_token_share']:.1%} of the places in their attention held a token, the others padding."
    )


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    if not lines:
        return "None." if heads[0] in ("code", "label") else ""
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *lines])


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return cell(text)
