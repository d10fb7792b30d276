"""Counters of a run, updated from engine events, and a listener that forwards events to several others."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.engines import Listener
from pipelines.report.throughput import Throughput
from pipelines.shards.progress import ShardProgress
from schemas.manifest import Entry

#: Sequential stages of a worker; the sum of their times is the time spent on a shard.
IN_TURN = ("wait", "tag", "check", "write")


class Listeners(Listener):
    """Forwards each event to several listeners, in order.

    Args:
        listeners: the listeners.
        settings: requested settings, passed on with the `started` event; the engine's own values take precedence.
    """

    def __init__(self, listeners: Sequence[Listener], settings: dict[str, str]) -> None:
        self.listeners, self.settings = listeners, settings

    def started(self, facts: dict[str, str]) -> None:
        """Forward the start of the first worker.

        Args:
            facts: description of the workers' environment.
        """
        environment = facts | self.settings | facts  # the workers' own values come first and take precedence
        for listener in self.listeners:
            listener.started(environment)

    def progressed(self, shard: str, progress: ShardProgress) -> None:
        """Forward progress within a shard.

        Args:
            shard: name of the shard.
            progress: the work since the last call for this shard.
        """
        for listener in self.listeners:
            listener.progressed(shard, progress)

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Forward a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size of the shard in bytes of text.
            worker: name of the worker.
        """
        for listener in self.listeners:
            listener.finished(entry, n_bytes, worker)

    def retried(self, shard: str, reason: str) -> None:
        """Forward a failed attempt that will be repeated.

        Args:
            shard: name of the shard.
            reason: why the attempt failed.
        """
        for listener in self.listeners:
            listener.retried(shard, reason)

    def failed(self, shard: str, reason: str) -> None:
        """Forward a permanent failure of a shard.

        Args:
            shard: name of the shard.
            reason: why its last attempt failed.
        """
        for listener in self.listeners:
            listener.failed(shard, reason)


@dataclass
class RunCounts(Listener):
    """Counters of the current run. They include only committed shards.

    Attributes:
        started_at: Unix time of the start of the run, in seconds.
        machine: description of the workers' environment.
        shards: number of shards committed in this run.
        skipped: number of shards that were already done.
        retries: number of failed attempts that were repeated.
        seconds: time from the first ready worker to the last finished shard.
        counts: sums of the counts in the manifest entries.
        reject_codes: rejects by code.
        labels: annotation rows by label.
        stage_seconds: seconds by stage, over all workers.
        worker_words: words by worker.
        worker_seconds: seconds spent on shards, by worker.
        worker_shards: shards by worker.
        throughput: words per second over the time of the run; the words of a shard are spread evenly over its time.
    """

    started_at: float = field(default_factory=time.time)
    machine: dict[str, str] = field(default_factory=dict)
    shards: int = 0
    skipped: int = 0
    retries: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    stage_seconds: Counter[str] = field(default_factory=Counter)
    worker_words: Counter[str] = field(default_factory=Counter)
    worker_seconds: dict[str, float] = field(default_factory=dict)
    worker_shards: Counter[str] = field(default_factory=Counter)
    throughput: Throughput = field(default_factory=Throughput)
    _start: float = field(default_factory=time.monotonic)

    @property
    def rejects(self) -> int:
        """Return the number of rejects; each unreadable part of a file counts as one."""
        return rejects_in(self.counts)

    @property
    def words_per_second(self) -> float:
        """Return the words of finished shards per second of `seconds`; 0 before the first shard."""
        return self.counts["words"] / self.seconds if self.seconds else 0.0

    def started(self, facts: dict[str, str]) -> None:
        """Record the time of the first ready worker; loading the model does not count as tagging.

        Args:
            facts: description of the workers' environment.
        """
        self.machine = facts
        self._start = time.monotonic()

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Add a committed shard.

        Args:
            entry: manifest entry of the shard.
            n_bytes: planned size in bytes; unused.
            worker: name of the worker.
        """
        self.shards += 1
        self.counts.update(entry.counts)
        self.reject_codes.update(entry.reject_codes)
        self.labels.update(entry.labels)
        self.stage_seconds.update(entry.seconds)
        self.worker_shards[worker] += 1
        self.worker_words[worker] += entry.counts.get("words", 0)
        took = seconds_of(entry)
        self.worker_seconds[worker] = self.worker_seconds.get(worker, 0.0) + took
        self.seconds = time.monotonic() - self._start
        self.throughput.add(max(self.seconds - took, 0.0), self.seconds, entry.counts.get("words", 0))

    def retried(self, shard: str, reason: str) -> None:
        """Count a retry.

        Args:
            shard: unused.
            reason: unused.
        """
        self.retries += 1


def seconds_of(entry: Entry) -> float:
    """Return the seconds that a worker spent on a shard.

    Args:
        entry: manifest entry of the shard.
    """
    return sum(entry.seconds.get(stage, 0.0) for stage in IN_TURN)


def rejects_in(counts: Mapping[str, int]) -> int:
    """Return the number of rejects: documents, and parts of files with unknown content.

    Args:
        counts: counts of a manifest entry, or sums of them.
    """
    return counts.get("rejected", 0) + counts.get("unreadable", 0)
