"""One `spanmarker tag`, from the job to the report."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.engines import Settings, engine
from pipelines.jobs import TagJob
from pipelines.manifest import claim, identity_digest, left, plan_path, read_entries, reconcile
from pipelines.memory import peak_rss_bytes
from pipelines.plan import plan_shards, read_plan, save_plan
from pipelines.progress import ProgressDisplay
from pipelines.report.duplicates import duplicate_ids
from pipelines.report.run import RunFacts, report_json, report_markdown, report_values
from pipelines.report.totals import Totals
from pipelines.storage import absolute, exists, join, publish_bytes, remove
from spanmarker_core.bundle import read_info


def run_tag(job: TagJob, console: Console) -> None:
    """Do what is missing for `job`, and say what was done.

    The order matters: everything that can be wrong with the job is found out before any document is
    read, and what is left of earlier runs is cleared before a shard runs.

    Raises:
        CodedError: a fault of the job.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    info = read_info(job.model)
    identity = job.identity(info)
    digest = identity_digest(identity)
    output = absolute(job.output)
    claim(output, identity)
    shards = plan_shards(
        job.input,
        output=output,
        id_column=job.id_column,
        text_column=job.text_column,
        max_shard_bytes=job.max_shard_bytes,
        job=digest,
    )
    total = save_plan(plan_path(output), shards, identity)
    state = reconcile(output)
    left_count, left_bytes = 0, 0
    for shard in left(output, state.done):
        left_count, left_bytes = left_count + 1, left_bytes + shard.n_bytes
    kept = f", {state.orphaned:,} of inputs that are gone" if state.orphaned else ""
    intent = f"{total:,} shards: {total - left_count:,} done before, {left_count:,} to do{kept}"
    report = join(output, "report.json")
    if left_count == 0 and not state.superseded and exists(report):
        console.print(f"Nothing to do: {intent}. Rows: {join(output, 'annotations')}", markup=False, soft_wrap=True)
        return
    remove(report)  # What it says is no longer so; without it, a run that breaks off here is told from a finished one.

    settings = Settings(min(job.workers, max(left_count, 1)), job.threads_per_worker)
    words = {"workers": str(settings.workers), "threads a worker": str(settings.threads)}
    with ProgressDisplay(console, intent, left_bytes, words) as display:
        if left_count:
            engine(job.engine)(left(output, state.done), job.task(info, digest), settings, display)
    totals = Totals.over(read_entries(output, _names(output)))
    duplicates, examples = duplicate_ids(output, _names(output))
    facts = RunFacts(
        command={**job.model_dump(), "model": str(Path(job.model).absolute())},
        identity=identity,
        machine=display.machine,
        started=started,
        seconds=display.seconds,
        ran=display.shards,
        skipped=total - left_count,
        superseded=state.superseded,
        orphaned=state.orphaned,
        words=display.finished_words,
        parent_peak_rss_bytes=peak_rss_bytes(),
        duplicates=duplicates,
        duplicate_examples=examples,
    )
    values = report_values(facts, totals)
    publish_bytes(join(output, "report.md"), report_markdown(values))
    publish_bytes(report, report_json(values))
    _say_done(console, output, values)


def _names(output: str) -> Iterator[str]:
    return (shard.name for shard in read_plan(plan_path(output)))


def _say_done(console: Console, output: str, values: dict[str, Any]) -> None:
    counts, run = values["output"]["counts"], values["this_run"]
    lines = [
        f"{counts['documents']:,} documents = {counts['tagged']:,} tagged + {counts['empty']:,} empty "
        f"+ {counts['rejected']:,} rejected; {counts['entities']:,} entities in {counts['words']:,} words",
        f"{run['shards_run']:,} shards in {run['seconds']:,.1f} s, {run['words_per_second']:,.0f} words/s",
    ]
    if counts["unreadable"]:
        lines.append(f"{counts['unreadable']:,} files or parts of files could not be read: see rejects")
    if duplicates := values["output"]["duplicate_ids_across_shards"]["documents"]:
        lines.append(f"{duplicates:,} documents have the id of another in another shard: see report.md")
    lines.append(f"Rows: {join(output, 'annotations')}   Report: {join(output, 'report.md')}")
    console.print("\n".join(lines), markup=False, soft_wrap=True)
