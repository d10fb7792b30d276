"""One `spanmarker tag`, from the job to the report."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.claim import claim
from pipelines.engines import Settings, engine
from pipelines.jobs import TagJob
from pipelines.manifest import (
    Reconciled,
    identity_digest,
    left,
    make_folders,
    plan_path,
    planned,
    read_entries,
    reconcile,
)
from pipelines.memory import peak_rss_bytes
from pipelines.plan import plan_shards, save_plan
from pipelines.progress import ProgressDisplay
from pipelines.report.duplicates import duplicate_ids
from pipelines.report.run import RunFacts, report_json, report_markdown, report_values
from pipelines.report.totals import Totals
from pipelines.storage import absolute, exists, join, make_folder, publish_bytes, remove, sole_writer
from spanmarker_core.bundle import read_info


def run_tag(job: TagJob, console: Console) -> None:
    """Do what is missing for `job`, and say what was done.

    The order matters: what can be wrong with the job is found out before any document is tagged, and
    what is left of earlier runs is cleared before a shard runs.

    Raises:
        CodedError: a fault of the job.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    info = read_info(job.model)
    identity = job.identity(info)
    output = absolute(job.output)
    make_folder(output)
    with sole_writer(output):
        claim(output, identity)
        make_folders(output)
        work = _find_work(job, identity, output)
        if not work.changed and exists(_report_path(output)):
            console.print(
                f"Nothing to do: {work.intent}. Rows: {join(output, 'annotations')}", markup=False, soft_wrap=True
            )
            return
        # The old report is no longer true, and without one a run that breaks off is told from a finished one.
        remove(_report_path(output))
        settings = Settings(min(job.workers, max(work.left, 1)), job.threads_per_worker)
        words = {"workers": str(settings.workers), "threads a worker": str(settings.threads)}
        with ProgressDisplay(console, work.intent, work.left_bytes, words) as display:
            if work.left:
                task = job.task(info, identity_digest(identity))
                engine(job.engine)(left(output, work.state.done), task, settings, display)
        values = _report(job, identity, started, work, display)
        publish_bytes(join(output, "report.md"), report_markdown(values))
        publish_bytes(_report_path(output), report_json(values))
    _say_done(console, output, values)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a run finds in its output folder, in shards; `left_bytes` as planned."""

    state: Reconciled
    total: int
    left: int
    left_bytes: int

    @property
    def intent(self) -> str:
        notes = (
            (len(self.state.orphaned), "of inputs that are gone"),
            (self.state.superseded, "removed because their input changed"),
            (self.state.damaged, "removed because a file of theirs was lost or damaged"),
        )
        noted = "".join(f", {count:,} {note}" for count, note in notes if count)
        return f"{self.total:,} shards: {self.total - self.left:,} done before, {self.left:,} to do{noted}"

    @property
    def changed(self) -> bool:
        """Whether the folder's rows are or will be others than before."""
        return self.left > 0 or self.state.superseded > 0 or self.state.damaged > 0


def _find_work(job: TagJob, identity: dict[str, str], output: str) -> _Work:
    shards = plan_shards(
        job.input,
        output=output,
        id_column=job.id_column,
        text_column=job.text_column,
        max_shard_bytes=job.max_shard_bytes,
        job=identity_digest(identity),
    )
    total = save_plan(plan_path(output), shards, identity)
    state = reconcile(output)
    count = n_bytes = 0
    for shard in left(output, state.done):
        count, n_bytes = count + 1, n_bytes + shard.n_bytes
    return _Work(state, total, count, n_bytes)


def _report(
    job: TagJob, identity: dict[str, str], started: str, work: _Work, display: ProgressDisplay
) -> dict[str, Any]:
    output = absolute(job.output)
    names = [*(shard.name for shard in planned(output)), *work.state.orphaned]
    duplicates, examples = duplicate_ids(output, names)
    facts = RunFacts(
        command={**job.model_dump(), "model": str(Path(job.model).absolute())},
        identity=identity,
        machine=display.machine,
        started=started,
        seconds=display.seconds,
        ran=display.shards,
        skipped=work.total - work.left,
        superseded=work.state.superseded,
        orphaned=len(work.state.orphaned),
        orphaned_documents=Totals.over(read_entries(output, work.state.orphaned)).counts["documents"],
        words=display.finished_words,
        parent_peak_rss_bytes=peak_rss_bytes(),
        duplicates=duplicates,
        duplicate_examples=examples,
    )
    return report_values(facts, Totals.over(read_entries(output, names)))


def _report_path(output: str) -> str:
    return join(output, "report.json")


def _say_done(console: Console, output: str, values: dict[str, Any]) -> None:
    counts, run = values["output"]["counts"], values["this_run"]
    lines = [
        f"{counts['documents']:,} documents = {counts['tagged']:,} tagged + {counts['empty']:,} empty "
        f"+ {counts['rejected']:,} rejected; {counts['entities']:,} entities in {counts['words']:,} words",
        f"{run['shards_run']:,} shards in {run['seconds']:,.1f} s, {run['words_per_second']:,.0f} words/s",
    ]
    if run["shards_orphaned"]:
        lines.append(f"{run['documents_orphaned']:,} of the documents are kept from inputs that are gone")
    if counts["unreadable"]:
        lines.append(f"{counts['unreadable']:,} files or parts of files could not be read: see rejects")
    if duplicates := values["output"]["duplicate_ids_across_shards"]["documents"]:
        lines.append(f"{duplicates:,} documents have the id of another in another shard: see report.md")
    lines.append(f"Rows: {join(output, 'annotations')}   Report: {join(output, 'report.md')}")
    console.print("\n".join(lines), markup=False, soft_wrap=True)
