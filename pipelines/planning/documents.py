"""Planning of documents: inputs -> a saved plan of bounded shards.

Every later step reads the plan, so no engine decides how the work is divided.

How files are cut:

- Parquet: by rows; small row groups are kept whole, large ones are divided.
- JSONL: byte ranges that end at a newline. Ranges are counted from the file's start, so appended lines
  leave earlier full ranges unchanged.
- JSONL in gzip or zstd can't be read from the middle: one shard per file, read as a stream.
- Text files (.txt, .md): each file is a document; its id is its path below the folder before the
  pattern's first wildcard ("docs/**/*.txt" gives "a/b.txt"). A shard is a group of files.
- A file that can't be opened in its format, or lacks the columns that other files have, becomes a shard that will
  write one reject.

Each file is examined in an isolated process, so a file that crashes the library that reads it is also rejected.
"""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.planning.files import Range, file_shards, make_shard, unreadable_shard
from pipelines.planning.inputs import FORMATS, BadColumns, Faults, format_of, input_files, refuse, refuse_nothing
from pipelines.planning.parquet import opened_parquet, parquet_ranges
from pipelines.stages.lines import DamagedFile, decompressed
from pipelines.storage import ContentIdentity, open_input
from pipelines.storage.fingerprint import digest_of, text_content
from pipelines.storage.globs import patterns_of
from schemas.shards import Shard

#: Maximum size of the file names in a text shard, in bytes: a task must stay small enough to send.
MAX_NAMES_BYTES = 4096

#: Bytes at the start of a JSONL file, in which at least one record must have the columns.
HEAD_BYTES = 1 << 20


def plan_shards(
    patterns: Iterable[str],
    *,
    output: str,
    id_column: str,
    text_column: str,
    max_shard_bytes: int,
    job: str,
    max_bytes: int = 0,
) -> Iterator[Shard]:
    """Yield the shards of all files that match some patterns, sorted by path.

    A file that matches twice, also under several names, counts once. A file without the columns becomes a shard of
    format `unreadable`. If no file has them, the job is wrong rather than the files, and an error is raised.

    Args:
        patterns: paths or URLs with wildcards.
        output: the output folder, which must not hold inputs.
        id_column: column or key of the ids.
        text_column: column or key of the texts.
        max_shard_bytes: approximate size of a shard, in bytes.
        job: digest of the job identity, part of each shard's name.
        max_bytes: limit of the memory for examining a file, in bytes; 0 means no limit.

    Raises:
        PipelineError: `input.*`. Faults of files are collected over all files before they are raised.
    """
    known = patterns_of(list(patterns))
    faults: Faults = {"input.not_a_file": [], "input.unknown_format": [], "input.bad_columns": []}
    found = fits = False
    inside = output.rstrip("/") + "/"
    matches = input_files(known, inside, faults["input.not_a_file"])
    for folder, files in itertools.groupby(matches, key=lambda match: match[2]):
        if folder is not None:  # consecutive text files below one folder
            found = fits = True
            yield from _text_shards(folder, ((path, size) for path, size, _ in files), max_shard_bytes, job)
            continue
        for path, size, _ in files:
            found = True
            kind = format_of(path)
            if kind is None:
                faults["input.unknown_format"].append(path)
                continue
            try:
                args = (kind, id_column, text_column, max_shard_bytes)
                for shard in file_shards(path, size, job, max_bytes, document_ranges, *args):
                    fits = fits or shard.format != "unreadable"
                    yield shard
            except BadColumns as error:
                faults["input.bad_columns"].append(f"{path}: {error}")
                yield unreadable_shard(path, size, job, str(error))
            except OSError as error:
                raise PipelineError("input.not_readable", path=path, reason=error) from error
    if not found:
        refuse_nothing(known, faults)
    if fits:
        del faults["input.bad_columns"]
    refuse(faults, FORMATS, id_column, text_column)


def document_ranges(
    path: str, size: int, kind: str, id_column: str, text_column: str, max_shard_bytes: int
) -> Iterator[Range]:
    """Yield the ranges of a file that become shards. Runs in an isolated process.

    Args:
        path: the file.
        size: its size in bytes.
        kind: its format, a value of `FORMATS`.
        id_column: column or key of the ids.
        text_column: column or key of the texts.
        max_shard_bytes: approximate size of a shard, in bytes.

    Raises:
        BadColumns: the file lacks a column or stores it with another type.
        Unreadable: the file is not a sound Parquet file.
        OSError: the storage failed.
    """
    with open_input(path) as file:
        content = ContentIdentity(path, file)
        if kind == "parquet":
            parquet = opened_parquet(file, size, (id_column, text_column))
            _check_schema(parquet.schema_arrow, id_column, text_column)
            for range_ in parquet_ranges(parquet, content, (id_column, text_column), max_shard_bytes):
                yield kind, *range_
        elif kind == "jsonl":
            _check_head(file.read(HEAD_BYTES), id_column, text_column)
            for start, end in line_ranges(file, size, max_shard_bytes):
                yield kind, start, end, end - start, content.of([(start, end)])
        else:
            _check_head(decompressed_head(file, kind), id_column, text_column)
            yield kind, 0, size, size, content.of([(0, size)])


