"""Rows of Parquet shards, read so that consecutive shards of one row group continue where the last one ended.

Arrow reads a row group from its start, so a shard that begins in the middle of one costs all bytes before it. A process
therefore keeps the last row group open that it did not read to its end. The next shard of it begins there, if it is not
behind. A process so reads a row group at most once as long as its shards come in order.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stages.records import MAX_BATCH_BYTES, MAX_BATCH_DOCUMENTS, Reject
from pipelines.storage import is_storage_error, open_input
from pipelines.storage.fingerprint import field_at
from schemas.shards import Shard
from spanmarker_core.data.blocks import BLOCK_BYTES


@dataclass(slots=True)
class _OpenGroup:
    """A row group that is being read.

    Attributes:
        batches: its rows that were not read yet.
        row: number of the first of them.
        rest: the part of the last batch that was not used yet.
    """

    batches: Iterator[pa.RecordBatch]
    row: int
    rest: pa.RecordBatch | None = None

    def rows(self, start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows [start, end) that were not read yet; fewer if the data ends before `end`."""
        while self.row < end and (batch := self.rest or next(self.batches, None)) is not None:
            count = min(len(batch), end - self.row)
            self.rest = batch.slice(count) if count < len(batch) else None
            row, first = self.row, max(0, start - self.row)
            self.row += count
            if first < count:
                yield row + first, batch.slice(first, count - first)


@dataclass(slots=True)
class _OpenFile:
    """A Parquet file that is being read: the file, and the row group that was read in part, with its number."""

    file: IO[bytes]
    parquet: pq.ParquetFile
    group: _OpenGroup | None = None
    number: int = -1


#: The file that the last shard left in the middle of a row group, and the content and columns that were read.
_left: tuple[Any, _OpenFile] | None = None
_lock = threading.Lock()


def parquet_rows(shard: Shard, columns: Iterable[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of a shard as (number of the first row, rows). Damage in one row group leaves the others readable.

    Args:
        shard: the shard, whose range is in rows.
        columns: paths of the columns to read; those that the file does not have are left out.

    Raises:
        OSError: the storage failed.
    """
    global _left
    key = (shard.source, shard.content, tuple(columns))
    with _lock:
        (known, opened), _left = _left or (None, None), None
    if opened is not None and (known != key or opened.group is None or opened.group.row > shard.start):
        opened.file.close()
        opened = None
    file = open_input(shard.source) if opened is None else opened.file
    to_close: IO[bytes] | None = file
    try:
        if opened is None:
            options = {"buffer_size": BLOCK_BYTES, "pre_buffer": False, "page_checksum_verification": True}
            opened = _OpenFile(file, pq.ParquetFile(file, **options))
        parquet = opened.parquet
        names = [name for column in key[2] for name in _stored(parquet.schema_arrow, column)]
        group_start = 0
        for number in range(parquet.num_row_groups):
            metadata = parquet.metadata.row_group(number)
            start, end = max(shard.start, group_start), min(shard.end, group_start + metadata.num_rows)
            if start < end:
                if opened.number != number or opened.group is None:
                    row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
                    rows = min(MAX_BATCH_DOCUMENTS, max(1, MAX_BATCH_BYTES // row_bytes))
                    batches = parquet.iter_batches(rows, row_groups=[number], columns=names)
                    opened.group, opened.number = _OpenGroup(batches, group_start), number
                yield from _group_rows(shard, opened.group, start, end)
                if opened.group.row != end or end == group_start + metadata.num_rows:
                    opened.group = None
            group_start += metadata.num_rows
        if opened.group is not None and shard.content:
            with _lock:
                replaced, _left = _left, (key, opened)
            to_close = replaced[1].file if replaced is not None else None
    finally:
        if to_close is not None:
            to_close.close()


def _stored(schema: pa.Schema, path: str) -> list[str]:
    """Return where a column is stored: for a field of a column of type null, in that column. [] if it is not there."""
    field = field_at(schema, path)
    if field is None:
        return []
    whole = pa.types.is_null(field.type) and path not in schema.names
    parts = path.split(".")
    return [".".join(parts[: parts.index(field.name) + 1]) if whole else path]


def _group_rows(shard: Shard, group: _OpenGroup, start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows [start, end) of a row group; missing rows become one reject.

    The footer gives the number of rows. Where a page header is damaged, the data has fewer: the reader then ends
    early and raises nothing.
    """
    reason = "the data end before them"
    try:
        yield from group.rows(start, end)
        if group.row >= end:
            return
    except (pa.ArrowException, OSError) as error:
        if is_storage_error(error):
            raise
        reason = str(error)
    row = max(group.row, start)
    message = f"cannot read rows {row} to {end - 1}: {reason}"
    yield Reject(None, shard.source, row, "read", "unreadable_rows", message, None, n_documents=end - row)
