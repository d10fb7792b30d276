"""Driver of `spanmarker tag` and `spanmarker prepare`, from the job to the report."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console

from pipelines.engines import engine
from pipelines.errors import PipelineError
from pipelines.jobs.base import CorpusJob, ShardJob
from pipelines.jobs.prepare_training import AnnotatedJob
from pipelines.jobs.reject_limit import MaxRejects
from pipelines.jobs.tag import TagJob
from pipelines.output.compaction import compact
from pipelines.output.job_identity import FILES, acquire, write_identity
from pipelines.output.layout import TABLES, table_ending, tables_of
from pipelines.output.manifest import identity_digest, make_folders
from pipelines.output.overwrite import refuse_inputs, refuse_overwrite
from pipelines.output.pending_shards import SKIPPED, PendingShards, find_pending
from pipelines.output.progress_file import remove_state
from pipelines.output.reconcile import NONE, remove_uncommitted, remove_unknown_files
from pipelines.report.command import command_line
from pipelines.report.run_counts import Listeners, RunCounts, rejects_in
from pipelines.report.run_markdown import report_markdown
from pipelines.report.run_values import describe_run, report_json, versions
from pipelines.runs.json_log import JsonLog, is_log
from pipelines.runs.messages import last_lines, model_line, work_line
from pipelines.runs.planned_job import plan_job
from pipelines.runs.progress import Display
from pipelines.runs.prometheus import Metrics, is_metrics
from pipelines.runs.run_progress import RunProgress
from pipelines.snapshots.snapshots import Snapshots, refuse_other_formats
from pipelines.storage import (
    Lease,
    absolute,
    join,
    make_folder,
    publish_bytes,
    read_all,
    remove,
    sole_writer,
    use_options,
)
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Seconds between checks, while shards are assigned, that the run still holds the lock of its output.
_CHECK_SECONDS = 60.0
#: Rejects that the error for a run without any tagged document shows.
_REASONS = 5


def run_job(job: ShardJob, console: Console, verbose: bool = False) -> None:
    """Process the missing shards of a job and print a summary.

    The job is validated before any document is processed, and leftovers of earlier runs are removed before the first
    shard starts.

    Args:
        job: the job.
        console: receives the output of the command, unless the log is on standard error.
        verbose: whether to print the environment of the workers.

    Raises:
        CodedError: an error of the job.
    """
    use_options(job.storage_option)
    job = job.pinned()
    counts = RunCounts()
    output = absolute(job.output)
    _refuse_overwrites(job, output)
    if job.log_json == "-":
        console = Console(quiet=True)  # Containers mix both streams, and a reader of the log expects JSON.
    with (
        JsonLog(job.log_json) as log,
        Metrics(job.metrics, output, counts, job.metrics_push, partial(_warn, log)) as metrics,
        Display(console) as display,
    ):
        try:
            with display.phase("checking the job"):  # which may have to read a large model
                run = _Run(job, output, display, counts, log, metrics, verbose)
            run.run()
        except KeyboardInterrupt as error:
            if not hasattr(error, "__notes__"):
                error.add_note("No shard was under way, so nothing is lost.")
            raise


def _warn(log: JsonLog, error: PipelineError) -> None:
    """Report a fault that the run survives; it may come from another thread."""
    if log.path != "-":
        print(f"spanmarker: {error}", file=sys.stderr)
    with contextlib.suppress(PipelineError):  # The run finds lasting faults of the log itself.
        log.event("run.warning", code=error.code, message=error.text)


def _refuse_overwrites(job: ShardJob, output: str) -> None:
    """Reject options that would overwrite inputs, or files that no run wrote.

    Raises:
        PipelineError: `output.is_input`, `output.would_replace`.
    """
    inputs = [*job.input, *_folders_read(job)]
    # One file name represents all files of a table.
    rows = (f"{table.name}/shard{table_ending(table.name)}" for table in TABLES)
    refuse_inputs("--output", output, [*FILES, *rows], inputs)
    taken = {join(output, name): "--output" for name in FILES}
    for option, path, ours in (("--metrics", job.metrics, is_metrics), ("--log-json", job.log_json, is_log)):
        if path is None or (option == "--log-json" and path == "-"):
            continue
        refuse_overwrite(option, path, inputs, ours, appends=option == "--log-json")
        if taken.setdefault(absolute(path), option) != option:
            raise PipelineError("output.would_replace", option=option, path=path)


def _folders_read(job: ShardJob) -> list[str]:
    """Return the folders that a job reads in addition to its input."""
    if isinstance(job, AnnotatedJob):
        return [job.encoder]
    model = [job.model_path] if isinstance(job, CorpusJob) else []
    return model + ([job.samples] if isinstance(job, TagJob) and job.samples else [])


class _Run:
    """A run with its listeners."""

    def __init__(
        self,
        job: ShardJob,
        output: str,
        display: Display,
        counts: RunCounts,
        log: JsonLog,
        metrics: Metrics,
        verbose: bool,
    ) -> None:
        self.output, self.display, self.verbose = output, display, verbose
        self.counts, self.log, self.metrics = counts, log, metrics
        limit = job.max_rejects if isinstance(job, CorpusJob) else None
        self.limit = None if limit is None else MaxRejects.parse(limit)
        self.stopped = False  # by too many rejects
        self.line = command_line(job)
        self.work = plan_job(job)
        self.job, self.identity = self.work.job, self.work.identity
        self.table = tables_of(self.identity)[0].name  # the main table of the output
        self.command = self.job.described()
        self.snapshots: Snapshots | None = None
        if isinstance(self.job, TagJob):
            self.snapshots = self.job.snapshots(self.identity, self.work.task("").columns.kept)
        self.held = NONE  # shards whose files stay until the next snapshots are published

    def run(self) -> None:
        """Run the job."""
        output, identity = self.output, self.identity
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.log.event("run.started", job=self.command, identity=identity, versions=versions())
        make_folder(output)
        with sole_writer(output, who=f"spanmarker {self.job.verb}") as lease:
            self.metrics.begin()
            if isinstance(self.job, TagJob):
                refuse_other_formats(output, self.job.commit)
            with self.display.phase("looking for inputs and finished shards"):
                work = self._find_work(lease)
                remove_state(output)  # of a run that ended early
            if not work.changed and (known := self._last_report(work)) is not None:
                self._nothing_to_do(work, known, lease)
                return
            # The old report is outdated, and its absence marks an interrupted run.
            remove(self._report_path)
            self._do(work, lease)
            with self.display.phase("writing the report"):
                values = self._finish(work, lease, started)
            self.display.say(last_lines(values, output, self.table))
            self._end("done", values, work, lease)

    def _finish(self, work: PendingShards, lease: Lease, started: str) -> dict[str, Any]:
        """Complete the output after its shards, publish the report, and return its values."""
        output = self.output
        lease.check()
        remove_unknown_files(output, work.known, self.held)
        compact(output)
        values = describe_run(output, work, self.counts, self.job, self.identity, started, self.line)
        if (missing := values["this_run"]["shards_left"]) and not self.stopped:
            reason = f"the entries of {missing:,} finished shards are missing"
            raise PipelineError("output.not_readable", path=join(output, "manifest"), reason=reason)
        self.work.end(output, work.plan.names)
        lease.check()  # Counting a large output takes time.
        self._publish(values)
        return values

    def _publish(self, values: dict[str, Any]) -> None:
        from pipelines.report.run_page import report_page  # imported late, so that a run starts quickly

        publish_bytes(join(self.output, "report.html"), report_page(values))
        publish_bytes(join(self.output, "report.md"), report_markdown(values))
        publish_bytes(self._report_path, report_json(values))  # last, because it marks the run as finished

    def _find_work(self, lease: Lease) -> PendingShards:
        job, output, identity = self.job, self.output, self.identity
        digest = identity_digest(identity)
        acquire(output, identity, job.force)
        make_folders(output, tables_of(identity))
        shards = self.work.shards(output, digest)
        if self.snapshots is not None:
            self.held = self.snapshots.open()

        def before_removal() -> None:
            remove(self._report_path)  # first, because it describes rows that are about to be removed
            # The folder changes its job only after the inputs were validated, and before rows are removed: after an
            # interruption the remaining rows are recognised as those of another job.
            if job.force:
                write_identity(output, identity)

        work = find_pending(
            output,
            shards,
            identity,
            digest,
            prune=job.prune,
            force=job.force,
            held=self.held,
            before_removal=before_removal,
        )
        if self.snapshots is not None and len(again := self.held & work.pending):
            lease.check()
            self.snapshots.drop(again)  # A snapshot never names a file while it is replaced.
            self.held -= again
        self.counts.skipped = work.total - work.left
        return work

    def _do(self, work: PendingShards, lease: Lease) -> None:
        job = self.job
        settings = replace(job.settings, workers=min(job.workers, max(work.left, 1)))
        words = {"workers": str(settings.workers), "threads per worker": str(settings.threads)}
        self.counts.machine = words
        self.display.say(f"{model_line(job)}\n{work_line(job, work, settings)}")
        if not work.left:  # and there is something to remove
            return
        task = replace(self.work.task(identity_digest(self.identity)), lease=lease.token)
        self.work.begin(self.output)
        progress = RunProgress(
            self.output, work.left, work.left_bytes, job.verb, self.display, self.log, lease.check, self.verbose
        )
        with progress:
            self.metrics.state = progress.state
            listener = Listeners([progress, self.counts, self.log], words)
            try:
                engine(job.engine)(self._shards(work, lease), task, settings, listener)
            except (CodedError, KeyboardInterrupt) as error:
                # Remove leftovers of failed attempts. If that fails, the next run removes them.
                with contextlib.suppress(CodedError, OSError):
                    lease.check()
                    remove_uncommitted(self.output, work.known, self.held)
                if isinstance(error, KeyboardInterrupt):
                    error.add_note(progress.interrupted())
                raise

    def _shards(self, work: PendingShards, lease: Lease) -> Iterator[Shard]:
        """Yield the pending shards and log them; stop early if there are too many rejects.

        Raises:
            PipelineError: `output.lock_lost`, for a run that was suspended for minutes while another took the output.
        """
        checked = time.monotonic()
        for shard, reason in work.shards():
            if time.monotonic() - checked > _CHECK_SECONDS:
                lease.check()
                checked = time.monotonic()
            if reason == SKIPPED:
                self.log.event("shard.skipped", shard=shard.name, source=shard.source, reason=reason)
                continue
            if self.limit is not None and self.limit.number is not None and self.counts.rejects > self.limit.number:
                self.stopped = True
                return
            self.log.event("shard.queued", shard=shard.name, source=shard.source, reason=reason)
            yield shard

    def _nothing_to_do(self, work: PendingShards, values: dict[str, Any], lease: Lease) -> None:
        if self.log.active:
            for _ in self._shards(work, lease):
                pass
        rows = join(self.output, self.table)
        self.display.say(f"Nothing to do: {work.intent}. Rows: {rows}")
        self._end("nothing to do", values, work, lease)

    def _end(self, reason: str, values: dict[str, Any], work: PendingShards, lease: Lease) -> None:
        """Report the end of the run, and fail if too many documents were rejected; otherwise publish its snapshots."""
        self.metrics.values = values
        found, left = values["output"], values["this_run"]["shards_left"]
        rejects, documents = rejects_in(found["counts"]), found["counts"]["documents"]
        if self.limit is not None and self.limit.passed_by(rejects, documents):
            codes = ", ".join(f"{code} {count:,}" for code, count in found["rejects"]["by_code"].items())
            stopped = f" The run stopped early; {left:,} shards are left." if left else ""
            raise PipelineError(
                "rejects.too_many",
                rejects=rejects,
                documents=documents,
                path=self.output,
                limit=self.limit.text,
                stopped=stopped,
                codes=codes,
            )
        all_rejected = rejects > 0 and found["counts"]["rejected"] == documents
        if self.limit is None and isinstance(self.job, CorpusJob) and all_rejected:
            reasons = [f"  {each['code']}: {each['message']}" for each in found["rejects"]["examples"][:_REASONS]]
            raise PipelineError(
                "rejects.all",
                documents=documents,
                unreadable=found["counts"]["unreadable"],
                path=self.output,
                reasons="\n".join(reasons),
            )
        if self.snapshots is not None:
            lease.check()
            with self.display.phase("committing the snapshot"):
                published = self.snapshots.publish(lease.check)
            self.display.say(published)
            if len(self.held - work.known):
                remove_unknown_files(self.output, work.known)
        self.log.event(
            "run.finished",
            reason=reason,
            exit_code=0,
            shards_run=self.counts.shards,
            shards_skipped=self.counts.skipped,
            output=found["counts"],
        )

    @property
    def _report_path(self) -> str:
        return join(self.output, "report.json")

    def _last_report(self, work: PendingShards) -> dict[str, Any] | None:
        """Return the report of the last successful run if it is still valid, else None."""
        try:
            values = json.loads(read_all([self._report_path])[0])
            run = values["this_run"]
            true = run["shards_left"] == 0 and run["orphaned_digest"] == work.state.orphaned.digest
            # A report that shows other texts than the job wants is written again.
            same = not isinstance(self.job, TagJob) or values["job"].get("examples", True) == self.job.examples
            return values if true and same else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PipelineError("output.not_readable", path=self._report_path, reason=error) from error
        except (ValueError, KeyError, TypeError):
            return None
