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
import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.processes.isolated import ProcessDied, shared_process
from pipelines.stages.read import DamagedFile, decompressed
from pipelines.storage import ContentIdentity, given_options, is_storage_error, open_input, use_options
from pipelines.storage.fingerprint import chunk_range, digest_of, leaves_of, parquet_content, text_content
from pipelines.storage.globs import Match, Pattern, patterns_of
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: File name ending -> format of a shard.
FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".jsonl.zst": "jsonl.zst",
    ".txt": "text",
    ".md": "text",
}

#: Maximum number of rows in a Parquet shard, however small they are.
MAX_SHARD_ROWS = 20_000
#: Maximum size of the file names in a text shard, in bytes: a task must stay small enough to send.
MAX_NAMES_BYTES = 4096
#: Files named in an error message; the others are counted.
_SHOWN = 10
Faults = dict[str, list[str]]  # inputs by error code

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
                for shard in file_shards(path, size, job, max_bytes, _file_ranges, *args):
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


def refuse_nothing(patterns: Iterable[Pattern], faults: Faults) -> None:
    """Raise an error because no input was found, unless there were matches that are not files.

    Args:
        patterns: the patterns of the inputs.
        faults: inputs by error code.

    Raises:
        PipelineError: `input.no_match`.
    """
    if not faults["input.not_a_file"]:
        raise PipelineError("input.no_match", patterns=", ".join(pattern.url for pattern in patterns))


def refuse(faults: Faults, endings: Iterable[str], id_column: str, text_column: str) -> None:
    """Raise the first kind of fault found, with all inputs that have it.

    Args:
        faults: inputs by error code, in the order of the checks.
        endings: file name endings of the known formats, for the message.
        id_column: column or key of the ids, for the message.
        text_column: column or key of the texts, for the message.

    Raises:
        PipelineError: the first code of `faults` that has inputs.
    """
    for code, faulty in faults.items():
        if faulty:
            shown = [f"  {file}" for file in faulty[:_SHOWN]]
            more = [f"  and {len(faulty) - _SHOWN} more"] if len(faulty) > _SHOWN else []
            raise PipelineError(
                code,
                files="\n".join(shown + more),
                endings=" ".join(endings),
                id_column=id_column,
                text_column=text_column,
            )


def format_of(path: str) -> str | None:
    """Return the format that a file's name indicates, or None.

    Args:
        path: a path or URL.

    >>> format_of("a/b.jsonl.gz"), format_of("a/b.doc")
    ('jsonl.gz', None)
    """
    return next((kind for ending, kind in FORMATS.items() if path.lower().endswith(ending)), None)


class BadColumns(Exception):
    """A file's columns are missing or of the wrong type; the message gives the reason."""


def input_files(
    patterns: list[Pattern], inside: str, no_files: list[str], is_input: Callable[[str], bool] = lambda folder: False
) -> Iterator[tuple[str, int, str | None]]:
    """Yield (path, size, base folder of a text file's id or None) of the inputs, sorted by path, each file once.

    Args:
        patterns: the patterns of the inputs.
        inside: the output folder, with a slash at its end.
        no_files: list to which matches that are not files are added.
        is_input: returns whether a folder is an input as a whole.

    Raises:
        PipelineError: `input.inside_output`, `input.not_readable`.
    """

    def listed(pattern: Pattern) -> Iterator[tuple[list[str], str, Match]]:
        try:
            for found in pattern.find():
                # Folders that `*` matches are ignored, as shell users expect. A folder that is named explicitly, or has
                # the name of a file, is a mistake or the output of Spark.
                named = pattern.literal or format_of(found.path) is not None
                if found.kind != "directory" or named or is_input(found.path):
                    text = found.kind == "file" and format_of(found.path) == "text"
                    yield found.path.split("/"), pattern.folder if text else "", found
        except OSError as error:
            raise PipelineError("input.not_readable", path=error.filename or pattern.url, reason=error) from error

    linked: set[str] = set()
    merged = heapq.merge(*map(listed, patterns), key=lambda match: match[:2])
    for _, same in itertools.groupby(merged, key=lambda match: match[2].path):
        _, folder, found = next(same)
        if f"{found.real}/".startswith(inside) or found.path.startswith(inside):
            raise PipelineError("input.inside_output", path=found.path, output=inside)
        if found.kind != "file" and not (found.kind == "directory" and is_input(found.path)):
            what = "a folder" if found.kind == "directory" else "a pipe, a socket, a device or a link to nothing"
            no_files.append(f"{found.path} ({what})")
            continue
        if found.real != found.path:
            # A file counts under its real name if a pattern matches that, otherwise under the first name found. Only
            # links to files outside the patterns are therefore remembered.
            if found.real in linked or any(pattern.names(found.real) for pattern in patterns):
                continue
            linked.add(found.real)
        yield found.path, found.size, folder or None


