"""Columns of records: ids, texts and languages, from Arrow batches and from JSON values.

A column is named by a path: `metadata.text` is the field `text` of the column or object `metadata`, unless a column or
key has that very name.

Ids of every type become strings: integers, decimals, dates, times and timestamps as Arrow prints them, a timestamp with
a time zone in UTC, and fractions of seconds without zeros at their end; UUIDs with hyphens;
other binary ids of a fixed size in hexadecimal; those of any size as the UTF-8 text that they are, otherwise as `0x`
and hexadecimal digits. An id that is made is `SOURCE:ROW`, with the `source` and `source_row` of the document.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.stages.records import clean
from pipelines.task import Columns

_MISSING = object()


def made_id(source: str, source_row: int) -> str:
    """Return the id of a document that has none: the same in every run, however the work is divided.

    Args:
        source: the file.
        source_row: where the document is in the file.
    """
    return f"{clean(source)}:{source_row}"


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of a column are kept: without dictionaries and views, which Arrow can't combine.

    Args:
        kind: type of the column.
    """
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column can hold texts: strings, their bytes in UTF-8, or nothing but nulls.

    Args:
        kind: type of the column.
    """
    kind = stored_type(kind)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return pa.types.is_null(kind) or any(test(kind) for test in tests)


def is_id(kind: pa.DataType) -> bool:
    """Return whether a column can hold ids of documents.

    Args:
        kind: type of the column.
    """
    kind = _storage(stored_type(kind))
    tests = (pa.types.is_integer, pa.types.is_fixed_size_binary, pa.types.is_decimal, pa.types.is_temporal)
    durations = pa.types.is_duration(kind) or pa.types.is_interval(kind)
    return is_text(kind) or (any(test(kind) for test in tests) and not durations)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def column_at(batch: pa.RecordBatch, path: str) -> pa.Array | None:
    """Return the column at a path; None if there is none.

    Args:
        batch: rows of a table.
        path: such as `text` or `metadata.text`.
    """
    if path in batch.schema.names:
        return batch.column(batch.schema.names.index(path))
    parent, *parts = path.split(".")
    if not parts or parent not in batch.schema.names:
        return None
    return pc.struct_field(batch.column(batch.schema.names.index(parent)), parts)


def text_values(column: pa.Array) -> list[bytes | None]:
    """Return texts as bytes, which may be invalid UTF-8.

    Args:
        column: a column whose type `is_text`.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_binary(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary()).to_pylist()


def id_values(column: pa.Array) -> list[bytes | None]:
    """Return ids as the bytes of strings; those of a string column may be invalid UTF-8.

    Args:
        column: a column whose type `is_id`.
    """
    kind = stored_type(column.type)
    if pa.types.is_fixed_size_binary(_storage(kind)):
        show = _uuid if str(kind) == "extension<arrow.uuid>" else bytes.hex
        values = (column.storage if isinstance(column, pa.ExtensionArray) else column.cast(kind)).to_pylist()
        return [None if value is None else show(value).encode() for value in values]
    if isinstance(column, pa.ExtensionArray):
        return id_values(column.storage)
    if is_text(kind):
        return [_readable(value) for value in text_values(column)] if is_binary(kind) else text_values(column)
    column = column.cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    column = column.cast(pa.string())
    if pa.types.is_temporal(kind):  # without zeros that depend on the unit in which a file stores them
        column = pc.replace_substring_regex(column, r"\.?0*(Z?)$", r"\1") if _has_fraction(kind) else column
    return text_values(column)


def _has_fraction(kind: pa.DataType) -> bool:
    return getattr(kind, "unit", "s") != "s" and not pa.types.is_date(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Return whether a column holds bytes of any size.

    Args:
        kind: type of the column.
    """
    kind = stored_type(kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _readable(value: bytes | None) -> bytes | None:
    if value is not None:
        try:
            value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}".encode()
    return value


def _uuid(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))


def arrow_records(
    batch: pa.RecordBatch, source: str, first: int, columns: Columns
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Return ids, texts and stated languages of the rows of a table; a row that states no language has None.

    Args:
        batch: the rows.
        source: their file.
        first: number of the first row.
        columns: the columns to read.
    """
    texts = column_at(batch, columns.text)
    ids = column_at(batch, columns.id)
    made = ids is None and columns.make_ids
    found = [made_id(source, row) for row in range(first, first + len(batch))] if made else id_values(ids)
    languages = None if columns.language is None else column_at(batch, columns.language)
    return found, text_values(texts), [None] * len(batch) if languages is None else text_values(languages)


def value_at(record: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of a JSON object; `is_missing` tells whether there is one.

    Args:
        record: the object.
        path: such as `text` or `metadata.text`.
    """
    if path in record:
        return record[path]
    value: Any = record
    for key in path.split("."):
        value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def is_missing(value: Any) -> bool:
    """Return whether `value_at` found no value.

    Args:
        value: what it returned.
    """
    return value is _MISSING


def json_record(record: Mapping[str, Any], source: str, row: int, columns: Columns) -> tuple[Any, Any, Any, list[str]]:
    """Return id, text and stated language of a JSON object, and the paths that it lacks.

    A language that is missing is None, and not among these paths.

    Args:
        record: the object.
        source: its file.
        row: where it is in the file.
        columns: the columns to read.
    """
    document_id, text = value_at(record, columns.id), value_at(record, columns.text)
    if is_missing(document_id) and columns.make_ids:
        document_id = made_id(source, row)
    pairs = ((columns.id, document_id), (columns.text, text))
    language = None if columns.language is None else value_at(record, columns.language)
    stated = None if is_missing(language) else language
    return document_id, text, stated, [path for path, value in pairs if is_missing(value)]
