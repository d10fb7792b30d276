"""Parquet files: a check of the footer, and ranges of rows."""

from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import ContentIdentity, is_storage_error
from pipelines.storage.fingerprint import chunk_range, groups_in, is_part_of, leaves_of, parquet_content
from spanmarker_core.bundle.files import POINTER, POINTER_PROBLEM
from spanmarker_core.errors import CodedError

#: Maximum number of rows in a Parquet shard, however small they are.
MAX_SHARD_ROWS = 20_000


class Unreadable(Exception):
    """A file can't be read at all; the message gives the reason."""


def opened_parquet(file: IO[bytes], size: int, columns: tuple[str, ...]) -> pq.ParquetFile:
    """Return a Parquet file after checking that its footer can be read and is consistent.

    Args:
        file: the file.
        size: its size in bytes.
        columns: the columns that will be read; the footer is not checked for others.

    Raises:
        Unreadable: the footer is damaged.
        OSError: the storage failed.
    """
    try:
        parquet = pq.ParquetFile(file)
        problem = _footer_problem(parquet, size, columns)
    except CodedError:
        raise
    except OSError as error:
        if is_storage_error(error):
            raise
        problem = str(error)
    except Exception as error:  # raised by Arrow, or by Python for names that are not UTF-8
        problem = str(error)
    if problem is not None:
        file.seek(0)
        if file.read(len(POINTER)) == POINTER:
            raise Unreadable(POINTER_PROBLEM)
        raise Unreadable(f"it is a damaged Parquet file: {problem}")
    return parquet


def _footer_problem(parquet: pq.ParquetFile, size: int, columns: tuple[str, ...]) -> str | None:
    """Return a contradiction within a footer, or between the footer and the size of the file; None if there is none.

    The number of rows is taken from the footer, so a wrong number must be detected here.
    """
    metadata, schema = parquet.metadata, parquet.schema
    leaves = {index: schema.column(index) for index in range(metadata.num_columns)}
    leaves = {index: leaf for index, leaf in leaves.items() if is_part_of(leaf.path, columns)}
    rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0:
            return f"row group {number} has {group.num_rows} rows"
        rows += group.num_rows
        for index, leaf in leaves.items():
            chunk = group.column(index)
            if chunk.path_in_schema != leaf.path or chunk.physical_type != leaf.physical_type:
                return f"column {index} of row group {number} differs from column {index} of the schema"
            flat = leaf.max_repetition_level == 0
            if chunk.num_values < 0 or (flat and chunk.num_values != group.num_rows):
                return f"column {leaf.path!r} of row group {number} has {chunk.num_values} of {group.num_rows} values"
            start, end = chunk_range(chunk)
            if start < 0 or end < start or end > size or chunk.total_uncompressed_size < 0:
                return f"column {leaf.path!r} of row group {number} lies outside the file"
    if rows != metadata.num_rows:
        return f"its row groups have {rows} rows, but the file has {metadata.num_rows}"
    return None


def with_null_types(parquet: pq.ParquetFile, columns: Iterable[str]) -> pa.Schema:
    """Return the schema of a file, with type null for columns of other types that hold nothing but nulls.

    A tool that finds only nulls in a column chooses any type for it, such as float or a list of nulls.

    Args:
        parquet: the open file.
        columns: names of the columns to look at.
    """
    schema, metadata = parquet.schema_arrow, parquet.metadata
    for column in columns:
        leaves = leaves_of(metadata, (column,))
        chunks = (metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups) for leaf in leaves)
        if schema.names.count(column) != 1:
            continue
        index = schema.names.index(column)
        if _of_nulls(schema.field(index).type) or all(map(_only_nulls, chunks)):
            schema = schema.set(index, pa.field(column, pa.null()))
    return schema


