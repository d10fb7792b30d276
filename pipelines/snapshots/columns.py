"""Columns that a table of Delta or Iceberg can hold: of types that both its library and the format have."""

import pyarrow as pa
import pyarrow.types as kinds

_PLAIN = (
    kinds.is_boolean,
    kinds.is_signed_integer,
    kinds.is_float32,
    kinds.is_float64,
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_binary,
    kinds.is_large_binary,
    kinds.is_fixed_size_binary,
    kinds.is_date32,
    kinds.is_decimal128,
)
#: Units of timestamps by format. Coarser ones are read as microseconds.
_UNITS = {"delta": ("ms", "us"), "iceberg": ("s", "ms", "us")}
#: Characters that Delta does not allow in names, unless a table maps its columns to other names.
_NOT_IN_DELTA = frozenset(" ,;{}()\n\t=")


def unfit_columns(schema: pa.Schema, format_name: str) -> list[str]:
    """Return the columns that a format cannot hold, one line each.

    Args:
        schema: the columns.
        format_name: "delta" or "iceberg".

    >>> unfit_columns(pa.schema([("a", pa.int8()), ("b", pa.uint8())]), "delta")
    ['  b: uint8']
    """
    lines = [f"  {field.name}: {field.type}" for field in schema if not _fits(field.type, format_name)]
    if format_name == "delta":
        lines += [f"  {field.name!r}: the name" for field in schema if not _allowed_in_delta(field)]
    return lines


def _fits(kind: pa.DataType, format_name: str) -> bool:
    if any(test(kind) for test in _PLAIN):
        return True
    if kinds.is_timestamp(kind):
        return kind.unit in _UNITS[format_name] and kind.tz in (None, "UTC")
    if kinds.is_time64(kind):
        return format_name == "iceberg" and kind.unit == "us"
    inner = _inner(kind)
    # pyiceberg reads a null list or map as an empty one if it holds structs.
    lossy = format_name == "iceberg" and not kinds.is_struct(kind) and any(map(_holds_struct, inner))
    return bool(inner) and not lossy and all(_fits(each.type, format_name) for each in inner)


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, list or map; none for other types."""
    if kinds.is_struct(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
        return [kind.field(number) for number in range(kind.num_fields)]
    return [kind.key_field, kind.item_field] if kinds.is_map(kind) else []


def _holds_struct(field: pa.Field) -> bool:
    return kinds.is_struct(field.type) or any(map(_holds_struct, _inner(field.type)))


def _allowed_in_delta(field: pa.Field) -> bool:
    return not _NOT_IN_DELTA & set(field.name) and all(map(_allowed_in_delta, _inner(field.type)))
