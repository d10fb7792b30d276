"""Engines map the shard task over the shards that are left. Nothing else differs between them.

An engine is a function of (shards, task, settings, listener) that returns when every shard is committed and
raises a coded error otherwise. It is named here by its module, which is imported when it is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from pipelines.errors import PipelineError, ShardsFailed
from pipelines.task import Task
from schemas.manifest import Entry
from schemas.shards import Shard

#: Name -> module that holds its `run`.
ENGINES = {
    "local": "pipelines.engines.local",
    "dask": "pipelines.engines.dask.driver",
    "beam": "pipelines.engines.beam.driver",
}
#: How often a shard, or the start of a worker, is tried.
TRIES = 3
#: Shards that fail for good, none being done in between, after which a run ends: a full disk fails them all. Those
#: whose input changed don't count, since a changed file fails all of its own.
GIVE_UP = 20
#: Failed shards whose reasons are kept; the rest are counted.
KEPT = 100
#: Failed shards that the final error names.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how wide an engine runs; changes no row."""

    workers: int
    threads: int  # CPU threads of one worker
    scheduler: str | None = None  # address of a Dask scheduler; None starts a cluster on this machine
    resources: dict[str, float] = field(default_factory=dict)  # what a Dask worker must have to tag
    beam_options: tuple[str, ...] = ()  # Beam's own command line


class Listener(Protocol):
    """What an engine tells while it runs."""

    def started(self, facts: dict[str, str]) -> None:
        """Say what the workers run on: device, dtype, batches. Called once."""

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Say that more of a shard is tagged."""

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Say that a shard of this many planned bytes is committed, and which worker did it."""

    def retried(self, shard: str, reason: str) -> None:
        """Say that a shard failed and is tried again."""

    def failed(self, shard: str, reason: str) -> None:
        """Say that a shard failed for good, if that is known before the end."""


Engine = Callable[[Iterator[Shard], Task, Settings, Listener], None]


class Tries:
    """Which shards of a run failed, and when there is no use in going on.

    Attributes:
        total: shards that were begun.
    """

    def __init__(self, listener: Listener) -> None:
        self.total = 0
        self._listener = listener
        self._failures: dict[str, int] = {}  # of shards that will be tried again
        self._failed: dict[str, str] = {}  # for good, the first of them
        self._count = 0
        self._in_a_row = 0

    def failures(self, shard: str) -> int:
        """Return how often a shard that has not come to its end has failed."""
        return self._failures.get(shard, 0)

    def is_last(self, shard: str) -> bool:
        """Tell whether the next attempt at a shard is its last, which rejects what ends a process."""
        return self.failures(shard) >= TRIES - 1

    def again(self, shard: str, reason: str) -> bool:
        """Take note of an attempt that failed; return whether there is to be another."""
        failures = self.failures(shard) + 1
        if failures < TRIES:
            self._failures[shard] = failures
            self._listener.retried(shard, reason)
            return True
        self._in_a_row += 1
        self.never(shard, reason)
        return False

    def never(self, shard: str, reason: str) -> None:
        """Take note of a shard that failed for good, such as one whose input changed."""
        self._failures.pop(shard, None)
        self._listener.failed(shard, reason)
        self._count += 1
        if len(self._failed) < KEPT:
            self._failed[shard] = reason

    def done(self, shard: str) -> None:
        """Take note of a shard that is committed."""
        self._failures.pop(shard, None)
        self._in_a_row = 0

    def check(self) -> None:
        """End the run if all shards of late failed.

        Raises:
            PipelineError: `shards.failed`.
        """
        if self._in_a_row >= GIVE_UP:
            raise failure(self._failed, self.total, self._count, gave_up=True)

    def end(self) -> None:
        """End a run whose shards have all come to their end.

        Raises:
            PipelineError: `shards.failed`.
        """
        if self._count:
            raise failure(self._failed, self.total, self._count)


def failure(failed: dict[str, str], total: int, count: int = 0, gave_up: bool = False) -> PipelineError:
    """Return the error that ends a run in which shards failed for good.

    Args:
        failed: why, by shard, for the first of them.
        total: the shards of the run, or those that were begun before it gave up.
        count: how many failed; 0: those in `failed`.
        gave_up: whether it ended before all others were done.
    """
    values: dict[str, object] = {"count": count or len(failed), "total": total, "tries": TRIES}
    if gave_up:
        values["others"] = f"since the last {GIVE_UP} failed in a row, the run gave up. What is done stays done"
    lines = [f"  {shard}: {reason}" for shard, reason in list(failed.items())[:_SHOWN]]
    error = ShardsFailed("shards.failed", **values, failures="\n".join(lines))
    error.failed = failed
    return error


def refuse_memory(task: Task) -> None:
    """Refuse an output that each process has one of its own of.

    Raises:
        PipelineError: `output.not_shared`.
    """
    if task.output.startswith("memory://"):
        raise PipelineError("output.not_shared", path=task.output)


def engine(name: str) -> Engine:
    """Return the engine of that name, one of ENGINES."""
    return import_module(ENGINES[name]).run
