"""The status of an output: what is done, and how far the run is that writes there."""

import itertools
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pipelines.errors import EXIT_CODES, PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import SAMPLE_TABLES, TRAINING_TABLES, tables_of
from pipelines.output.manifest import committed_entry, find_done, plan_path, planned, read_entries
from pipelines.output.plan_file import plan_identity
from pipelines.output.progress_file import RunState, read_state
from pipelines.pages.figures import percent, seconds, size
from pipelines.report.totals import Totals
from pipelines.storage import Holder, absolute, current_writer, exists
from schemas.manifest import Entry
from spanmarker_core.text.counted import counted

#: Shards that are listed.
_MAX_ROWS = 30
#: Seconds after which a run that has not written its progress no longer counts as running.
_SILENT = 120.0


@dataclass(frozen=True, slots=True)
class Status:
    """The status of an output.

    Attributes:
        folder: the output folder.
        names: the counts to show.
        first: the first shards of the plan, each with its entry if it is done.
        shards: number of planned shards.
        totals: sums over the planned shards that are done.
        orphaned: number of finished shards that the plan does not have.
        writer: the run that holds the lock; None if none does.
        state: how far that run is, or why the last one ended early; None if nothing is known.
    """

    folder: str
    names: list[str]
    first: list[tuple[str, Entry | None]]
    shards: int
    totals: Totals
    orphaned: int
    writer: Holder | None
    state: RunState | None

    @property
    def left(self) -> int:
        """Number of planned shards that are not done."""
        return self.shards - self.totals.shards

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 all shards are done; that of `output.busy`; or that of an incomplete run."""
        if self.writer is not None:
            return EXIT_CODES["output.busy"]
        return EXIT_CODES["shards.failed"] if self.left else 0

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        writer = None
        if self.writer is not None:
            names = ("host", "pid", "since", "who")
            writer = {name: getattr(self.writer, name) for name in names}
        return {
            "output": self.folder,
            "finished": not self.left and self.writer is None,
            "shards": {"planned": self.shards, "done": self.totals.shards, "left": self.left, "kept": self.orphaned},
            "counts": {name: self.totals.counts[name] for name in self.names},
            "rejects": dict(self.totals.reject_codes.most_common()),
            "writer": writer,
            "run": None if self.state is None else asdict(self.state),
        }

    def run_lines(self) -> list[str]:
        """Return lines on the run that is writing, or on how the last one ended."""
        state = self.state
        lines = [] if self.writer is None else [f"Running: {self.writer}"]
        if state is None:
            return lines
        if self.writer is None:
            ended = state.error or "it was killed, or its machine failed"
            lines.append(f"The last run ended at {state.updated}: {ended}")
        elif not state.error:  # otherwise it is of an earlier run
            left = "" if state.eta_s is None else f", about {seconds(state.eta_s)} left"
            share = percent(state.done_bytes / max(state.planned_bytes, 1), 0)
            done, planned_bytes = size(float(state.done_bytes)), size(float(state.planned_bytes))
            lines.append(
                f"{state.done_shards:,} of {counted(state.planned_shards, 'shard')}, {done} of {planned_bytes} "
                f"({share}), {counted(state.documents, 'document')}, "
                f"{counted(state.entities, 'entity', 'entities')}, {state.words_per_second:,.0f} words/s{left}"
            )
        if state.last_failure:
            lines.append(f"Last failed attempt: {state.last_failure}")
        return lines


def read_status(output: str) -> Status:
    """Return the status of an output.

    Args:
        output: path or URL of the output folder.

    Raises:
        PipelineError: `output.not_a_job`; errors in reading the plan or the manifest.
    """
    folder = absolute(output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    state, writer = read_state(folder), current_writer(folder)
    if writer is not None and state is not None:
        if state.updated < writer.since:
            state = None  # It is of an earlier run: this one is still looking for its inputs.
        elif not state.error and _age(state) > _SILENT:
            writer = None  # Its machine failed, so that nothing could release the lock.
    done = find_done(folder).done
    names = ["documents", "tagged", "empty", "rejected", "unreadable", "entities"]
    if tables_of(plan_identity(plan_path(folder))) in (SAMPLE_TABLES, TRAINING_TABLES):
        names = ["documents", "prepared", "empty", "rejected", "unreadable", "windows"]
    first = [
        (shard.name, committed_entry(folder, shard.name) if shard.name in done else None)
        for shard in itertools.islice(planned(folder), _MAX_ROWS)
    ]
    plan = DigestSet.of(shard.name for shard in planned(folder))
    totals = Totals.over(read_entries(folder, plan & done))
    return Status(folder, names, first, len(plan), totals, len(done - plan), writer, state)


def _age(state: RunState) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(state.updated)).total_seconds()
