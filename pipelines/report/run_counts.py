"""What a run counts while an engine tells of it, and how several listen at once."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.engines import Listener
from pipelines.report.throughput import Pace
from schemas.manifest import Entry

#: Stages that a worker goes through one after the other; their sum is the time that a shard took it.
IN_TURN = ("wait", "tag", "check", "write")


class Listeners:
    """Several listeners as one, told in order.

    Args:
        listeners: who is told.
        settings: what was asked for, in words; all are told of it unless the engine has its own word.
    """

    def __init__(self, listeners: Sequence[Listener], settings: dict[str, str]) -> None:
        self.listeners, self.settings = listeners, settings

    def started(self, facts: dict[str, str]) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.started({**facts, **self.settings} | facts)

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.progressed(shard, documents, words, n_bytes)

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.finished(entry, n_bytes, worker)

    def retried(self, shard: str, reason: str) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.retried(shard, reason)

    def failed(self, shard: str, reason: str) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.failed(shard, reason)


@dataclass
class RunCounts:
    """What this run has done so far; shards are those that are committed.

    Attributes:
        started_at: Unix time of the run's start.
        machine: what it runs on.
        shards, skipped, retries: of shards; those done before are skipped.
        seconds: from the first ready worker to the last finished shard.
        counts, reject_codes, labels, stage_seconds: sums over the entries' fields.
        worker_words, worker_seconds, worker_shards: by worker; seconds that its shards took.
        pace: words over the run's time; those of a shard are spread over the seconds that it took.
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
    pace: Pace = field(default_factory=Pace)
    _start: float = field(default_factory=time.monotonic)

    @property
    def rejects(self) -> int:
        """Rejects, one for each part of a file that could not be read among them."""
        return rejects_in(self.counts)

    @property
    def words_per_second(self) -> float:
        """Words of finished shards over `seconds`; 0 before the first."""
        return self.counts["words"] / self.seconds if self.seconds else 0.0

    def started(self, facts: dict[str, str]) -> None:
        """Take the time: loading the model is not tagging."""
        self.machine = facts
        self._start = time.monotonic()

    def progressed(self, shard: str, documents: int, words: int, n_bytes: int) -> None:
        """Nothing: what counts is committed."""

    def finished(self, entry: Entry, n_bytes: int, worker: str) -> None:
        """Add a shard."""
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
        self.pace.add(max(self.seconds - took, 0.0), self.seconds, entry.counts.get("words", 0))

    def retried(self, shard: str, reason: str) -> None:
        """Count it."""
        self.retries += 1

    def failed(self, shard: str, reason: str) -> None:
        """Nothing: the error that ends the run tells it."""


def seconds_of(entry: Entry) -> float:
    """Return the seconds that a shard took its worker."""
    return sum(entry.seconds.get(stage, 0.0) for stage in IN_TURN)


def rejects_in(counts: Mapping[str, int]) -> int:
    """Return the rejects that an entry's counts, or sums of them, tell: documents, and parts of unknown content."""
    return counts.get("rejected", 0) + counts.get("unreadable", 0)
