"""The last attempt at a shard whose other attempts failed: what ends a process is found and rejected.

    read in one isolated process ── batches ──> tried in another, with the model ── batches that pass ──> the usual way

A record whose reading ends the process is alone by then, since records come one by one; of a Parquet row group, the
rest goes with it, since nothing behind the damage can be read. Documents whose tagging ends the process are found by
halving, as those are that raise an exception. It costs time, a process for each fault, and no good document.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from pipelines.isolation import IsolatedProcess, ProcessDied
from pipelines.plan import whole_line
from pipelines.stages.read import RAW_BYTES, Reject
from pipelines.storage import join, open_input, use_options
from pipelines.task import Task
from pipelines.threads import prepare_process
from pipelines.worker import LOAD_SECONDS, model_for
from schemas.shards import Shard

#: Code of the reject of what ends the process that works on it.
ENDS_PROCESS = "ends_process"


class Killed(Exception):
    """Work ended the process; `stage` was under way: split, pack or tag."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(f"{stage} ends the process: {reason}")
        self.stage = stage


class CarefulAttempt:
    """The isolated processes of one attempt; use it as a context manager.

    Args:
        task: what is done with each shard.
        alive: called whenever a process has answered, so that the attempt is not taken for one that hangs.
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
        """Yield what `read(shard, *args)` does; a reject stands for what ends the process.

        Args:
            shard: what to read.
            read: yields items in order, each with the attribute `source_row` or a tuple that begins with it.
            args: its further arguments.
        """
        left: Shard | None = shard
        while left is not None:
            count, last = 0, None
            try:
                if not self._reader.running:
                    self._reader.call(use_options, self._task.storage_options)
                for item in self._reader.each(read, left, *args, seconds=self._task.shard_seconds):
                    self._alive()
                    yield item
                    count, last = count + 1, item
                return
            except ProcessDied as error:
                self._alive()
                reject, left = _without_killer(left, count, _end_of(last), f"reading it ends the process: {error}")
                yield reject

    def run(self, work: Callable[..., Iterator[str]], *args: Any) -> None:
        """Do `work(*args, task, model)` only to see that it doesn't end the process.

        Args:
            work: yields the name of each stage as it begins.
            args: its first arguments.

        Raises:
            Killed: the process ended.
            Exception: what `work` raises.
        """
        if not self._worker.running:
            self._worker.call(_load, self._task, seconds=LOAD_SECONDS)
        stage = "pack"
        try:
            for name in self._worker.each(_work, work, args, self._task, seconds=self._task.shard_seconds):
                stage = name
                self._alive()
        except ProcessDied as error:
            raise Killed(stage, str(error)) from None
        finally:
            self._alive()


def _load(task: Task) -> None:
    prepare_process(task.threads)
    model_for(task)


def _work(work: Callable[..., Iterator[str]], args: tuple[Any, ...], task: Task) -> Iterator[str]:
    return work(*args, task, model_for(task))


def _end_of(item: Any) -> int | None:
    """Return the last row or the offset that an item stands for; None if there is no item."""
    if item is None:
        return None
    row = item[0] if isinstance(item, tuple) else item.source_row
    return row + item.n_documents - 1 if isinstance(item, Reject) and item.n_documents > 1 else row


def _without_killer(shard: Shard, count: int, last: int | None, message: str) -> tuple[Reject, Shard | None]:
    """Return the reject of what comes after the last item of a shard, and the part of the shard behind that.

    Args:
        shard: what was read.
        count: items that were read.
        last: row or offset of the last of them; None if there is none.
        message: of the reject.
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
    if kind == "text":
        files = shard.files[count:]
        left = replace(shard, files=files[1:]) if files[1:] else None
        return reject(join(shard.source, files[0]), 0, 1), left
    # Compressed lines, CoNLL files and folders of `datasets` can't be entered in the middle.
    return reject(shard.source, last, 0), None


def _end_of_row_group(source: str, row: int) -> int:
    """Return the first row behind the row group that holds a row."""
    with open_input(source) as file:
        metadata = pq.ParquetFile(file).metadata
        end = 0
        for group in range(metadata.num_row_groups):
            end += metadata.row_group(group).num_rows
            if end > row:
                break
        return end


def _next_line(shard: Shard, last: int | None) -> tuple[int, int, bytes]:
    """Return start, end and head of the first line of a shard that is not blank and begins behind offset `last`."""
    with open_input(shard.source) as file:
        end = shard.start if last is None else whole_line(file, last + 1)
        head = b""
        while end < shard.end and not head.strip():
            start = end
            file.seek(start)
            head = file.readline(RAW_BYTES)
            end = whole_line(file, start + 1)
        return start, end, head
