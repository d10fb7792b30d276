"""Records from the columns of a table, and from the values of a JSON object, a CSV row or a web archive.

`pipelines.stages.paths` describes how columns and keys are named.

Ids of every type become strings: integers, also those stored as floats, decimals, dates, times and timestamps as Arrow
prints them, a timestamp with a time zone in UTC, and fractions of seconds without zeros at their end; UUIDs with
hyphens; other binary ids of a fixed size in hexadecimal; those of any size as the UTF-8 text that they are, otherwise
as `0x` and hexadecimal digits. An id that is made is `SOURCE:ROW`, with the `source` and `source_row` of the document.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.stages.kept_columns import BadColumn, KeptRow, broken_rows, kept_of_batch, kept_of_values
from pipelines.stages.lines import shown_id
from pipelines.stages.paths import column_at, is_missing, value_at
from pipelines.stages.records import Record, Reject, clean, raw_head
from pipelines.task import Columns


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
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_fixed_size_binary,
        pa.types.is_decimal,
        pa.types.is_temporal,
    )
    durations = pa.types.is_duration(kind) or pa.types.is_interval(kind)
    return is_text(kind) or (any(test(kind) for test in tests) and not durations)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def text_values(column: pa.Array) -> list[Any]:
    """Return texts as bytes, which may be invalid UTF-8.

    Args:
        column: a column whose type `is_text`, or one with nothing but nulls. Other values are left as they are.
    """
    if not is_text(column.type):
        return column.to_pylist()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_binary(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary()).to_pylist()


def id_values(column: pa.Array) -> list[Any]:
    """Return ids as the bytes of strings, which may be invalid UTF-8 in a string column; floats are left as they are.

    Args:
        column: a column whose type `is_id`, or one with nothing but nulls.
    """
    kind = stored_type(column.type)
    if not is_id(kind) or pa.types.is_floating(kind):
        return column.to_pylist()
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


def table_records(source: str, first: int, rows: pa.RecordBatch, columns: Columns) -> Iterator[Record | Reject]:
    """Yield the records of rows of a table, and the rejects of rows whose kept columns are not valid.

    A record and its reject keep the bytes of its text.

    Args:
        source: the file.
        first: number of the first row.
        rows: the rows, with at least the columns of `Columns.read` that the file has.
        columns: the columns to read.

    Raises:
        ArrowException: a kept column can't be converted to the planned type.
    """
    ids, texts = column_at(rows, columns.id), text_values(column_at(rows, columns.text))
    made = ids is None and columns.make_ids
    found = [made_id(source, row) for row in range(first, first + len(rows))] if made else id_values(ids)
    stated = None if columns.language is None else column_at(rows, columns.language)
    languages = [None] * len(rows) if stated is None else text_values(stated)
    try:
        kept = kept_of_batch(rows, source, columns)
    except BadColumn as error:
        for row, text in enumerate(texts, start=first):
            yield Reject(None, source, row, "read", error.code, str(error), raw_head(text))
        return
    broken = broken_rows(kept)
    for row, (document_id, text, language) in enumerate(zip(found, texts, languages, strict=True)):
        if row in broken:
            message = f"a kept column: {broken[row]}"
            yield Reject(None, source, first + row, "read", "invalid_utf8", message, raw_head(text))
            continue
        item = None if kept is None else KeptRow(kept, row)
        yield Record(source, first + row, document_id, text, text, kept=item, language=language)


def values_record(source: str, position: int, raw: bytes | None, values: Any, columns: Columns) -> Record | Reject:
    """Return the record of the values of a line, an element or a row, or its reject.

    Args:
        source: the file.
        position: where the record is in it.
        raw: bytes of the record.
        values: values by key; anything else is rejected.
        columns: the keys to read.
    """
    document_id, code = None, "broken_json"
    if isinstance(values, Mapping):
        document_id, text = value_at(values, columns.id), value_at(values, columns.text)
        if is_missing(document_id) and columns.make_ids:
            document_id = made_id(source, position)
        pairs = ((columns.id, document_id), (columns.text, text))
        if missing := [repr(path) for path, value in pairs if is_missing(value)]:
            code, message = "missing_field", f"the record has no {', '.join(missing)}"
        else:
            language = None if columns.language is None else value_at(values, columns.language)
            stated = None if is_missing(language) else language
            try:
                kept = kept_of_values(values, source, columns)
                return Record(source, position, document_id, text, raw, kept=kept, language=stated)
            except BadColumn as error:
                code, message = error.code, str(error)
    else:
        message = f"the line is a JSON {type(values).__name__}, not an object"
    return Reject(shown_id(document_id), source, position, "read", code, message, raw_head(raw))
