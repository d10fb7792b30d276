"""Ids and texts of records: from the columns of a table, and from the keys of a record such as a JSON object."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipelines.stages.lines import shown_id
from pipelines.stages.records import Record, Reject, raw_head
from pipelines.task import Columns


def table_columns(columns: Columns) -> list[str]:
    """Return the names of the columns of a table that are read.

    Args:
        columns: columns of ids and texts.
    """
    return [columns.id, columns.text]


def table_records(source: str, first: int, rows: pa.RecordBatch, columns: Columns) -> Iterator[Record]:
    """Yield the records of rows of a table. A reject of a record keeps the bytes of its text.

    Args:
        source: the file.
        first: number of the first row.
        rows: the rows, with `table_columns`.
        columns: columns of ids and texts.
    """
    ids, texts = _values(rows[columns.id]), _values(rows[columns.text])
    for place, (document_id, text) in enumerate(zip(ids, texts, strict=True), first):
        yield Record(source, place, document_id, text, text)


def _values(column: pa.Array) -> list[Any]:
    """Return the values; strings as bytes, because strings in a file may be invalid UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_string()).cast(pa.large_binary())
    return column.to_pylist()


def values_record(source: str, position: int, raw: bytes | None, values: Any, columns: Columns) -> Record | Reject:
    """Return the record of the values of a line, an element or a row, or its reject.

    Args:
        source: the file.
        position: where the record is in it.
        raw: bytes of the record.
        values: values by key; anything else is rejected.
        columns: keys of ids and texts.
    """
    if not isinstance(values, dict):
        document_id, code = None, "broken_json"
        message = f"the line is a JSON {type(values).__name__}, not an object"
    elif missing := [repr(column) for column in (columns.id, columns.text) if column not in values]:
        document_id, code = shown_id(values.get(columns.id)), "missing_field"
        message = f"the record has no {', '.join(missing)}"
    else:
        return Record(source, position, values[columns.id], values[columns.text], raw)
    return Reject(document_id, source, position, "read", code, message, raw_head(raw))
