"""Engines: each maps the shard task over the pending shards. Stages and storage belong elsewhere.

An engine is a function of (shards, task, settings, listener) that returns when every shard is committed and
raises a coded error otherwise. `ENGINES` maps its name to its module, which is imported on first use.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module

from pipelines.errors import PipelineError, ShardsFailed
from pipelines.shards.progress import ShardProgress
from pipelines.task import Task
from schemas.manifest import Entry
from schemas.shards import Shard

#: Name -> module that defines the engine's `run`.
ENGINES = {
    "local": "pipelines.engines.local",
    "dask": "pipelines.engines.dask.driver",
    "beam": "pipelines.engines.beam.driver",
}
#: Maximum attempts per shard, and maximum failed starts of a worker.
TRIES = 3
#: A run ends once this many shards in a row have failed permanently, because a cause such as a full disk fails every
#: shard. Shards whose input changed are not counted: one changed file fails all of its shards.
GIVE_UP = 20
#: Maximum number of failed shards whose reasons are kept; further ones are only counted.
KEPT = 100
#: Maximum number of failed shards named in the final error.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """Execution settings of an engine. They do not affect the rows that are written.

    Attributes:
        workers: number of worker processes.
        threads: CPU threads per worker; 0 leaves the number to the worker.
        scheduler: address of a Dask scheduler; None starts a cluster on this machine.
        resources: amount of each resource that a Dask worker must offer to receive shards.
        beam_options: options in the form of Beam's own command line.
    """

    workers: int
    threads: int  # per worker
    scheduler: str | None = None  # address of a Dask scheduler; None starts a cluster on this machine
    resources: dict[str, float] = field(default_factory=dict)  # required of a Dask worker
    beam_options: tuple[str, ...] = ()  # in the form of Beam's own command line


class Listener:
    """Handler of the events of an engine run; each event is ignored unless a subclass overrides its method."""

    def started(self, facts: dict[str, str]) -> None:
        """Handle the start of the first worker. Called once.

        Args:
            facts: description of the workers' environment: device, dtype, batch sizes.
        """

    def progressed(self, shard: str, progress: ShardProgress) -> None:
        """Handle progress within a shard.

        Args:
            shard: name of the shard.
            progress: the work since the last call for this shard.
        """

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Handle a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size of the shard in bytes of text.
            worker: name of the worker that processed it.
        """

    def retried(self, shard: str, reason: str) -> None:
        """Handle a failed attempt that will be repeated.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """

    def failed(self, shard: str, reason: str) -> None:
        """Handle a permanent failure of a shard that is known before the run ends.

        Args:
            shard: name of the shard.
            reason: why its last attempt failed.
        """


Engine = Callable[[Iterator[Shard], Task, Settings, Listener], None]


class Tries:
    """Counts failed attempts per shard and decides when to retry and when to end the run.

    Args:
        listener: handler of the run's events.

    Attributes:
        total: number of shards begun so far.
    """

    def __init__(self, listener: Listener) -> None:
        self.total = 0
        self._listener = listener
        self._failures: dict[str, int] = {}  # failures so far, by shard that will be retried
        self._failed: dict[str, str] = {}  # reason by permanently failed shard, for the first KEPT
        self._count = 0
        self._in_a_row = 0

    def failures(self, shard: str) -> int:
        """Return the number of failed attempts of a shard that is still being retried.

        Args:
            shard: name of the shard.
        """
        return self._failures.get(shard, 0)

    def is_last(self, shard: str) -> bool:
        """Return whether the next attempt at a shard is its last, which rejects documents that end the process.

        Args:
            shard: name of the shard.
        """
        return self.failures(shard) >= TRIES - 1

    def again(self, shard: str, reason: str) -> bool:
        """Record a failed attempt and return whether to retry the shard.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """
        failures = self.failures(shard) + 1
        if failures < TRIES:
            self._failures[shard] = failures
            self._listener.retried(shard, reason)
            return True
        self._in_a_row += 1
        self.never(shard, reason)
        return False

    def never(self, shard: str, reason: str) -> None:
        """Record a permanently failed shard, for example one whose input changed.

        Args:
            shard: name of the shard.
            reason: why it failed.
        """
        self._failures.pop(shard, None)
        self._listener.failed(shard, reason)
        self._count += 1
        if len(self._failed) < KEPT:
            self._failed[shard] = reason

    def done(self, shard: str) -> None:
        """Record a committed shard.

        Args:
            shard: name of the shard.
        """
        self._failures.pop(shard, None)
        self._in_a_row = 0

    def check(self) -> None:
        """Raise an error if the last GIVE_UP shards all failed permanently.

        Raises:
            PipelineError: `shards.failed`.
        """
        if self._in_a_row >= GIVE_UP:
            raise failure(self._failed, self.total, self._count, given_up=True)

    def end(self) -> None:
        """Raise an error if any shard failed permanently. Called after all shards have been processed.

        Raises:
            PipelineError: `shards.failed`.
        """
        if self._count:
            raise failure(self._failed, self.total, self._count)


def failure(failed: dict[str, str], total: int, count: int = 0, given_up: bool = False) -> PipelineError:
    """Return the error that ends a run with permanently failed shards.

    Args:
        failed: reason by shard, for the first failures.
        total: number of shards in the run, or of shards begun before it gave up.
        count: number of failed shards; 0 means the number of entries in `failed`.
        given_up: whether the run ended before all other shards were done.
    """
    values: dict[str, object] = {"count": count or len(failed), "total": total, "tries": TRIES}
    if given_up:
        values["others"] = f"the run stopped after {GIVE_UP} failures in a row. Finished shards are kept"
    lines = [f"  {shard}: {reason}" for shard, reason in list(failed.items())[:_SHOWN]]
    error = ShardsFailed("shards.failed", **values, failures="\n".join(lines))
    error.failed = failed
    return error


def refuse_memory(task: Task) -> None:
    """Reject an in-memory output, which the worker processes cannot share.

    Args:
        task: the shard task.

    Raises:
        PipelineError: `output.not_shared`.
    """
    if task.output.startswith("memory://"):
        raise PipelineError("output.not_shared", path=task.output)


def engine(name: str) -> Engine:
    """Return the engine called `name`.

    Args:
        name: one of ENGINES.
    """
    return import_module(ENGINES[name]).run
