"""Kept columns: what a job copies from its inputs to its rows, beside ids and texts.

Documents in memory carry them as one struct, so that their names can't clash with others. Those of tables stay in
Arrow from the file to the output.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from pipelines.stages.paths import column_at, is_missing, value_at
from pipelines.stages.records import clean
from pipelines.task import Columns

#: Metadata of a kept column that holds JSON text: its values have no common simple type.
JSON_TEXT = {b"spanmarker.json": b"1"}

#: Name of the struct in which documents in memory carry their kept columns.
KEPT = "kept"

_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class KeptRow:
    """The kept columns of one document in an Arrow array, without a copy.

    Attributes:
        rows: a struct of all kept columns.
        row: index of the document.
    """

    rows: pa.StructArray
    row: int

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptRow, (self.rows.take(pa.array([self.row])), 0)  # not the other rows


class BadColumn(Exception):
    """A value can't be kept. The message gives the reason.

    Args:
        code: code of the reject.
        message: the reason.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def kept_of_batch(batch: pa.RecordBatch, source: str, columns: Columns) -> pa.StructArray | None:
    """Return the kept columns of the rows of a table; None if the job keeps none.

    Args:
        batch: the rows.
        source: their file.
        columns: the columns to read.

    Raises:
        ArrowException: a column can't be converted to the planned type.
        BadColumn: `kept_type` if the value of a partition can't be.
    """
    if not columns.keep:
        return None
    arrays = []
    for path, kept in zip(columns.keep, columns.kept, strict=True):
        column = column_at(batch, path)
        if column is None:
            column = pa.repeat(_partition(source, path, kept), len(batch))
        arrays.append(column if column.type == kept.type else column.cast(kept.type))
    return pa.StructArray.from_arrays(arrays, fields=list(columns.kept))


def broken_rows(kept: pa.StructArray | None) -> dict[int, str]:
    """Return the problem of each row with a string that is not UTF-8, which tables may hold.

    Args:
        kept: the kept columns, as `kept_of_batch` returns them.
    """
    broken: dict[int, str] = {}
    if kept is None or _problem(kept) is None:
        return broken
    rows = range(len(kept))
    return {row: problem for row in rows if (problem := _problem(kept.take(pa.array([row])))) is not None}


def _problem(array: pa.Array) -> str | None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def kept_of_values(record: Mapping[str, Any], source: str, columns: Columns) -> tuple[Any, ...]:
    """Return the values of the kept columns of a JSON object or other values, or of a record without columns.

    Args:
        record: values by key; empty for a text file.
        source: its file.
        columns: the columns to read.

    Raises:
        BadColumn: `kept_type` if a value does not have the planned type, `invalid_unicode`, `invalid_utf8`.
    """
    values = []
    for path, kept in zip(columns.keep, columns.kept, strict=True):
        value = value_at(record, path)
        found = _partition(source, path, kept).as_py() if is_missing(value) else _fitting(path, value, kept)
        values.append(found)
    return tuple(values)


def json_type(value: Any) -> pa.DataType | None:
    """Return the type in which a value is kept, as JSON has it; None for values that are kept as JSON text.

    Args:
        value: the value.
    """
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if value in _INT64 else None
    if isinstance(value, float):
        return pa.float64()
    return pa.large_string() if isinstance(value, str | bytes) else None


def _fitting(path: str, value: Any, kept: pa.Field) -> Any:
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeError as error:
            raise BadColumn("invalid_utf8", f"{path!r}: {error}") from None
    if kept.metadata and kept.metadata.get(b"spanmarker.json"):
        value = json.dumps(value, ensure_ascii=False)
    elif not _fits(value, kept.type):
        raise BadColumn("kept_type", f"{path!r} is {type(value).__name__}, and the column is {kept.type}")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeError as error:
            raise BadColumn("invalid_unicode", f"{path!r}: {error}") from None
    return value


def _fits(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and bool(pa.types.is_boolean(kind))
    if pa.types.is_floating(kind):
        exact = isinstance(value, int) and abs(value) <= 1 << 53
        return isinstance(value, float) or exact
    if pa.types.is_integer(kind):
        return isinstance(value, int) and value in _INT64
    return isinstance(value, str)


@lru_cache(maxsize=64)
def partitions(source: str) -> dict[str, str | None]:
    """Return the Hive partitions in a path: key and value of each folder `KEY=VALUE`.

    Args:
        source: path or URL of a file.

    >>> partitions("s3://bucket/year=2024/lang=de/a=b.parquet")
    {'year': '2024', 'lang': 'de'}
    """
    pairs = (folder.partition("=") for folder in source.split("/")[:-1])
    return {
        clean(unquote(key)): None if value == _NO_PARTITION else clean(unquote(value))
        for key, equals, value in pairs
        if key and equals
    }


def partition_type(value: str | None) -> pa.DataType:
    """Return the type of a partition's value: int64 if it is all digits, else a string.

    Args:
        value: the value; None for the default partition.
    """
    if value is None:
        return pa.null()
    return pa.int64() if value.isascii() and value.isdigit() and int(value) in _INT64 else pa.large_string()


def _partition(source: str, path: str, kept: pa.Field) -> pa.Scalar:
    """Return the value of a partition in the type of its column, which other files may determine.

    Raises:
        BadColumn: `kept_type` if it can't be converted.
    """
    value = partitions(source).get(path)
    if value is None:
        return pa.scalar(None, kept.type)
    if kept.metadata and kept.metadata.get(b"spanmarker.json"):
        value = json.dumps(value, ensure_ascii=False)
    try:
        return pa.scalar(value, pa.large_string()).cast(kept.type)
    except pa.ArrowException as error:
        raise BadColumn("kept_type", f"{path!r} is {value!r} in the path, and the column is {kept.type}") from error


def kept_rows(items: Sequence[KeptRow | tuple[Any, ...]], schema: pa.Schema) -> pa.StructArray:
    """Return the kept columns of documents as one struct.

    Args:
        items: the kept columns of each document: a row of a table, or values.
        schema: the kept columns.
    """
    fields = list(schema)
    pieces = [pa.StructArray.from_arrays([pa.array([], field.type) for field in fields], fields=fields)]
    start = 0
    while start < len(items):
        first, end = items[start], start + 1
        if isinstance(first, KeptRow):
            while end < len(items) and _follows(items[end], first, end - start):
                end += 1
            pieces.append(first.rows.slice(first.row, end - start))
        else:
            while end < len(items) and not isinstance(items[end], KeptRow):
                end += 1
            columns = zip(*items[start:end], strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
            pieces.append(pa.StructArray.from_arrays(arrays, fields=fields))
        start = end
    return pa.concat_arrays(pieces)


def _follows(item: KeptRow | tuple[Any, ...], first: KeptRow, distance: int) -> bool:
    return isinstance(item, KeptRow) and item.rows is first.rows and item.row == first.row + distance


def kept_columns(documents: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the kept columns of documents, by name.

    Args:
        documents: rows with or without a column `kept`.
    """
    if KEPT not in documents.schema.names:
        return {}
    names = (field.name for field in documents[KEPT].type)
    return dict(zip(names, documents[KEPT].flatten(), strict=True))


def kept_fields(documents: pa.RecordBatch) -> list[pa.Field]:
    """Return the fields of the kept columns of documents.

    Args:
        documents: rows with or without a column `kept`.
    """
    return list(documents[KEPT].type) if KEPT in documents.schema.names else []