#: Part of a file that becomes a shard: format, start, end, bytes and content.
Range = tuple[str, int, int, int, str]


def file_shards(
    path: str, size: int, job: str, max_bytes: int, ranges: Callable[..., Iterator[Range]], *args: Any
) -> Iterator[Shard]:
    """Yield the shards of one file.

    The part that can't be read, or that ends the process that reads it, becomes one `unreadable` shard.

    Args:
        path: the file, or the folder that is an input as a whole.
        size: its size in bytes.
        job: digest of the job identity.
        max_bytes: limit of the memory for examining the file, in bytes; 0 means no limit.
        ranges: called with path, size and `args`, in an isolated process.
        args: further arguments of `ranges`.

    Raises:
        OSError: the storage failed.
        Exception: any other exception of `ranges`, except `Unreadable`.
    """
    if path.startswith("memory://"):  # Files in memory are visible only in this process.
        found = ranges(path, size, *args)
    else:
        process = shared_process()
        process.max_bytes = max_bytes
        found = process.each(_with_options, given_options(), ranges, path, size, *args)
    part = end = 0
    try:
        for kind, start, end, n_bytes, content in found:
            yield make_shard(path, kind, part, start, end, (), n_bytes, content, job)
            part += 1
    except Unreadable as error:
        yield unreadable_shard(path, size, job, str(error), part, end)
    except ProcessDied as error:
        yield unreadable_shard(path, size, job, f"a process that looked at it ended ({error})", part, end)


def unreadable_shard(path: str, size: int, job: str, reason: str, part: int = 0, start: int = 0) -> Shard:
    """Return the shard of a file that can't be read from `start` on; the shard will write one reject.

    Args:
        path: the file.
        size: its size in bytes.
        job: digest of the job identity.
        reason: message of the reject.
        part: number of the shard in its file.
        start: row or byte from which on the file can't be read.
    """
    with open_input(path) as file:
        content = ContentIdentity(path, file).of([(0, size)])
    shard = make_shard(path, "unreadable", part, start, start, (), size, content, job)
    return replace(shard, reason=" ".join(reason.split())[:500])


class Unreadable(Exception):
    """A file can't be read at all; the message gives the reason."""


def _with_options(options: tuple[str, ...], ranges: Callable[..., Iterator[Range]], *args: Any) -> Iterator[Range]:
    """Yield the items of `ranges(*args)`, with these storage options. Runs in the isolated process."""
    if options != given_options():
        use_options(options)
    return ranges(*args)


def _file_ranges(
    path: str, size: int, kind: str, id_column: str, text_column: str, max_shard_bytes: int
) -> Iterator[Range]:
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


def opened_parquet(file: IO[bytes], size: int, columns: tuple[str, ...]) -> pq.ParquetFile:
    """Return a Parquet file after checking that its footer can be read and is consistent.

    Args:
        file: the file.
        size: its size in bytes.
        columns: the columns that will be read; the footer is not checked for others.

    Raises:
        Unreadable: the footer is damaged.
        OSError: the storage failed.
    """
    try:
        parquet = pq.ParquetFile(file)
        problem = _footer_problem(parquet, size, columns)
    except CodedError:
        raise
    except OSError as error:
        if is_storage_error(error):
            raise
        problem = str(error)
    except Exception as error:  # raised by Arrow, or by Python for names that are not UTF-8
        problem = str(error)
    if problem is not None:
        raise Unreadable(f"it is not a sound Parquet file: {problem}")
    return parquet


def _footer_problem(parquet: pq.ParquetFile, size: int, columns: tuple[str, ...]) -> str | None:
    """Return a contradiction within a footer, or between the footer and the size of the file; None if there is none.

    The number of rows is taken from the footer, so a wrong number must be detected here.
    """
    metadata, schema = parquet.metadata, parquet.schema
    leaves = {index: schema.column(index) for index in range(metadata.num_columns)}
    leaves = {index: leaf for index, leaf in leaves.items() if leaf.path.partition(".")[0] in columns}
    rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0:
            return f"row group {number} has {group.num_rows} rows"
        rows += group.num_rows
        for index, leaf in leaves.items():
            chunk = group.column(index)
            if chunk.path_in_schema != leaf.path or chunk.physical_type != leaf.physical_type:
                return f"column {index} of row group {number} is not the column of that number in the schema"
            flat = leaf.max_repetition_level == 0
            if chunk.num_values < 0 or (flat and chunk.num_values != group.num_rows):
                return f"column {leaf.path!r} of row group {number} has {chunk.num_values} of {group.num_rows} values"
            start, end = chunk_range(chunk)
            if start < 0 or end < start or end > size or chunk.total_uncompressed_size < 0:
                return f"column {leaf.path!r} of row group {number} lies outside the file"
    if rows != metadata.num_rows:
        return f"its row groups have {rows} rows, and the file {metadata.num_rows}"
    return None


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


def parquet_ranges(
    parquet: pq.ParquetFile, content: ContentIdentity, columns: tuple[str, ...], max_shard_bytes: int
) -> Iterator[tuple[int, int, int, str]]:
    """Yield row ranges: small row groups are joined, a large one is divided into equal parts.

    Args:
        parquet: the open file.
        content: identity of its bytes.
        columns: the columns that will be read.
        max_shard_bytes: approximate size of a range in bytes, uncompressed.

    Yields:
        (first row, one past the last row, uncompressed bytes, content).
    """
    metadata = parquet.metadata
    leaves = leaves_of(metadata, columns)

    def identity(groups: list[int]) -> str:
        return parquet_content(parquet, content, columns, groups)

    first_row, rows, n_bytes = 0, 0, 0
    groups: list[int] = []
    for group in range(metadata.num_row_groups):
        group_rows = metadata.row_group(group).num_rows
        group_bytes = sum(metadata.row_group(group).column(leaf).total_uncompressed_size for leaf in leaves)
        if groups and (n_bytes + group_bytes > max_shard_bytes or rows + group_rows > MAX_SHARD_ROWS):
            yield first_row, first_row + rows, n_bytes, identity(groups)
            first_row, rows, n_bytes, groups = first_row + rows, 0, 0, []
        pieces = min(max(-(-group_bytes // max_shard_bytes), -(-group_rows // MAX_SHARD_ROWS)), group_rows)
        if pieces > 1:
            same = identity([group])
            for piece in range(pieces):
                start, end = group_rows * piece // pieces, group_rows * (piece + 1) // pieces
                yield first_row + start, first_row + end, group_bytes // pieces, same
            first_row += group_rows
        else:
            rows, n_bytes = rows + group_rows, n_bytes + group_bytes
            groups.append(group)
    if groups or first_row == 0:
        yield first_row, first_row + rows, n_bytes, identity(groups)


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


def make_shard(
    source: str,
    kind: str,
    part: int,
    start: int,
    end: int,
    files: tuple[str, ...],
    n_bytes: int,
    content: str,
    job: str,
) -> Shard:
    """Return a shard, with its name.

    Args:
        source: the file, as an absolute path or a URL; for text files the folder that contains `files`.
        kind: format of the shard.
        part: number of the shard in its file.
        start: first row or byte of the range; 0 for text files.
        end: one past the last row or byte of the range; 0 for text files.
        files: text files below `source`; otherwise empty.
        n_bytes: size of the range, in bytes.
        content: identity of the content in the range.
        job: digest of the job identity.
    """
    stem = source.rpartition("/")[2].partition(".")[0]
    stem = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in stem)[:48]
    return renamed(Shard(f"{stem}-{part:05d}-", source, kind, start, end, files, n_bytes, content), job)


def renamed(shard: Shard, job: str) -> Shard:
    """Return a shard under the name that it has in another job.

    Args:
        shard: the shard.
        job: digest of the other job's identity.
    """
    digest = digest_of(shard.source, shard.format, str(shard.start), str(shard.end), *shard.files, shard.content, job)
    return replace(shard, name=f"{shard.name.rpartition('-')[0]}-{digest[:16]}")
