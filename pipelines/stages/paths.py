"""Paths to columns and values: `metadata.text` is the field `text` of the column or object `metadata`.

A column or key that has exactly the name of the path precedes the field. All fields of a column of type null are null.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MISSING = object()


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
    column = batch.column(batch.schema.names.index(parent))
    for part in parts:
        if pa.types.is_null(column.type):
            break
        column = pc.struct_field(column, [part])
    return column


def roots(names: Iterable[str], paths: Iterable[str]) -> list[int]:
    """Return the indices of the columns that some paths lead into.

    Args:
        names: names of the columns of a table.
        paths: paths of columns, with or without fields.

    >>> roots(["id", "meta", "url"], ["meta.text", "id"])
    [0, 1]
    """
    needed = {name for path in paths for name in (path, path.partition(".")[0])}
    return [index for index, name in enumerate(names) if name in needed]


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
