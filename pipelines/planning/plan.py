"""The planner: inputs -> shards, for every kind of input data."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.errors import PipelineError
from pipelines.planning.files import Range, file_shards, text_shards, unfit_shard, unopened_shard
from pipelines.planning.inputs import BadColumns, Faults, input_files, refuse, refuse_nothing
from pipelines.planning.standard_input import with_copies
from pipelines.storage.globs import patterns_of
from pipelines.task import Columns
from schemas.shards import Shard


def _never(path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class InputData:
    """Rules by which one kind of input data, such as documents, is planned.

    Attributes:
        endings: file name endings of the known formats.
        kind_of: returns the format of a file from its path, or None.
        unknown_code: error code of files with other endings.
        columns_code: error code of files whose columns or keys do not fit.
        ranges: called with the path, size and kind of a file, the columns of ids and texts, `max_shard_bytes` and
            further arguments; yields the ranges that become shards. Runs in an isolated process.
        is_input: returns whether a folder is an input as a whole, of the kind "folder".
        is_part: returns whether a file belongs to another one, such as its text, and is not an input.
    """

    endings: Collection[str]
    kind_of: Callable[[str], str | None]
    unknown_code: str
    columns_code: str
    ranges: Callable[..., Iterator[Range]]
    is_input: Callable[[str], bool] = _never
    is_part: Callable[[str], bool] = _never


def plan(
    data: InputData,
    patterns: Iterable[str],
    *args: Any,
    output: str,
    columns: Columns,
    max_shard_bytes: int,
    job_digest: str,
    max_bytes: int = 0,
) -> Iterator[Shard]:
    """Yield the shards of all inputs that match some patterns, sorted by path.

    A file that matches twice, also under several names, counts once. A file that can't be opened, or lacks the
    columns, becomes a shard of format `unreadable`. If that is so of all files, the job is wrong rather than the files,
    and an error is raised.

    Args:
        data: the kind of the inputs.
        patterns: paths or URLs with wildcards.
        args: further arguments of `data.ranges`.
        output: the output folder, which must not hold inputs.
        columns: columns or keys of ids and texts.
        max_shard_bytes: approximate size of a shard, in bytes.
        job_digest: digest of the job identity, part of each shard's name.
        max_bytes: limit of the memory for examining a file, in bytes; 0 means no limit.

    Raises:
        PipelineError: `input.*`; faults of files are collected over all files before they are raised.
    """
    globs = patterns_of(with_copies(patterns, output))
    many = len(globs) > 1
    empty: list[str] = []
    folders: list[str] = []
    not_read: OSError | None = None
    faults: Faults = {"input.empty_folder": empty, "input.not_a_file": [], data.unknown_code: [], data.columns_code: []}
    found = fits = False
    files = input_files(globs, output.rstrip("/") + "/", empty, folders, data.kind_of, data.endings, data.is_input)
    for (folder, kind), of_folder in itertools.groupby(
        files, key=lambda file: (file.folder, file.folder and file.kind)
    ):
        if folder:  # consecutive text files below one folder
            found = fits = True
            sizes = ((file.path, file.size) for file in of_folder)
            yield from text_shards(folder, str(kind), sizes, max_shard_bytes, job_digest)
            continue
        for path, size, kind, _, problem in of_folder:
            if data.is_part(path):
                continue
            kind = "folder" if data.is_input(path) else kind
            if kind is None and many and path.rpartition("/")[2].startswith("_"):
                continue  # A shell's `*` matches the marker files of other programs too.
            found = True
            if problem:
                faults["input.not_a_file"].append(f"{path} ({problem})")
                yield unopened_shard(path, job_digest, problem)
                continue
            if kind is None:
                faults[data.unknown_code].append(path)
                continue
            given = (kind, columns, max_shard_bytes, *args)
            try:
                for shard in file_shards(path, size, job_digest, max_bytes, data.ranges, *given):
                    fits = fits or shard.format != "unreadable"
                    yield shard
            except BadColumns as error:
                faults[data.columns_code].append(f"{path}: {error}")
                yield unfit_shard(path, size, job_digest, str(error))
            except (PermissionError, FileNotFoundError) as error:  # of this file only, unless of all
                not_read = not_read or error
                yield unopened_shard(path, job_digest, str(error))
            except OSError as error:
                raise PipelineError("input.not_readable", path=path, reason=error) from error
    if not found and not empty:
        refuse_nothing(globs, folders)
    if fits:
        del faults["input.not_a_file"], faults[data.columns_code]
    elif not_read is not None:
        raise PipelineError("input.not_readable", path=not_read.filename or globs[0].url, reason=not_read) from not_read
    refuse(faults, data.endings, columns)
