"""Write: rows -> Parquet files that say what made them, published whole."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import publish, writing
from schemas import Table
from schemas.manifest import Output

#: A row group ends when it holds this many rows or this many bytes in memory.
MAX_GROUP_ROWS = 1 << 17
MAX_GROUP_BYTES = 16 << 20


class TableWriter:
    """Gathers batches of one table into row groups of a Parquet file."""

    def __init__(self, url: str, file: IO[bytes], table: Table, footer: dict[str, str]) -> None:
        self._url = url
        self._file = file
        self._schema = table.schema.with_metadata({**table.schema.metadata, **named(footer)})
        self._batches: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self.rows = 0
        with writing(url):
            self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if len(batch) == 0:
            return
        self._batches.append(batch)
        self._held_rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_rows >= MAX_GROUP_ROWS or self._held_bytes >= MAX_GROUP_BYTES:
            self._flush()

    def finish(self) -> Output:
        """Write the footer and return what the file holds."""
        self._flush()
        with writing(self._url):
            self._writer.close()
            self._file.flush()
        return output_of(self._file.name, self.rows)

    def abandon(self) -> None:
        """Forget the file. What is left of it is the caller's to remove."""
        self._writer.is_open = False  # Else it writes its footer when it is collected, into a closed file.

    def _flush(self) -> None:
        if self._batches:
            group = pa.Table.from_batches(self._batches).cast(self._schema)
            with writing(self._url):
                self._writer.write_table(group, row_group_size=MAX_GROUP_ROWS)
            self.rows += self._held_rows
            self._batches, self._held_rows, self._held_bytes = [], 0, 0


def output_of(path: str, rows: int) -> Output:
    """Return what a finished local file of so many rows is to a manifest entry."""
    with open(path, "rb") as written:
        digest = hashlib.file_digest(written, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        return Output(rows, written.tell(), digest)


def named(footer: dict[str, str]) -> dict[str, str]:
    """Return facts under the names that they have in the metadata of a file's schema."""
    return {f"spanmarker.{key}": value for key, value in footer.items()}


@contextlib.contextmanager
def table_writer(url: str, table: Table, footer: dict[str, str]) -> Iterator[TableWriter]:
    """Open a Parquet file that appears at `url` when the block ends well; call `finish` before it does.

    Args:
        url: where the file goes.
        table: its schema and version, which go into its footer.
        footer: more facts for the footer, each as `spanmarker.KEY`.
    """
    with publish(url) as file:
        writer = TableWriter(url, file, table, footer)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise
