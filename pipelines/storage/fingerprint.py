"""Fingerprints of a shard's input. The plan and the shard task use the same functions to detect changes."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import ContentIdentity, is_storage_error, join, open_input
from schemas.shards import Shard

_TO_THE_END = (0, 1 << 62)

#: Age in nanoseconds from which the times of a file reveal the next change, whatever their resolution.
_SETTLED_NS = 2_000_000_000


def content_now(shard: Shard, *columns: str) -> str:
    """Return the current identity of the content in a shard's range: `shard.content`, unless the input changed.

    Args:
        shard: the shard.
        columns: columns that the identity covers; used for Parquet only.

    Raises:
        OSError: the storage failed.
    """
    if shard.format == "unreadable" and not shard.content:
        return ""
    if shard.files:
        return text_content(join(shard.source, name) for name in shard.files)
    with open_input(shard.source) as file:
        content = ContentIdentity(shard.source, file)
        if shard.format == "parquet":
            try:
                parquet = pq.ParquetFile(file)
                groups = groups_in(parquet.metadata, shard.start, shard.end)
                return _known.content(
                    file, (columns, *groups), lambda: parquet_content(parquet, content, columns, groups)
                )
            except (pa.ArrowException, OSError, KeyError) as error:
                if isinstance(error, OSError) and is_storage_error(error):
                    raise
                return f"not a readable Parquet file: {error}"
        return content.of([(shard.start, shard.end) if shard.format == "jsonl" else _TO_THE_END])


class _Known:
    """The content of the last row groups of a local file, so that it is not hashed again for each of their shards."""

    def __init__(self) -> None:
        self._last: tuple[Any, str] | None = None

    def content(self, file: IO[bytes], what: tuple[Any, ...], content: Callable[[], str]) -> str:
        """Return the content of a part of a file: the known one, unless the file changed or may just be changing.

        Args:
            file: the file.
            what: the part.
            content: determines its content.
        """
        key = (_state(file), what)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        found = content()
        self._last = (key, found) if key[0] is not None and _state(file) == key[0] else None
        return found


_known = _Known()


def _state(file: IO[bytes]) -> tuple[int, ...] | None:
    """Return what changes with the content of a local file; None for a store, or after a change a moment ago."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return state if settled else None


def parquet_content(
    parquet: pq.ParquetFile, content: ContentIdentity, columns: tuple[str, ...], groups: Iterable[int]
) -> str:
    """Return the identity of columns in some row groups; row groups without rows are ignored.

    Args:
        parquet: the open file.
        content: identity of the same file's bytes.
        columns: paths of the columns; the file may lack some.
        groups: numbers of the row groups.
    """
    fields = (field_at(parquet.schema_arrow, column) for column in columns)
    kinds = " ".join(str(field.type) for field in fields if field is not None)
    metadata = parquet.metadata
    chunks = [
        metadata.row_group(group).column(leaf)
        for group in groups
        if metadata.row_group(group).num_rows
        for leaf in leaves_of(metadata, columns)
    ]
    return f"{kinds} {content.of(map(chunk_range, chunks))}"


def leaves_of(metadata: pq.FileMetaData, columns: tuple[str, ...]) -> list[int]:
    """Return the indices of the columns' chunks in each row group; a nested column has one chunk for each of its parts.

    Args:
        metadata: the file's footer.
        columns: paths of the columns.
    """
    if not metadata.num_row_groups:
        return []
    first = metadata.row_group(0)
    paths = [first.column(index).path_in_schema for index in range(metadata.num_columns)]
    return [index for index, path in enumerate(paths) if is_part_of(path, columns)]


def is_part_of(path: str, columns: Iterable[str]) -> bool:
    """Return whether a leaf of a Parquet schema belongs to one of some columns.

    Args:
        path: path of the leaf.
        columns: paths of the columns.

    >>> is_part_of("meta.list.element", ["meta"]), is_part_of("metadata", ["meta"])
    (True, False)
    """
    return any(path == column or path.startswith(f"{column}.") for column in columns)


def field_at(schema: pa.Schema, path: str) -> pa.Field | None:
    """Return the field at a path: a column of that very name, else a field within structs; None if there is neither.

    A column of type null, which stands for a struct with nothing but nulls, is returned for each of its fields.

    Args:
        schema: the schema of a table.
        path: such as `text` or `metadata.text`.

    >>> field_at(pa.schema({"metadata": pa.struct({"text": pa.string()})}), "metadata.text").type
    DataType(string)
    """
    fields: Any = schema
    if path in schema.names:
        return schema.field(schema.names.index(path))
    *parents, name = path.split(".")
    for parent in parents:
        found = {field.name: field for field in fields}.get(parent)
        if found is not None and pa.types.is_null(found.type):
            return found
        if found is None or not pa.types.is_struct(found.type):
            return None
        fields = found.type
    return next((field for field in fields if field.name == name), None)


def text_content(paths: Iterable[str]) -> str:
    """Return the identity of whole files.

    Args:
        paths: paths or URLs.
    """
    contents = []
    for path in paths:
        with open_input(path) as file:
            contents.append(ContentIdentity(path, file).of([_TO_THE_END]))
    return digest_of(*contents)


def digest_of(*parts: str) -> str:
    """Return a digest of strings: 128 bits, hexadecimal.

    Args:
        parts: the strings, in order.
    """
    whole = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def groups_in(metadata: pq.FileMetaData, start: int, end: int) -> list[int]:
    """Return the numbers of the row groups that have rows in [start, end).

    Args:
        metadata: the file's footer.
        start: first row.
        end: one past the last row.
    """
    groups, first = [], 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if rows and first < end and first + rows > start:
            groups.append(group)
        first += rows
    return groups


def chunk_range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return the bytes [start, end) that a column chunk takes in its file, according to the footer.

    Args:
        chunk: the chunk's entry in the footer.
    """
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size
