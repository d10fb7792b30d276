"""The columns that a job keeps from its inputs: their names and types, which are fixed before the inputs are planned.

All files of an output have one schema, so a kept column has one type:

- The types of Parquet and Arrow files must be the same, except that strings, integers and floats of several widths
  become the widest. A file without the column, and a column of type null, give nulls.
- A key of JSON records whose values in the first records of every file are booleans, integers, numbers or strings has
  that type. Otherwise every value is kept as JSON text. Columns of CSV and headers of web archives are strings.
- A key of Hive partitions is int64 if its values are digits, else a string. A column of the same name precedes it.

The type of an earlier run of the same output stays if it can hold all values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.planning.files import examined
from pipelines.planning.inputs import input_files
from pipelines.planning.parquet import Unreadable, opened_parquet
from pipelines.planning.ranges import examined_file, suggestion
from pipelines.planning.standard_input import with_copies
from pipelines.processes.isolated import ProcessDied
from pipelines.stages.columns import stored_type
from pipelines.stages.formats import ENDINGS, Examined, format_named, kind_of
from pipelines.stages.kept_columns import JSON_TEXT, json_type, partition_type, partitions
from pipelines.stages.paths import is_missing, value_at
from pipelines.storage import open_input
from pipelines.storage.fingerprint import field_at
from pipelines.storage.globs import patterns_of
from pipelines.task import Columns
from schemas import ANNOTATIONS, DOCUMENTS

#: Keeps all columns except those of ids, texts and languages.
ALL = "all"

#: Prefix of the keys of a job identity that hold the types.
IDENTITY = "keep."

_JSON = "json"
_OURS = {name.lower() for table in (ANNOTATIONS, DOCUMENTS) for name in table.schema.names}

#: Origin of a type: a table, JSON records or a partition, in the order in which they name a column.
_TABLE, _RECORDS, _FOLDERS = range(3)
_Found = tuple[str, int, pa.DataType | None]  # path, origin, type; None is a JSON value without a simple type
_Types = dict[str, dict[int, list[pa.DataType | None]]]


def with_kept(
    columns: Columns,
    given: Iterable[str],
    patterns: Iterable[str],
    form: str | None,
    output: str,
    fixed: Mapping[str, str],
    limit: int,
) -> Columns:
    """Return columns with those that a job keeps, after reading the schema or the first records of every input.

    Args:
        columns: columns of ids and texts.
        given: each a path, `PATH=NAME`, or `all`.
        patterns: patterns of the inputs; - is standard input.
        form: the format of all inputs; None determines it by their names.
        output: the output folder.
        fixed: identity of the job that wrote to the output before; empty if there is none.
        limit: limit of the memory for examining a file, in bytes; 0 means no limit.

    Raises:
        PipelineError: `input.no_kept_column`, `input.kept_names`, `input.kept_types`, `input.not_readable`.
    """
    names = dict(_parsed(each) for each in given)
    if not names:
        return columns
    paths = None if ALL in names else tuple(names)
    found, files = _types(paths, patterns, form, output, limit)
    if not files:
        return columns  # planning raises the error
    if ALL in names:
        others = [path for path in found if path not in (columns.id, columns.text, columns.language)]
        names = {path: names.get(path, path) for path in [*others, *names] if path != ALL}
    if missing := [path for path in names if path not in found]:
        known = _types(None, patterns, form, output, limit)[0]
        shown = ", ".join(f"{path!r}{suggestion(path, known)}" for path in missing)
        raise PipelineError("input.no_kept_column", columns=shown, known=", ".join(known) or "none")
    taken = [name for name in names.values() if name.lower() in _OURS or list(names.values()).count(name) > 1]
    if taken:
        path = next(path for path, name in names.items() if name == taken[0])
        raise PipelineError("input.kept_names", columns=", ".join(dict.fromkeys(taken)), example=f"{path}=their_{path}")
    problems: list[str] = []
    fields = []
    for path, name in sorted(names.items(), key=lambda pair: pair[1]):
        try:
            fields.append(_field(path, name, found[path], fixed.get(IDENTITY + name)))
        except TypeError as error:
            problems.append(f"  {path}: {error}")
    if problems:
        raise PipelineError("input.kept_types", columns="\n".join(problems))
    ordered = tuple(path for path, _ in sorted(names.items(), key=lambda pair: pair[1]))
    return replace(columns, keep=ordered, kept=pa.schema(fields))


def kept_identity(columns: Columns) -> dict[str, str]:
    """Return the part of a job identity that the kept columns determine: the type of each, by name.

    Args:
        columns: columns with those that a job keeps.
    """
    return {
        IDENTITY + field.name: _shown(field) if path == field.name else f"{path}: {_shown(field)}"
        for path, field in zip(columns.keep, columns.kept, strict=True)
    }


def kept_of_identity(columns: Columns, identity: Mapping[str, str], documents: pa.Schema) -> Columns:
    """Return columns with those that a finished job kept.

    Args:
        columns: columns of ids, texts and languages.
        identity: identity of the job, see `kept_identity`.
        documents: schema of a file of its table `documents`, which has the kept columns.
    """
    shown = {key.removeprefix(IDENTITY): value for key, value in identity.items() if key.startswith(IDENTITY)}
    fields = [documents.field(name) for name in sorted(shown)]
    paths = (shown[each.name].removesuffix(_shown(each)).removesuffix(": ") or each.name for each in fields)
    return replace(columns, keep=tuple(paths), kept=pa.schema(fields))


def _parsed(given: str) -> tuple[str, str]:
    path, equals, name = given.rpartition("=")
    return (path, name) if equals else (given, given)


def _types(
    paths: tuple[str, ...] | None, patterns: Iterable[str], form: str | None, output: str, limit: int
) -> tuple[_Types, int]:
    """Return the types of each column that was found, and the number of files; `paths` None looks for all columns."""
    found: _Types = {}
    files = 0
    globs = patterns_of(with_copies(patterns, None))
    named = partial(kind_of, given=form)
    for path, size, kind, _, problem in input_files(
        globs, output.rstrip("/") + "/", [], [], named, ENDINGS, lambda folder: False
    ):
        files += 1
        if problem or kind is None:
            continue  # planning raises the error
        folders = {key: value for key, value in partitions(path).items() if paths is None or key in paths}
        items: list[_Found] = [(key, _FOLDERS, partition_type(value)) for key, value in folders.items()]
        if format_named(kind).cut != "files":
            items = [*_of_file(path, size, kind, paths, limit), *items]
        for column, origin, type_ in items:
            types = found.setdefault(column, {}).setdefault(origin, [])
            if type_ not in types:
                types.append(type_)
    return found, files


def _of_file(path: str, size: int, kind: str, paths: tuple[str, ...] | None, limit: int) -> list[_Found]:
    try:
        return list(examined(path, limit, _columns_in, path, size, kind, paths))
    except (Unreadable, ProcessDied, PermissionError, FileNotFoundError):
        return []  # Planning makes a reject of it.
    except OSError as error:
        raise PipelineError("input.not_readable", path=path, reason=error) from error


def _columns_in(path: str, size: int, kind: str, paths: tuple[str, ...] | None) -> Iterator[_Found]:
    """Yield the columns of a file. Runs in an isolated process."""
    with open_input(path) as file:
        if kind == "parquet":
            found = Examined(kind, opened_parquet(file, size, ()).schema_arrow)
        else:
            found = examined_file(file, kind)
        if found.schema is not None:
            for column in found.schema.names if paths is None else paths:
                if (field := field_at(found.schema, column)) is not None:
                    yield column, _TABLE, stored_type(field.type)
        for record in found.records:
            for column in record if paths is None else paths:
                if not is_missing(value := value_at(record, column)):
                    yield column, _RECORDS, json_type(value)


def _field(path: str, name: str, found: Mapping[int, list[Any]], fixed: str | None) -> pa.Field:
    """Return the field of a kept column.

    Raises:
        TypeError: the types can't be combined.
    """
    of_records = found.get(_RECORDS, [])
    types = {type_ for type_ in of_records if type_ != pa.null()}
    simple: pa.DataType | None = pa.null()
    if types == {pa.int64(), pa.float64()}:
        simple = pa.float64()
    elif types:
        simple = types.pop() if len(types) == 1 else None
    tables = list(found.get(_TABLE, []))
    fixed = fixed and fixed.rpartition(": ")[2] if fixed and fixed.startswith(f"{path}: ") else fixed
    if not tables and of_records and (simple is None or fixed == _JSON):
        metadata = {b"description": f"{path} of the input, as JSON".encode(), **JSON_TEXT}
        return pa.field(name, pa.large_string(), metadata=metadata)
    if simple is None:
        raise TypeError(f"{', '.join(map(str, tables))} in tables, values of several types in JSON")
    folders = [] if tables or of_records else found.get(_FOLDERS, [])
    if not folders:
        kind = reduce(combined, [*tables, simple])
    else:
        kind = pa.large_string() if pa.large_string() in folders else reduce(combined, folders)
    if pa.types.is_null(kind):
        kind = pa.large_string()
    if fixed is not None and fixed != str(kind):
        try:
            earlier = pa.type_for_alias(fixed)
            kind = earlier if combined(earlier, kind) == earlier else kind
        except (ValueError, TypeError):
            pass  # The identities differ, which is refused.
    return pa.field(name, kind, metadata={"description": f"{path} of the input"})


def combined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds all values of two types exactly.

    Args:
        one: a type.
        other: another one.

    Raises:
        TypeError: there is none, or it would be of another kind.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if (nested := _combined_parts(one, other)) is not None:
        return nested
    for tests, widest in _WIDEST:
        if all(any(test(kind) for test in tests) for kind in (one, other)):
            return widest or max(one, other, key=lambda kind: int(kind.bit_width))
    raise TypeError(f"{one} and {other}")


def _combined_parts(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Combine nested types of the same shape, such as `list<null>` and `list<string>`; return None for others."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [[field.name for field in kind] for kind in (one, other)]
        if names[0] == names[1]:
            return pa.struct([(a.name, combined(a.type, b.type)) for a, b in zip(one, other, strict=True)])
    for test, new in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if test(one) and test(other):
            return new(combined(one.value_type, other.value_type))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(combined(one.key_type, other.key_type), combined(one.item_type, other.item_type))
    return None


_WIDEST = (
    ((pa.types.is_string, pa.types.is_large_string), pa.large_string()),
    ((pa.types.is_binary, pa.types.is_large_binary), pa.large_binary()),
    ((pa.types.is_signed_integer,), None),
    ((pa.types.is_unsigned_integer,), None),
    ((pa.types.is_floating,), None),
)


def _shown(field: pa.Field) -> str:
    return _JSON if (field.metadata or {}).keys() & JSON_TEXT.keys() else str(field.type)
