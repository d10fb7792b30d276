"""Write: rows -> Parquet or Arrow files, published atomically, with their origin in the footer."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import publish, writing
from schemas import Table
from schemas.manifest import Output

#: Limits of a row group, in rows and in bytes in memory.
MAX_GROUP_ROWS = 1 << 17
MAX_GROUP_BYTES = 16 << 20


class _TableFile:
    """One file of a table, while it is written.

    Args:
        url: where the file will be published, for error messages.
        file: a local file, open for writing.
        table: the table's schema and version.
        footer: further metadata, each stored as `spanmarker.KEY`.

    Attributes:
        rows: number of rows written.
    """

    _writer: Any  # of pyarrow; a subclass opens it

    def __init__(self, url: str, file: IO[bytes], table: Table, footer: dict[str, str]) -> None:
        self._url, self._file = url, file
        self._schema = table.schema.with_metadata({**table.schema.metadata, **named(footer)})
        self.rows = 0

    def finish(self) -> Output:
        """Write the footer and return the file's size, digest and number of rows."""
        with writing(self._url):
            self._writer.close()
            self._file.flush()
        return output_of(self._file.name, self.rows)


class TableWriter(_TableFile):
    """A writer that collects batches of one table into the row groups of a Parquet file; use `table_writer`."""

    def __init__(self, url: str, file: IO[bytes], table: Table, footer: dict[str, str]) -> None:
        super().__init__(url, file, table, footer)
        self._batches: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        with writing(url):
            self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            batch: rows of the table.
        """
        if len(batch) == 0:
            return
        self._batches.append(batch)
        self._held_rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_rows >= MAX_GROUP_ROWS or self._held_bytes >= MAX_GROUP_BYTES:
            self._flush()

    def finish(self) -> Output:
        """Write the remaining rows and the footer, and return the file's size, digest and number of rows."""
        self._flush()
        return super().finish()

    def abandon(self) -> None:
        """Discard the writer. The caller removes the file."""
        self._writer.is_open = False  # Otherwise its finaliser writes a footer into a closed file.

    def _flush(self) -> None:
        if self._batches:
            group = pa.Table.from_batches(self._batches).cast(self._schema)
            with writing(self._url):
                self._writer.write_table(group, row_group_size=MAX_GROUP_ROWS)
            self.rows += self._held_rows
            self._batches, self._held_rows, self._held_bytes = [], 0, 0


class ArrowFile(_TableFile):
    """A writer of an Arrow IPC file; use `arrow_file`."""

    def __init__(self, url: str, file: IO[bytes], table: Table, footer: dict[str, str]) -> None:
        super().__init__(url, file, table, footer)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with writing(url):
            self._writer = pa.ipc.new_file(file, self._schema, options=options)

    def write(self, batch: pa.RecordBatch, metadata: dict[bytes, bytes] | None = None) -> None:
        """Add a record batch.

        Args:
            batch: rows of the table.
            metadata: metadata of the record batch.
        """
        with writing(self._url):
            self._writer.write_batch(batch, custom_metadata=metadata)
        self.rows += len(batch)


def output_of(path: str, rows: int) -> Output:
    """Return the manifest's record of a finished file.

    Args:
        path: path of a local file.
        rows: number of its rows.
    """
    with open(path, "rb") as written:
        digest = hashlib.file_digest(written, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        return Output(rows, written.tell(), digest)


def named(footer: dict[str, str]) -> dict[str, str]:
    """Return metadata under the names used in a file's schema.

    Args:
        footer: value by name.
    """
    return {f"spanmarker.{key}": value for key, value in footer.items()}


@contextlib.contextmanager
def table_writer(url: str, table: Table, footer: dict[str, str]) -> Iterator[TableWriter]:
    """Open a Parquet file that appears at `url` when the block ends without an exception.

    Call `finish` inside the block.

    Args:
        url: where the file is published, a path or URL.
        table: its schema and version, which are stored in its footer.
        footer: further metadata for the footer, each stored as `spanmarker.KEY`.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with publish(url) as file:
        writer = TableWriter(url, file, table, footer)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise


@contextlib.contextmanager
def arrow_file(url: str, table: Table, footer: dict[str, str]) -> Iterator[ArrowFile]:
    """Open an Arrow IPC file that appears at `url` when the block ends without an exception.

    Call `finish` inside the block.

    Args:
        url: where the file is published, a path or URL.
        table: its schema and version.
        footer: further metadata, each stored as `spanmarker.KEY`.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with publish(url) as file:
        yield ArrowFile(url, file, table, footer)
