"""Rows of Arrow files and streams, as bounded record batches with their row numbers."""

from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa

from pipelines.stages.paths import roots
from pipelines.stages.records import MAX_BATCH_DOCUMENTS, Reject
from pipelines.storage import is_storage_error, open_input
from schemas.shards import Shard

_ARROW_FILE = b"ARROW1"


def arrow_rows(shard: Shard, columns: Iterable[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of an Arrow file or stream as (number of the first row, rows), up to the first damage.

    Memory holds one record batch of the file.

    Args:
        shard: the shard, a whole file.
        columns: paths of the columns to read; those that the file does not have are left out.

    Raises:
        OSError: the storage failed.
    """
    row, paths = 0, tuple(columns)
    with open_input(shard.source) as file:
        try:
            for batch in _arrow_batches(arrow_reader(file)):
                batch.validate()
                picked = batch.select(roots(batch.schema.names, paths))
                for start in range(0, len(picked), MAX_BATCH_DOCUMENTS):
                    yield row + start, picked.slice(start, MAX_BATCH_DOCUMENTS)
                row += len(batch)
        except (pa.ArrowException, OSError) as error:
            if is_storage_error(error):
                raise
            message = f"cannot read anything from row {row:,} on: {error}"
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
