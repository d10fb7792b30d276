"""From one file, examined in an isolated process, or a group of text files to shards."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pipelines.errors import PipelineError
from pipelines.planning.parquet import Unreadable
from pipelines.processes.isolated import ProcessDied, shared_process
from pipelines.storage import ContentIdentity, given_options, open_input, use_options
from pipelines.storage.fingerprint import digest_of, text_content
from schemas.shards import Shard
from spanmarker_core.errors import single_line

#: Part of a file that becomes a shard: format, start, end, bytes and content.
Range = tuple[str, int, int, int, str]

#: Maximum size of the file names in a text shard, in bytes: a task must stay small enough to send.
MAX_NAMES_BYTES = 4096


def file_shards(
    path: str, size: int, job_digest: str, max_bytes: int, ranges: Callable[..., Iterator[Range]], *args: Any
) -> Iterator[Shard]:
    """Yield the shards of one file.

    The part that can't be read, or that ends the process that reads it, becomes one `unreadable` shard.

    Args:
        path: the file, or the folder that is an input as a whole.
        size: its size in bytes.
        job_digest: digest of the job identity.
        max_bytes: limit of the memory for examining the file, in bytes; 0 means no limit.
        ranges: called with path, size and `args`, in an isolated process.
        args: further arguments of `ranges`.

    Raises:
        OSError: the storage failed.
        Exception: any other exception of `ranges`, except `Unreadable`.
    """
    found = examined(path, max_bytes, ranges, path, size, *args)
    part = end = 0
    try:
        for kind, start, end, n_bytes, content in found:
            yield make_shard(path, kind, part, start, end, (), n_bytes, content, job_digest)
            part += 1
    except Unreadable as error:
        yield unreadable_shard(path, size, job_digest, str(error), part, end)
    except ProcessDied as error:
        yield unreadable_shard(path, size, job_digest, f"the process that read it ended ({error})", part, end)


def examined(path: str, max_bytes: int, function: Callable[..., Iterator[Any]], *args: Any) -> Iterator[Any]:
    """Return the iterator `function(*args)`, which runs in an isolated process.

    Args:
        path: the file that the function examines.
        max_bytes: memory limit of the process, in bytes; 0 means no limit.
        function: examines the file.
        args: its arguments.

    Raises:
        ProcessDied: the process ended.
        Exception: any exception of the function.
    """
    if path.startswith("memory://"):  # Files in memory are visible only in this process.
        return function(*args)
    process = shared_process()
    process.max_bytes = max_bytes
    return process.each(with_options, given_options(), function, *args)


def unfit_shard(path: str, size: int, job_digest: str, reason: str) -> Shard:
    """Return the shard of a sound file without the columns; it will write one reject that counts the file's records.

    Args:
        path: the file.
        size: its size in bytes.
        job_digest: digest of the job identity.
        reason: message of the reject.
    """
    return replace(unreadable_shard(path, size, job_digest, reason), end=size)


def unreadable_shard(path: str, size: int, job_digest: str, reason: str, part: int = 0, start: int = 0) -> Shard:
    """Return the shard of a file that can't be read from `start` on; the shard will write one reject.

    Args:
        path: the file.
        size: its size in bytes.
        job_digest: digest of the job identity.
        reason: message of the reject.
        part: number of the shard in its file.
        start: row or byte from which on the file can't be read.
    """
    with open_input(path) as file:
        content = ContentIdentity(path, file).of([(0, size)])
    return _unreadable(path, size, job_digest, reason, part, start, content)


def unopened_shard(path: str, job_digest: str, reason: str) -> Shard:
    """Return the shard of a file that can't even be opened, such as a broken link; it will write one reject.

    Args:
        path: the file.
        job_digest: digest of the job identity.
        reason: message of the reject.
    """
    return _unreadable(path, 0, job_digest, reason, 0, 0, "")


def _unreadable(path: str, size: int, job_digest: str, reason: str, part: int, start: int, content: str) -> Shard:
    shard = make_shard(path, "unreadable", part, start, start, (), size, content, job_digest)
    return replace(shard, reason=single_line(reason, 500))


def with_options(options: tuple[str, ...], function: Callable[..., Any], *args: Any) -> Any:
    """Return `function(*args)`, called with some storage options. Runs in the isolated process.

    Args:
        options: the storage options.
        function: the function to call.
        args: its arguments.
    """
    if options != given_options():
        use_options(options)
    return function(*args)


def make_shard(
    source: str,
    kind: str,
    part: int,
    start: int,
    end: int,
    files: tuple[str, ...],
    n_bytes: int,
    content: str,
    job_digest: str,
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
        job_digest: digest of the job identity.
    """
    stem = source.rpartition("/")[2].partition(".")[0]
    stem = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in stem)[:48]
    return renamed(Shard(f"{stem}-{part:05d}-", source, kind, start, end, files, n_bytes, content), job_digest)


def renamed(shard: Shard, job_digest: str) -> Shard:
    """Return a shard under the name that it has in another job.

    Args:
        shard: the shard.
        job_digest: digest of the other job's identity.
    """
    digest = digest_of(
        shard.source, shard.format, str(shard.start), str(shard.end), *shard.files, shard.content, job_digest
    )
    return replace(shard, name=f"{shard.name.rpartition('-')[0]}-{digest[:16]}")


def text_shards(
    folder: str, kind: str, files: Iterator[tuple[str, int]], max_shard_bytes: int, job_digest: str
) -> Iterator[Shard]:
    """Yield groups of text files. Besides the limits of size, some file names end a group.

    Cuts that depend on names alone stay in the same place when a file is added or removed, so the groups after the
    affected one do not change.

    Args:
        folder: the folder to which the names of the files are relative.
        kind: format of the files: text, or text and a compression.
        files: (path, size in bytes) of each file, sorted by path.
        max_shard_bytes: maximum size of a group with more than one file, in bytes.
        job_digest: digest of the job identity.

    Raises:
        PipelineError: `input.not_readable`.
    """
    group: list[str] = []
    n_bytes = n_names = 0
    for path, size in files:
        name = path.removeprefix(folder + "/")
        full = (
            n_bytes + size > max_shard_bytes or n_names + len(name.encode("utf-8", "surrogateescape")) > MAX_NAMES_BYTES
        )
        if group and full:
            yield _text_shard(folder, kind, group, n_bytes, job_digest)
            group, n_bytes, n_names = [], 0, 0
        group.append(name)
        n_bytes, n_names = n_bytes + size, n_names + len(name.encode("utf-8", "surrogateescape"))
        if digest_of(name)[:2] < "04":  # one name in 64
            yield _text_shard(folder, kind, group, n_bytes, job_digest)
            group, n_bytes, n_names = [], 0, 0
    if group:
        yield _text_shard(folder, kind, group, n_bytes, job_digest)


def _text_shard(folder: str, kind: str, names: list[str], n_bytes: int, job_digest: str) -> Shard:
    try:
        content = text_content(f"{folder}/{name}" for name in names)
    except OSError as error:
        raise PipelineError("input.not_readable", path=error.filename or folder, reason=error) from error
    return make_shard(folder, kind, 0, 0, 0, tuple(names), n_bytes, content, job_digest)
