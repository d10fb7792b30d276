"""The planner: inputs -> shards, for every kind of input data."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.errors import PipelineError
from pipelines.planning.files import Range, file_shards, text_shards, unreadable_shard
from pipelines.planning.inputs import BadColumns, Faults, input_files, kind_of, refuse, refuse_nothing
from pipelines.storage.globs import patterns_of
from pipelines.task import Columns
from schemas.shards import Shard


def _never(path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class InputData:
    """Rules by which one kind of input data, such as documents, is planned.

    Attributes:
        endings: file name ending -> kind of the file.
        unknown_code: error code of files with other endings.
        columns_code: error code of files whose columns or keys do not fit.
        ranges: called with the path, size and kind of a file, the columns of ids and texts, `max_shard_bytes` and
            further arguments; yields the ranges that become shards. Runs in an isolated process.
        is_input: returns whether a folder is an input as a whole, of the kind "folder".
        is_part: returns whether a file belongs to another one, such as its text, and is not an input.
    """

    endings: Mapping[str, str]
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

    A file that matches twice, also under several names, counts once. A file without the columns becomes a shard of
    format `unreadable`. If no file has them, the job is wrong rather than the files, and an error is raised.

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
    globs = patterns_of(list(patterns))
    faults: Faults = {"input.not_a_file": [], data.unknown_code: [], data.columns_code: []}
    found = fits = False
    files = input_files(globs, output.rstrip("/") + "/", faults["input.not_a_file"], data.endings, data.is_input)
    for folder, of_folder in itertools.groupby(files, key=lambda file: file[2]):
        if folder is not None:  # consecutive text files below one folder
            found = fits = True
            yield from text_shards(folder, ((path, size) for path, size, _ in of_folder), max_shard_bytes, job_digest)
            continue
        for path, size, _ in of_folder:
            kind = "folder" if data.is_input(path) else kind_of(path, data.endings)
            given = (kind, columns, max_shard_bytes, *args)
            try:
                if data.is_part(path):
                    continue
                found = True
                if kind is None:
                    faults[data.unknown_code].append(path)
                    continue
                for shard in file_shards(path, size, job_digest, max_bytes, data.ranges, *given):
                    fits = fits or shard.format != "unreadable"
                    yield shard
            except BadColumns as error:
                faults[data.columns_code].append(f"{path}: {error}")
                yield unreadable_shard(path, size, job_digest, str(error))
            except OSError as error:
                raise PipelineError("input.not_readable", path=path, reason=error) from error
    if not found:
        refuse_nothing(globs, faults)
    if fits:
        del faults[data.columns_code]
    refuse(faults, data.endings, columns)
