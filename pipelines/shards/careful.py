"""The last attempt at a shard after all others failed: records and documents that end a process are found and rejected.

    read in one isolated process ── batches ──> tried in another, with the model ── batches that pass ──> the usual way

Records and documents are processed one by one, so that the one that ends the process is known immediately. The rest of
its Parquet row group is rejected as well, because data after the damage can't be read. Documents that pass are then
tried together, and halved if that ends the process. The cost is time and one process per fault, never a valid document
that can be read.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.planning.ranges import whole_line
from pipelines.processes.isolated import IsolatedProcess, ProcessDied, isolate
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.document_batch import reject_of
from pipelines.shards.model import LOAD_SECONDS, model_for
from pipelines.stages.read import ReadBatch
from pipelines.stages.read_annotated import AnnotatedBatch
from pipelines.stages.records import RAW_BYTES, Reject
from pipelines.storage import join, open_input, use_options
from pipelines.task import Task
from schemas.shards import Shard

Batch = TypeVar("Batch", ReadBatch, AnnotatedBatch)

#: Reject code of a record or document that ends the process that works on it.
ENDS_PROCESS = "ends_process"


class Killed(Exception):
    """An item ended the process that worked on it.

    Args:
        place: index of the item.
        stage: the stage: split, pack or tag.
        reason: how the process ended.
    """

    def __init__(self, place: int, stage: str, reason: str) -> None:
        super().__init__(f"its process ended: {reason}")
        self.place, self.stage = place, stage


class CarefulAttempt:
    """The isolated processes of one attempt; use it as a context manager.

    Args:
        task: the shard task.
        alive: called whenever a process has responded, so that the attempt is not considered stalled.
    """

    def __init__(self, task: Task, alive: Callable[[], None]) -> None:
        self._task, self._alive = task, alive
        self._reader, self._worker = IsolatedProcess(task.worker_bytes), IsolatedProcess(task.worker_bytes)

    def __enter__(self) -> "CarefulAttempt":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._worker.close()

    def records(self, shard: Shard, read: Callable[..., Iterator[Any]], *args: Any) -> Iterator[Any]:
        """Yield the items of `read(shard, *args)`; a record that ends the process becomes a reject.

        Args:
            shard: the shard.
            read: yields items in order; each has the attribute `source_row` or is a tuple that begins with it.
            args: its further arguments.
        """
        left: Shard | None = shard
        while left is not None:
            count, last = 0, None
            if not self._reader.running:  # A process that can't even start says nothing about a record.
                self._reader.call(use_options, self._task.storage_options)
            try:
                for item in self._reader.each(read, left, *args, seconds=self._task.shard_seconds):
                    self._alive()
                    yield item
                    count, last = count + 1, item
                return
            except ProcessDied as error:
                self._alive()
                reject, left = _without_killer(left, count, _end_of(last), f"the process that read it ended: {error}")
                yield reject

    def sorted_out(
        self, items: Sequence[Any] | pa.RecordBatch, work: Callable[..., Iterator[str]]
    ) -> Iterator[tuple[int, int, "Killed | None"]]:
        """Yield ranges of items that can be processed together, and each item that ends the process, in order.

        Args:
            items: documents, or windows by document; sliceable.
            work: called with a slice of the items, the task and the model; yields the name of each stage as it begins.

        Yields:
            (start, end, None), or (start, start + 1, the `Killed` error of the item).
        """
        start, killers = 0, self._killers(items, work)
        for place in [*killers, len(items)]:

            def together(first: int, last: int, start: int = start) -> None:
                self._run(_together, work, items[start + first : start + last])

            # Each item passes alone. Items that end the process only together are halved.
            for first, last, outcome in isolate(place - start, together):
                yield start + first, start + last, outcome if isinstance(outcome, Killed) else None
            if place in killers:
                yield place, place + 1, killers[place]
            start = place + 1

    def survivors(
        self,
        batches: Iterable[Batch],
        work: Callable[..., Iterator[str]],
        inputs: Callable[[Any], pa.RecordBatch] = lambda documents: documents,
    ) -> Iterator[Batch]:
        """Yield batches without the documents that end a process; these become rejects.

        Args:
            batches: dataclasses with `documents`, which can be sliced, and `rejects`.
            work: processes documents, as in `sorted_out`.
            inputs: returns documents as INPUTS rows.
        """
        for batch in batches:
            rejects = batch.rejects
            for start, end, killed in self.sorted_out(batch.documents, work):
                documents = batch.documents[start:end]
                if killed is not None:
                    rejects.append(reject_of(inputs(documents), 0, killed.stage, ENDS_PROCESS, str(killed)))
                else:  # Documents that raise an exception are rejected in normal processing.
                    yield replace(batch, documents=documents, rejects=rejects)
                    rejects = []
            if rejects:
                yield replace(batch, documents=batch.documents[:0], rejects=rejects)

    def _killers(
        self, items: Sequence[Any] | pa.RecordBatch, work: Callable[..., Iterator[str]]
    ) -> dict[int, "Killed"]:
        """Return the items that end the process when they are processed one by one, by index."""
        killers: dict[int, Killed] = {}
        start = 0
        while start < len(items):
            try:
                self._run(_one_by_one, work, items[start:])
                break
            except Killed as killed:
                start += killed.place
                killers[start] = killed
                start += 1
        return killers

    def _run(self, how: Callable[..., Iterator[tuple[int, str]]], work: Callable[..., Any], items: Any) -> None:
        """Process items only to check that they do not end the process.

        Raises:
            Killed: the process ended.
        """
        if not self._worker.running:
            self._worker.call(_load, self._task, seconds=LOAD_SECONDS)
        place, stage = 0, "pack"
        try:
            for reached in self._worker.each(how, work, items, self._task, seconds=self._task.shard_seconds):
                place, stage = reached
                self._alive()
        except ProcessDied as error:
            raise Killed(place, stage, str(error)) from None
        finally:
            self._alive()


def _load(task: Task) -> None:
    prepare_process(task.threads)
    model_for(task)


def _one_by_one(work: Callable[..., Iterator[str]], items: Any, task: Task) -> Iterator[tuple[int, str]]:
    """Yield (index, stage) before each stage of each item. Exceptions are ignored: they recur in normal processing."""
    for place in range(len(items)):
        with contextlib.suppress(Exception):
            for stage in work(items[place : place + 1], task, model_for(task)):
                yield place, stage


def _together(work: Callable[..., Iterator[str]], items: Any, task: Task) -> Iterator[tuple[int, str]]:
    with contextlib.suppress(Exception):
        for stage in work(items, task, model_for(task)):
            yield 0, stage


def _end_of(item: Any) -> int | None:
    """Return the last row or the offset of an item; None if there is no item."""
    if item is None:
        return None
    row = item[0] if isinstance(item, tuple) else item.source_row
    return row + item.n_documents - 1 if isinstance(item, Reject) and item.n_documents > 1 else row


def _without_killer(shard: Shard, count: int, last: int | None, message: str) -> tuple[Reject, Shard | None]:
    """Return the reject of the record after the last item read, and the rest of the shard.

    Args:
        shard: the shard that was read.
        count: number of items read.
        last: row or offset of the last of them; None if there is none.
        message: message of the reject.
    """

    def reject(source: str, row: int | None, n_documents: int, raw: bytes | None = None) -> Reject:
        return Reject(None, source, row, "read", ENDS_PROCESS, message, raw, n_documents=n_documents)

    kind = shard.format.rpartition(".")[2]
    if kind == "parquet":
        start = shard.start if last is None else last + 1
        end = min(shard.end, _end_of_row_group(shard.source, start))
        return reject(shard.source, start, end - start), replace(shard, start=end) if end < shard.end else None
    if kind == "jsonl":
        start, end, line = _next_line(shard, last)
        return reject(shard.source, start, 1, line), replace(shard, start=end) if end < shard.end else None
    if shard.files:
        files = shard.files[count:]
        left = replace(shard, files=files[1:]) if files[1:] else None
        return reject(join(shard.source, files[0]), 0, 1), left
    # Compressed lines, CoNLL files and folders of `datasets` can't be read from the middle.
    return reject(shard.source, last, 0), None


def _end_of_row_group(source: str, row: int) -> int:
    """Return the first row after the row group that contains a row."""
    with open_input(source) as file:
        metadata = pq.ParquetFile(file).metadata
        end = 0
        for group in range(metadata.num_row_groups):
            end += metadata.row_group(group).num_rows
            if end > row:
                break
        return end


def _next_line(shard: Shard, last: int | None) -> tuple[int, int, bytes]:
    """Return start, end and first bytes of the first non-blank line of a shard that begins after offset `last`."""
    with open_input(shard.source) as file:
        end = shard.start if last is None else whole_line(file, last + 1)
        head = b""
        while end < shard.end and not head.strip():
            start = end
            file.seek(start)
            head = file.readline(RAW_BYTES)
            end = whole_line(file, start + 1)
        return start, end, head
