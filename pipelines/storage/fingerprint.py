"""Fingerprints of a shard's input. The plan and the shard task use the same functions to detect changes."""

import hashlib
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import ContentIdentity, is_storage_error, join, open_input
from schemas.shards import Shard

_TO_THE_END = (0, 1 << 62)


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
                return parquet_content(parquet, content, columns, groups)
            except (pa.ArrowException, OSError, KeyError) as error:
                if isinstance(error, OSError) and is_storage_error(error):
                    raise
                return f"no such Parquet file: {error}"
        return content.of([(shard.start, shard.end) if shard.format == "jsonl" else _TO_THE_END])


def parquet_content(
    parquet: pq.ParquetFile, content: ContentIdentity, columns: tuple[str, ...], groups: Iterable[int]
) -> str:
    """Return the identity of columns in some row groups; row groups without rows are ignored.

    Args:
        parquet: the open file.
        content: identity of the same file's bytes.
        columns: names of the columns.
        groups: numbers of the row groups.
    """
    kinds = " ".join(str(parquet.schema_arrow.field(column).type) for column in columns)
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
        columns: names of the columns.
    """
    if not metadata.num_row_groups:
        return []
    first = metadata.row_group(0)
    paths = [first.column(index).path_in_schema for index in range(metadata.num_columns)]
    return [index for index, path in enumerate(paths) if path in columns or path.partition(".")[0] in columns]


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
