"""The manifest table, `manifest/entries.parquet`: the entries that are no longer separate files.

Only the holder of the output's lock replaces it, always as a whole. `pipelines.output.manifest` describes which
entries it holds.
"""

import bisect
import contextlib
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.processes.isolated import ProcessDied, shared_process
from pipelines.storage import (
    given_options,
    is_storage_error,
    join,
    open_input,
    publish,
    remove,
    use_options,
    writing,
)
from schemas.manifest import ENTRIES, Entry

_checking = threading.Lock()  # The isolated process serves one thread at a time.

#: Rows per row group, the unit that is read to find one entry.
GROUP_ROWS = 4096


def table_file(output: str) -> str:
    """Return the path of the manifest table.

    Args:
        output: the output folder.
    """
    return join(output, "manifest", "entries.parquet")


def batch_of(entries: list[Entry]) -> pa.RecordBatch:
    """Return the ENTRIES rows of some entries, in order.

    Args:
        entries: the entries.
    """
    return pa.RecordBatch.from_pydict(
        {
            "shard": [entry.shard for entry in entries],
            "job": [entry.job for entry in entries],
            "source": [entry.source.encode("utf-8", "surrogateescape") for entry in entries],
            "files": [[name.encode("utf-8", "surrogateescape") for name in entry.files] for entry in entries],
            "outputs": [[(table, part.n_bytes) for table, part in entry.outputs.items()] for entry in entries],
            "entry": [entry.to_json() for entry in entries],
        },
        schema=ENTRIES.schema,
    )


def batches(output: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the table's rows, sorted by shard; none if there is no table. Memory holds one row group.

    A damaged table that crashes its reader is an error here. Look-ups (`rows_of`) rely on that: each run and each
    report reads the whole table first.

    Args:
        output: the output folder.
        columns: the columns to read.

    Raises:
        PipelineError: `output.table_damaged`, `output.not_readable`.
    """
    with _opened(output, check=True) as parquet:
        if parquet is None:
            return
        for group in range(parquet.num_row_groups):
            yield from parquet.read_row_group(group, columns=columns).to_batches()


def rows_of(output: str, shards: list[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some shards, where the table has them. Reads only the row groups that may contain them.

    Args:
        output: the output folder.
        shards: sorted names.
        columns: the columns to read; the first is "shard".

    Raises:
        PipelineError: `output.table_damaged`, `output.not_readable`.
    """
    with _opened(output, check=False) as parquet:
        if parquet is None:
            return
        for group in range(parquet.num_row_groups):
            statistics = parquet.metadata.row_group(group).column(0).statistics
            first = bisect.bisect_left(shards, statistics.min)
            if first < len(shards) and shards[first] <= statistics.max:
                rows = parquet.read_row_group(group, columns=columns)
                rows = rows.filter(pc.is_in(rows["shard"], value_set=pa.array(shards)))
                yield from filter(len, rows.to_batches())


def replace(output: str, rows: Iterable[pa.RecordBatch]) -> None:
    """Publish a new table in place of the existing one; without rows, remove the table.

    Args:
        output: the output folder.
        rows: ENTRIES rows, sorted by shard.

    Raises:
        PipelineError: `output.not_writable`.
    """
    path, empty = table_file(output), True
    with contextlib.ExitStack() as stack:
        for group in _groups(rows):
            if empty:
                empty = False
                file = stack.enter_context(publish(path))
                stack.enter_context(writing(path))
                writer = stack.enter_context(
                    pq.ParquetWriter(file, ENTRIES.schema, compression="zstd", write_page_checksum=True)
                )
            writer.write_table(group, row_group_size=len(group))
    if empty:
        with writing(path):
            remove(path)


def _groups(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in rows:
        held.append(batch)
        if sum(map(len, held)) >= GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if any(map(len, held)):
        yield pa.Table.from_batches(held)


@contextlib.contextmanager
def _opened(output: str, check: bool) -> Iterator[pq.ParquetFile | None]:
    """Open the table; None if there is none. With `check`, a damaged file that would end this process is an error."""
    path = table_file(output)
    try:
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open_input(path))
            except FileNotFoundError:
                file = None
            if file is None:
                yield None
                return
            if check and not path.startswith("memory://"):  # Files in memory are visible only in this process.
                with _checking:
                    shared_process().call(_open_footer, given_options(), path)
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            found = (parquet.schema_arrow.metadata or {}).get(b"spanmarker.schema_version", b"none").decode()
            if found != str(ENTRIES.version):
                raise pa.ArrowInvalid(f"it has version {found}, but this program reads version {ENTRIES.version}")
            yield parquet
    except (pa.ArrowException, OSError, UnicodeDecodeError, ProcessDied) as error:
        damaged = not isinstance(error, OSError) or not is_storage_error(error)
        code = "output.table_damaged" if damaged else "output.not_readable"
        raise PipelineError(code, path=path, reason=error) from error


def _open_footer(options: tuple[str, ...], path: str) -> None:
    """Open the table, which may end the process if the file is damaged. Runs in the isolated process."""
    use_options(options)
    with open_input(path) as file:
        pq.ParquetFile(file)


def merged(first: Iterator[pa.RecordBatch], second: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge two sequences of batches, each sorted by shard; memory holds one batch of each.

    Args:
        first: batches with the column "shard", none of them empty.
        second: other batches with the same columns.
    """
    one, other = next(first, None), next(second, None)
    while one is not None and other is not None:
        bound = min(one["shard"][-1].as_py(), other["shard"][-1].as_py())
        (low, one), (high, other) = _cut(one, bound, first), _cut(other, bound, second)
        yield pa.concat_batches([low, high]).sort_by("shard")
    for rest, following in ((one, first), (other, second)):
        if rest is not None:
            yield rest
            yield from following


def _cut(
    rows: pa.RecordBatch, bound: str, following: Iterator[pa.RecordBatch]
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Return the rows up to a shard, and the rows after it or, if there are none, the next batch."""
    count = pc.sum(pc.less_equal(rows["shard"], bound)).as_py()
    return rows[:count], rows[count:] if count < len(rows) else next(following, None)