def _check_schema(schema: pa.Schema, id_column: str, text_column: str) -> None:
    wanted = (
        (id_column, lambda kind: is_string(kind) or pa.types.is_integer(kind)),
        (text_column, is_string),
    )
    problems = []
    for column, fits in wanted:
        if schema.names.count(column) != 1:
            problems.append(f"no {column!r}" if column not in schema.names else f"{column!r} twice")
        elif not fits(schema.field(column).type):
            problems.append(f"{column!r} is {schema.field(column).type}")
    if problems:
        raise BadColumns(f"{', '.join(problems)}; its columns: {', '.join(schema.names)}")


def is_string(kind: pa.DataType) -> bool:
    """Return whether a column holds strings.

    Args:
        kind: the column's type.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _check_head(head: bytes, id_column: str, text_column: str) -> None:
    """Reject a JSONL file if none of its first records has the columns; a single invalid record is tolerated."""
    seen = keys_in(head)
    if seen and not {id_column, text_column} <= seen.keys():
        missing = [repr(column) for column in (id_column, text_column) if column not in seen]
        raise BadColumns(f"no {', '.join(missing)} in its first records; their keys: {', '.join(seen)}")


def keys_in(head: bytes) -> dict[str, None]:
    """Return the keys of the first records of a JSONL file, in order.

    Args:
        head: the first bytes of the file.
    """
    seen: dict[str, None] = {}
    for line in head.split(b"\n")[:100]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            seen |= dict.fromkeys(record)
    return seen


def decompressed_head(file: IO[bytes], kind: str) -> bytes:
    """Return the first bytes of a compressed file, up to the first damage, which is left to the reader to reject.

    Args:
        file: the compressed file.
        kind: its format, jsonl.gz or jsonl.zst.
    """
    head = b""
    with contextlib.suppress(DamagedFile):
        for block in decompressed(file, kind):
            head += block
            if len(head) >= HEAD_BYTES:
                break
    return head


def line_ranges(file: IO[bytes], size: int, max_shard_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield byte ranges of at least `max_shard_bytes` that end after a newline or at the end of the file.

    Args:
        file: the file, seekable.
        size: its size in bytes.
        max_shard_bytes: minimum size of a range, in bytes.
    """
    start = 0
    while start < size or start == 0:
        end = min(start + max_shard_bytes, size)
        if 0 < end < size:
            end = whole_line(file, end)
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


def _text_shards(folder: str, files: Iterator[tuple[str, int]], max_shard_bytes: int, job: str) -> Iterator[Shard]:
    """Yield groups of text files. Besides the limits of size, some file names end a group.

    Cuts that depend on names alone stay in the same place when a file is added or removed, so the groups after the
    affected one do not change.
    """
    group: list[str] = []
    n_bytes = n_names = 0
    for path, size in files:
        name = path.removeprefix(folder + "/")
        full = (
            n_bytes + size > max_shard_bytes or n_names + len(name.encode("utf-8", "surrogateescape")) > MAX_NAMES_BYTES
        )
        if group and full:
            yield _text_shard(folder, group, n_bytes, job)
            group, n_bytes, n_names = [], 0, 0
        group.append(name)
        n_bytes, n_names = n_bytes + size, n_names + len(name.encode("utf-8", "surrogateescape"))
        if digest_of(name)[:2] < "04":  # one name in 64
            yield _text_shard(folder, group, n_bytes, job)
            group, n_bytes, n_names = [], 0, 0
    if group:
        yield _text_shard(folder, group, n_bytes, job)


def _text_shard(folder: str, names: list[str], n_bytes: int, job: str) -> Shard:
    try:
        content = text_content(f"{folder}/{name}" for name in names)
    except OSError as error:
        raise PipelineError("input.not_readable", path=error.filename or folder, reason=error) from error
    return make_shard(folder, "text", 0, 0, 0, tuple(names), n_bytes, content, job)
