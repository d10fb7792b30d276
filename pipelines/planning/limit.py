"""A plan of the first documents only, in the order of reading."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from pipelines.planning.files import renamed, with_options
from pipelines.processes.isolated import IsolatedProcess, ProcessDied
from pipelines.stages.read import documents_in, read_records
from pipelines.storage import given_options
from pipelines.task import Columns
from schemas.shards import Shard


def first_shards(
    shards: Iterator[Shard], limit: int, columns: Columns, job_digest: str, max_bytes: int = 0
) -> Iterator[Shard]:
    """Yield the shards of the first documents; the last one stops where they end.

    The documents are counted by reading them, in an isolated process. Rejected documents count, too. If none of their
    files can be read, the plan is followed to the first one that can, because it raises an error if none can.

    Args:
        shards: the plan, in the order of reading.
        limit: number of documents, at least 1.
        columns: the columns that are read.
        job_digest: digest of the job identity, part of each shard's name.
        max_bytes: memory limit of the isolated process, in bytes; 0 means no limit.
    """
    readable = False
    # Not the process that examines the files: that one is at work while its shards are taken.
    with closing(IsolatedProcess(max_bytes)) as process:
        for shard in shards:
            readable = readable or shard.format != "unreadable"
            if shard.source.startswith("memory://"):  # Files in memory are visible only in this process.
                found = _count(shard, columns, limit + 1)
            else:
                try:
                    found = process.call(with_options, given_options(), _count, shard, columns, limit + 1)
                except ProcessDied:
                    found = limit + 1  # The shard rejects the record that ends a process.
            if found >= limit:
                yield shard if found == limit else renamed(replace(shard, limit=limit), f"{job_digest} {limit}")
                while not readable and (other := next(shards, None)) is not None:
                    readable = other.format != "unreadable"
                return
            yield shard
            limit -= found


def _count(shard: Shard, columns: Columns, limit: int) -> int:
    """Return the number of documents of a shard, counted up to a limit. Runs in the isolated process."""
    found = 0
    for item in read_records(shard, columns):
        found += documents_in(item)
        if found >= limit:
            break
    return found
