"""Progress within a shard: what a worker reports, and how often."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pipelines.shards.document_batch import DocumentBatch, PackedBatch


class ShardProgress(NamedTuple):
    """Work on a shard since the last report.

    Attributes:
        documents: documents finished.
        words: words processed; negative if documents with words counted before were rejected.
        n_bytes: bytes of text processed.
        entities: entities found; those of unfinished documents are counted by batch of the model.
        rejects: rejected documents, and parts of files that could not be read.
    """

    documents: int = 0
    words: int = 0
    n_bytes: int = 0
    entities: int = 0
    rejects: int = 0

    def plus(self, more: "ShardProgress") -> "ShardProgress":
        """Return the sum of two reports.

        Args:
            more: the other report.
        """
        return ShardProgress(*map(sum, zip(self, more, strict=True)))


#: Receives reports of progress.
Report = Callable[[ShardProgress], None]


class Throttle:
    """Adds reports up and passes them on at most once in a number of seconds, the first one at once.

    An empty sum is passed on too: a report without any work says that the worker is alive.

    Args:
        send: receives the sums.
        seconds: least time between two sums.

    Attributes:
        rest: what was not passed on yet.
    """

    def __init__(self, send: Report, seconds: float) -> None:
        self._send, self._seconds, self._sent_at = send, seconds, -math.inf
        self.rest = ShardProgress()

    def add(self, progress: ShardProgress) -> None:
        """Add a report.

        Args:
            progress: the report.
        """
        self.rest = self.rest.plus(progress)
        if time.monotonic() - self._sent_at >= self._seconds:
            self._pass_on()

    def flush(self) -> None:
        """Pass on what is left, if anything."""
        if any(self.rest):
            self._pass_on()

    def _pass_on(self) -> None:
        rest, self.rest, self._sent_at = self.rest, ShardProgress(), time.monotonic()
        self._send(rest)


class BatchProgress:
    """Reports a packed batch while the model scores it; implements `spanmarker_core.progress.Progress`.

    A batch may be scored again in parts, after a failure: it never counts more than once.

    Args:
        batch: the packed batch.
        n_words: number of words that the model scores in it.
        report: receives the progress.
    """

    def __init__(self, batch: PackedBatch[DocumentBatch], n_words: int, report: Report) -> None:
        self._group, self._report = batch.group, report
        self._n_words, self._words = n_words, 0
        self._n_bytes, self._bytes = batch.group.text_bytes(batch), 0

    @contextmanager
    def phase(self, name: str, total: float | None = None, unit: str = "", done: float = 0) -> Iterator[None]:
        """Ignore phases: scoring is the only one.

        Args:
            name: unused.
            total: unused.
            unit: unused.
            done: unused.
        """
        yield

    def advance(self, count: float = 0, shown: str | None = None) -> None:
        """Report words that the model has scored.

        Args:
            count: number of words.
            shown: unused.
        """
        words = min(self._words + int(count), self._n_words)
        n_bytes = self._n_bytes * words // max(self._n_words, 1)
        step = ShardProgress(words=words - self._words, n_bytes=n_bytes - self._bytes)
        self._words, self._bytes = words, n_bytes
        self._tell(step)

    def found(self, count: int) -> None:
        """Report entities that were found in a batch of the model.

        Args:
            count: their number, which is corrected when the documents are finished.
        """
        self._tell(ShardProgress(entities=count))

    def _tell(self, step: ShardProgress) -> None:
        self._group.told(step.words, step.n_bytes, step.entities)
        self._report(step)
