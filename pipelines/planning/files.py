"""From one file to its shards, examined in an isolated process."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pipelines.planning.parquet import Unreadable
from pipelines.processes.isolated import ProcessDied, shared_process
from pipelines.storage import ContentIdentity, given_options, open_input, use_options
from pipelines.storage.fingerprint import digest_of
from schemas.shards import Shard

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


def _with_options(options: tuple[str, ...], ranges: Callable[..., Iterator[Range]], *args: Any) -> Iterator[Range]:
    """Yield the items of `ranges(*args)`, with these storage options. Runs in the isolated process."""
    if options != given_options():
        use_options(options)
    return ranges(*args)


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