def _of_nulls(kind: pa.DataType) -> bool:
    """Return whether a type has no values but null, or lists and structs of null."""
    if pa.types.is_nested(kind):
        return all(_of_nulls(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_null(kind))


def _only_nulls(chunk: pq.ColumnChunkMetaData) -> bool:
    found = chunk.statistics
    nulls = found.null_count if found is not None and found.has_null_count else 0
    return bool(nulls == chunk.num_values)


def parquet_ranges(
    parquet: pq.ParquetFile, content: ContentIdentity, columns: tuple[str, ...], max_shard_bytes: int
) -> Iterator[tuple[int, int, int, str]]:
    """Yield row ranges: small row groups are joined, a large one is divided into equal parts.

    Args:
        parquet: the open file.
        content: identity of its bytes.
        columns: the columns that will be read.
        max_shard_bytes: approximate size of a range in bytes, uncompressed.

    Yields:
        (first row, one past the last row, uncompressed bytes, content).
    """
    metadata = parquet.metadata
    leaves = leaves_of(metadata, columns)

    def identity(groups: list[int]) -> str:
        return parquet_content(parquet, content, columns, groups)

    first_row, rows, n_bytes = 0, 0, 0
    groups: list[int] = []
    for group in range(metadata.num_row_groups):
        group_rows = metadata.row_group(group).num_rows
        group_bytes = sum(metadata.row_group(group).column(leaf).total_uncompressed_size for leaf in leaves)
        if groups and (n_bytes + group_bytes > max_shard_bytes or rows + group_rows > MAX_SHARD_ROWS):
            yield first_row, first_row + rows, n_bytes, identity(groups)
            first_row, rows, n_bytes, groups = first_row + rows, 0, 0, []
        pieces = min(max(-(-group_bytes // max_shard_bytes), -(-group_rows // MAX_SHARD_ROWS)), group_rows)
        if pieces > 1:
            same = identity([group])
            for piece in range(pieces):
                start, end = group_rows * piece // pieces, group_rows * (piece + 1) // pieces
                yield first_row + start, first_row + end, group_bytes // pieces, same
            first_row += group_rows
        else:
            rows, n_bytes = rows + group_rows, n_bytes + group_bytes
            groups.append(group)
    if groups or first_row == 0:
        yield first_row, first_row + rows, n_bytes, identity(groups)


def document_row_ranges(
    parquet: pq.ParquetFile,
    content: ContentIdentity,
    columns: tuple[str, ...],
    document_column: str,
    ranges: Iterable[tuple[int, int, int, str]],
) -> Iterator[tuple[int, int, int, str]]:
    """Yield row ranges that do not divide a document.

    Args:
        parquet: the open file.
        content: identity of its bytes.
        columns: the columns that will be read.
        document_column: column of the id that the consecutive rows of a document share.
        ranges: ranges of `parquet_ranges`; each is extended to the end of its last document.

    Yields:
        (first row, one past the last row, uncompressed bytes, content).
    """
    total, start = parquet.metadata.num_rows, 0
    for _, cut, n_bytes, _ in ranges:
        end = _next_document_row(parquet, cut, document_column) if cut < total else total
        if end > start or not total:
            groups = groups_in(parquet.metadata, start, end)
            yield start, end, n_bytes, parquet_content(parquet, content, columns, groups)
        start = max(start, end)


def _next_document_row(parquet: pq.ParquetFile, row: int, column: str) -> int:
    """Return the first row after `row` that belongs to another document, or the number of rows."""
    first_of_group, document_id = 0, None
    for group in range(parquet.num_row_groups):
        n_rows = parquet.metadata.row_group(group).num_rows
        if first_of_group + n_rows > row:
            ids = _document_ids(parquet, group, column)
            for index in range(max(0, row - first_of_group), n_rows):
                document_id = ids[index] if document_id is None else document_id
                if ids[index] is not None and ids[index] != document_id:
                    return first_of_group + index
        first_of_group += n_rows
    return first_of_group


def _document_ids(parquet: pq.ParquetFile, group: int, column: str) -> list[Any]:
    """Return the ids in a row group; if it can't be read, Nones, so that the shard extends beyond it."""
    try:
        ids = parquet.read_row_group(group, columns=[column])[column].to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and is_storage_error(error):
            raise
        ids = []
    n_rows = parquet.metadata.row_group(group).num_rows
    return ids if len(ids) == n_rows else [None] * n_rows
