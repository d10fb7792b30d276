"""Rows of Parquet and Arrow files, as bounded record batches with their row numbers."""

from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stages.blocks import BLOCK_BYTES
from pipelines.stages.records import MAX_BATCH_BYTES, MAX_BATCH_DOCUMENTS, Reject
from pipelines.storage import is_storage_error, open_input
from schemas.shards import Shard

_ARROW_FILE = b"ARROW1"


def parquet_rows(shard: Shard, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of a shard as (number of the first row, rows). Damage in one row group leaves the others readable.

    Args:
        shard: the shard, whose range is in rows.
        columns: names of the columns to read.

    Raises:
        OSError: the storage failed.
    """
    with open_input(shard.source) as file:
        parquet = pq.ParquetFile(file, buffer_size=BLOCK_BYTES, pre_buffer=False, page_checksum_verification=True)
        group_start = 0
        for group in range(parquet.num_row_groups):
            metadata = parquet.metadata.row_group(group)
            start = max(shard.start, group_start)
            end = min(shard.end, group_start + metadata.num_rows)
            if start < end:
                row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
                rows = min(MAX_BATCH_DOCUMENTS, max(1, MAX_BATCH_BYTES // row_bytes))
                batches = parquet.iter_batches(rows, row_groups=[group], columns=columns)
                yield from _group_rows(shard, batches, group_start, start, end)
            group_start += metadata.num_rows


def _group_rows(
    shard: Shard, batches: Iterator[pa.RecordBatch], row: int, start: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows [start, end) of a row group whose first row is `row`; missing rows become one reject.

    The footer gives the number of rows. Where a page header is damaged, the data has fewer: the reader then ends
    early and raises nothing.
    """
    reason = "the data end before them"
    try:
        for batch in batches:
            if row + len(batch) > start:
                first = max(0, start - row)
                yield row + first, batch.slice(first, min(end - row, len(batch)) - first)
            row += len(batch)
            if row >= end:
                return
    except (pa.ArrowException, OSError) as error:
        if is_storage_error(error):
            raise
        reason = str(error)
    row = max(row, start)
    message = f"rows {row} to {end - 1} can't be read: {reason}"
    yield Reject(None, shard.source, row, "read", "unreadable_rows", message, None, n_documents=end - row)


def arrow_rows(shard: Shard, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of an Arrow file or stream as (number of the first row, rows), up to the first damage.

    Memory holds one record batch of the file.

    Args:
        shard: the shard, a whole file.
        columns: names of the columns to read.

    Raises:
        OSError: the storage failed.
    """
    row = 0
    with open_input(shard.source) as file:
        try:
            for batch in _arrow_batches(arrow_reader(file)):
                batch.validate()
                picked = batch.select(columns)
                for start in range(0, len(picked), MAX_BATCH_DOCUMENTS):
                    yield row + start, picked.slice(start, MAX_BATCH_DOCUMENTS)
                row += len(batch)
        except (pa.ArrowException, OSError) as error:
            if is_storage_error(error):
                raise
            message = f"nothing can be read from row {row:,} on: {error}"
            yield Reject(None, shard.source, row, "read", "damaged_file", message, None, n_documents=0)


def arrow_reader(file: IO[bytes]) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    """Return the reader of an Arrow file (also Feather, version 2) or stream.

    Args:
        file: the file, seekable.

    Raises:
        pa.ArrowException, OSError: it is neither.
    """
    start = file.read(len(_ARROW_FILE))
    file.seek(0)
    return pa.ipc.open_file(file) if start == _ARROW_FILE else pa.ipc.open_stream(file)


def _arrow_batches(reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from map(reader.get_batch, range(reader.num_record_batches))
    else:
        yield from reader
