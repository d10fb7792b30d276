"""Ranges of one file that become shards: rows of Parquet, JSON lines, or the whole file."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from pipelines.planning.files import Range
from pipelines.planning.inputs import BadColumns
from pipelines.planning.parquet import Unreadable, document_row_ranges, opened_parquet, parquet_ranges, with_null_types
from pipelines.stages.formats import Examined, examined, format_named
from pipelines.stages.paths import is_missing, value_at
from pipelines.storage import ContentIdentity, is_storage_error, open_input
from pipelines.storage.fingerprint import field_at
from spanmarker_core.bundle.files import POINTER, POINTER_PROBLEM
from spanmarker_core.data.blocks import compression_of

#: Bytes by which content is recognised that is not what the name of the file says.
_START_BYTES = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """How the records of a file are laid out.

    Attributes:
        columns: the columns or keys that are read.
        form: beginning of the shard's format, before the kind of the file.
        document_column: column of the id that the consecutive records of a document share; no range divides a document.
            None if each record is a document.
    """

    columns: tuple[str, ...]
    form: str = ""
    document_column: str | None = None


#: Returns the layout of a file from its columns or keys and, for a table, its schema; raises `BadColumns`.
LayoutOf = Callable[[list[str], pa.Schema | None], Layout]


def file_ranges(
    path: str,
    size: int,
    kind: str,
    columns: tuple[str, ...],
    layout_of: LayoutOf,
    max_shard_bytes: int,
    nullable: tuple[str, ...] = (),
) -> Iterator[Range]:
    """Yield the ranges of a file that become shards.

    Args:
        path: the file.
        size: its size in bytes.
        kind: its format as named, with its compression; see `pipelines.stages.formats`.
        columns: the columns that may be read; the footer of a Parquet file is not checked for others.
        layout_of: returns the layout of the file.
        max_shard_bytes: approximate size of a shard, in bytes.
        nullable: columns that `layout_of` sees with type null if they hold nothing but nulls.

    Raises:
        BadColumns: the file lacks a column or stores it with another type.
        Unreadable: the file is not sound.
        OSError: the storage failed.
    """
    with open_input(path) as file:
        content = ContentIdentity(path, file)
        if kind == "parquet":
            parquet = opened_parquet(file, size, columns)
            schema = with_null_types(parquet, nullable)
            layout = layout_of(schema.names, schema)
            ranges = parquet_ranges(parquet, content, layout.columns, max_shard_bytes)
            if layout.document_column is not None:
                ranges = document_row_ranges(parquet, content, layout.columns, layout.document_column, ranges)
            for range_ in ranges:
                yield layout.form + kind, *range_
            return
        found = examined_file(file, kind)
        layout = layout_of(_names(found, columns), found.schema)
        if found.kind == "jsonl":
            for start, end in _line_ranges(file, size, max_shard_bytes, layout.document_column):
                yield layout.form + found.kind, start, end, end - start, content.of([(start, end)])
        else:
            yield layout.form + found.kind, 0, size, size, content.of([(0, size)])


def examined_file(file: IO[bytes], kind: str) -> Examined:
    """Return the format, columns and first records of a file.

    Args:
        file: the file, seekable; not Parquet.
        kind: its format as named, with its compression.

    Raises:
        Unreadable: the file is not sound.
        OSError: the storage failed.
    """
    start = file.read(_START_BYTES)
    file.seek(0)
    if start.startswith(POINTER):
        raise Unreadable(POINTER_PROBLEM)
    if (packed := compression_of(start)) is not None and "." not in kind and format_named(kind).compressed:
        raise Unreadable(f"its content is compressed, and its name does not say so: pass --format {kind}.{packed}")
    try:
        return examined(file, kind)
    except (pa.ArrowException, OSError) as error:
        if is_storage_error(error):
            raise
        raise Unreadable(f"it is not a sound {format_named(kind).title} file: {error}") from None


def _names(found: Examined, paths: Iterable[str]) -> list[str]:
    """Return the names of columns or keys, and which of some paths lead into the first records; none if unknown."""
    names = list(found.names)
    inner = (path for path in paths if any(not is_missing(value_at(record, path)) for record in found.records))
    return names and [*names, *(path for path in inner if path not in names)]


def check_columns(
    names: list[str], schema: pa.Schema | None, fits: Mapping[str, Callable[[pa.DataType], bool]]
) -> None:
    """Check that a file has some columns or keys, each once, and of the right types.

    Args:
        names: the file's columns, or the keys of its first records; none are accepted, except for a table.
        schema: schema of a table; None for other files.
        fits: for each required column, returns whether a type is right.

    Raises:
        BadColumns: a column is missing, occurs twice or has another type.
    """
    problems = []
    for column, is_right in fits.items():
        found = None if schema is None else field_at(schema, column)
        if found is None and (schema is not None or column not in names):
            right = names if schema is None else [field.name for field in schema if is_right(field.type)]
            problems.append(f"no {column!r}{suggestion(column, right)}")
        elif names.count(column) > 1:
            problems.append(f"{column!r} twice")
        elif found is not None and not is_right(found.type):
            problems.append(f"{column!r} is {found.type}")
    if problems and (names or schema is not None):
        where = "its first records have" if schema is None else "its columns are"
        raise BadColumns(f"{', '.join(problems)}; {where} {', '.join(names)}")


def suggestion(column: str, names: Iterable[str]) -> str:
    """Return a suggestion of the column that is most like a missing one, for a message, or nothing.

    Args:
        column: the missing column.
        names: the columns that there are.
    """
    by_case = {name.casefold(): name for name in reversed(list(names))}
    similar = difflib.get_close_matches(column.casefold(), by_case, n=1)
    return f" (did you mean {by_case[similar[0]]!r}?)" if similar else ""


def is_string(kind: pa.DataType) -> bool:
    """Return whether a column holds strings.

    Args:
        kind: the column's type.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _line_ranges(
    file: IO[bytes], size: int, max_shard_bytes: int, document_column: str | None
) -> Iterator[tuple[int, int]]:
    """Yield byte ranges of at least `max_shard_bytes` that end where a line or document ends, or the file."""
    start = 0
    while start < size or start == 0:
        end = min(start + max_shard_bytes, size)
        if 0 < end < size:
            end = whole_line(file, end)
            if document_column is not None:
                end = _next_document(file, end, document_column)
        yield start, end
        start = end
        if size == 0:
            return


def whole_line(file: IO[bytes], end: int) -> int:
    """Return the end of the line that holds the byte before `end`, as a byte offset.

    Args:
        file: the file, seekable.
        end: a byte offset.
    """
    file.seek(end - 1)
    while (piece := file.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass
    return file.tell()


def _next_document(file: IO[bytes], position: int, column: str) -> int:
    """Return the byte at which the first line of another document than that at `position` begins, or the file's end."""
    document_id: Any = None
    file.seek(position)
    while line := file.readline():
        try:
            found = json.loads(line)[column]
        except (ValueError, RecursionError, KeyError, TypeError):
            found = None  # an invalid record stays with the previous document
        document_id = found if document_id is None else document_id
        if found is not None and found != document_id:
            break
        position += len(line)
    return position
