"""Entries that move from their files into the manifest table or are removed. Only for the holder of the output's lock.

The table is always published before the files of its entries are removed; see `pipelines.output.manifest`.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from pipelines.output import manifest_table
from pipelines.output.digest_set import DigestSet, chunks
from pipelines.output.manifest import entry_path, entry_rows, loose_names, shard_keys
from pipelines.storage import remove, writing
from schemas.manifest import ENTRIES

#: Number of separate entry files above which entries are moved into the manifest table.
COMPACT_AT = 1000
_REMOVERS = 16


def compact(output: str) -> None:
    """Move entries into the manifest table if there are many entry files.

    Args:
        output: the output folder.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`, `output.table_damaged`, `output.not_writable`.
    """
    loose = DigestSet.of(loose_names(output))
    if len(loose) <= COMPACT_AT:
        return
    manifest_table.replace(output, entry_rows(output, ENTRIES.schema.names))
    remove_entries(output, loose.among(loose_names(output)))


def keep_only(output: str, kept: DigestSet) -> None:
    """Remove the entries of all other shards; their outputs are then without an entry.

    Args:
        output: the output folder.
        kept: the shards that stay.

    Raises:
        PipelineError: `output.not_readable`, `output.table_damaged`, `output.not_writable`.
    """
    tabled = [shard_keys(batch) for batch in manifest_table.batches(output, ["shard"])]
    if not all(kept.mask(keys).all() for keys in tabled):
        every = manifest_table.batches(output, ENTRIES.schema.names)
        manifest_table.replace(
            output, filter(len, (rows.filter(pa.array(kept.mask(shard_keys(rows)))) for rows in every))
        )
    remove_entries(output, kept.missing(loose_names(output)))


def remove_entries(output: str, shards: Iterable[str]) -> None:
    """Remove the entry files of shards.

    Args:
        output: the output folder.
        shards: names of the shards.

    Raises:
        PipelineError: `output.not_writable`.
    """
    remove_files(entry_path(output, shard) for shard in shards)


def remove_files(paths: Iterable[str]) -> None:
    """Remove files, several in parallel to hide the latency of a store.

    Args:
        paths: paths or URLs.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with ThreadPoolExecutor(_REMOVERS) as pool:
        for chunk in chunks(paths):
            list(pool.map(_remove, chunk))


def _remove(path: str) -> None:
    with writing(path):
        remove(path)
