"""The manifest of an output: exactly which shards are finished. The layout of an output folder:

    out/job.json                    the identity of the job that made the rows
    out/plan.jsonl                  the shards of the last run's inputs
    out/annotations/SHARD.parquet   and documents/, rejects/: one file per shard in each; see `pipelines.output.layout`
    out/manifest/SHARD.json         published last: the shard is finished
    out/manifest/entries.parquet    the same, for shards of earlier runs, where there are many
    out/report.json, .md, .html     the report of the last run
    out/progress.json               how far the current run is, or why the last one ended early

A shard's name contains a digest of its source, range, content and job. A shard is therefore finished if its name is
in the manifest and its files exist with the sizes given in its entry. The contents of the files are not read for that.

An entry starts as a separate file. The holder of the output's lock moves entries into the manifest table
(`pipelines.output.compaction`): the table is published with them, then their files are removed. A crash therefore
leaves an entry at worst in both places, and then its file counts. An entry is withdrawn in the reverse order: from the
table, then its file, then the outputs.
"""

import contextlib
import hashlib
import heapq
import itertools
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.output import manifest_table
from pipelines.output.digest_set import DigestSet, Sizes, chunks, digests_of
from pipelines.output.layout import TABLES, TAG_TABLES, table_ending, table_path
from pipelines.output.plan_file import read_plan
from pipelines.storage import (
    exists,
    join,
    listing,
    make_folder,
    names_in,
    publish_bytes,
    read_all,
    resolve,
    size_of,
    sizes_in,
    translate_storage_errors,
)
from schemas import Table
from schemas.manifest import Entry
from schemas.shards import Shard

_SHARD_NAME = re.compile(r"[A-Za-z0-9_]{0,48}-[0-9]{5,}-[0-9a-f]{16}")
_READ_AT_ONCE = 256  # entry files
_HELD_BYTES = 1 << 20  # of names of entry files in memory; the rest is written to disk


def plan_path(output: str) -> str:
    """Return the path of the plan.

    Args:
        output: the output folder.
    """
    return join(output, "plan.jsonl")


def identity_digest(identity: dict[str, str]) -> str:
    """Return the digest of a job identity, which represents it in names and footers.

    Args:
        identity: identity of the job.
    """
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16).hexdigest()


def is_shard_name(name: str) -> bool:
    """Return whether a name has the form of a shard's name. Files with other names were not written by this program.

    Args:
        name: a file's name without its ending.

    >>> is_shard_name("articles-00003-9f86d081884c7d65"), is_shard_name("mine")
    (True, False)
    """
    return _SHARD_NAME.fullmatch(name) is not None


def make_folders(output: str, tables: tuple[Table, ...] = TAG_TABLES) -> None:
    """Create the folders of an output.

    Args:
        output: the output folder.
        tables: the tables that it will hold.

    Raises:
        PipelineError: `url.no_bucket`, `url.unusable`, `output.not_writable`.
    """
    for name in [*(table.name for table in tables), "manifest"]:
        make_folder(join(output, name))


def commit(output: str, entry: Entry) -> None:
    """Publish a shard's entry. Its outputs must be in place.

    Args:
        output: the output folder.
        entry: the entry.

    Raises:
        PipelineError: `output.not_writable`.
    """
    publish_bytes(entry_path(output, entry.shard), entry.to_json(indent=1) + b"\n")


def committed_entry(output: str, shard: str) -> Entry | None:
    """Return a shard's entry; None if it has none.

    Args:
        output: the output folder.
        shard: name of the shard.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`, `output.table_damaged`.
    """
    path = entry_path(output, shard)
    try:
        return _entry(path, _contents(output, [path])[0])
    except FileNotFoundError:
        rows = next(manifest_table.rows_of(output, [shard], ["shard", "entry"]), None)
    return None if rows is None else _entry(manifest_table.table_file(output), rows["entry"][0].as_py())


def finished_entry(output: str, shard: str) -> Entry | None:
    """Return a shard's entry if its outputs exist with the sizes given there; otherwise None.

    An attempt of an earlier run may commit after this run has removed its outputs.

    Args:
        output: the output folder.
        shard: name of the shard.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`, `output.table_damaged`.
    """
    entry = committed_entry(output, shard)
    if entry is None:
        return None
    sizes = ((size_of(table_path(output, table, shard)), there.n_bytes) for table, there in entry.outputs.items())
    return entry if all(found == stated for found, stated in sizes) else None


def has_entries(output: str) -> bool:
    """Return whether an output has any entries.

    Args:
        output: the output folder.
    """
    return any(True for _ in loose_names(output)) or exists(manifest_table.table_file(output))


def committed_names(output: str) -> Iterator[str]:
    """Yield the names of finished shards, sorted; reads no entry.

    Args:
        output: the output folder.
    """
    tabled = (name for batch in manifest_table.batches(output, ["shard"]) for name in batch["shard"].to_pylist())
    # The files are listed before the table is opened, so an entry that is moved in between is in the table.
    for name, _ in itertools.groupby(heapq.merge(_loose(output), tabled)):
        yield name


def read_entries(output: str, shards: DigestSet | None = None) -> Iterator[Entry]:
    """Yield the entries of finished shards, sorted by name.

    Args:
        output: the output folder.
        shards: the shards to yield; None yields all.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`, `output.table_damaged`.
    """
    for batch in entry_rows(output, ["shard", "entry"]):
        if shards is not None:
            batch = batch.filter(pa.array(shards.mask(shard_keys(batch))))
        for content in batch["entry"].to_pylist():
            yield _entry(manifest_table.table_file(output), content)


def entry_rows(output: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield all entries as rows of ENTRIES, sorted by shard. Memory holds a few thousand of them.

    The files are listed once, before the table is opened. An entry that another process moves in between is therefore
    found in its file or in the table.

    Args:
        output: the output folder.
        columns: the columns to read; the first is "shard".

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`, `output.table_damaged`.
    """
    with tempfile.SpooledTemporaryFile(_HELD_BYTES) as held:

        def kept() -> Iterator[str]:
            for name in _loose(output):
                held.write(f"{name}\n".encode())
                yield name

        loose = DigestSet.of(kept())
        held.seek(0)
        names = (line.decode().rstrip("\n") for line in held)
        files = (_loose_rows(output, chunk).select(columns) for chunk in chunks(names, _READ_AT_ONCE))
        masked = (
            rows.filter(pa.array(~loose.mask(shard_keys(rows)))) for rows in manifest_table.batches(output, columns)
        )
        yield from manifest_table.merged(filter(len, masked), filter(len, files))


def shard_keys(rows: pa.RecordBatch) -> np.ndarray:
    """Return the digests of the shards' names, as `pipelines.output.digest_set` computes them.

    Args:
        rows: ENTRIES rows with the column "shard".
    """
    return digests_of(rows["shard"].to_pylist())


def planned(output: str) -> Iterator[Shard]:
    """Yield the shards of the saved plan.

    Args:
        output: the output folder.

    Raises:
        PipelineError: `plan.other_version`; `output.damaged` if the file is not a plan; `output.not_readable`.
    """
    return read_plan(plan_path(output))


@dataclass(frozen=True, slots=True)
class OutputContents:
    """The contents of an output folder.

    Attributes:
        committed: shards that have an entry.
        done: committed shards with all outputs in place and of the right sizes.
        sizes: the output files by table.
    """

    committed: DigestSet
    done: DigestSet
    sizes: dict[str, Sizes]


def find_done(output: str) -> OutputContents:
    """Compare the entries with the existing files.

    Args:
        output: the output folder.
    """
    sizes = output_sizes(output)
    committed, done = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for rows in entry_rows(output, ["shard", "outputs"]):
        keys = shard_keys(rows)
        committed.append(keys)
        done.append(keys[_whole(rows, keys, sizes)])
    return OutputContents(DigestSet(np.concatenate(committed)), DigestSet(np.concatenate(done)), sizes)


def output_sizes(output: str) -> dict[str, Sizes]:
    """Return the existing output files, by table.

    Args:
        output: the output folder.
    """
    return {
        name: Sizes.of(found for found in sizes_in(join(output, name), table_ending(name)) if is_shard_name(found[0]))
        for name in (table.name for table in TABLES)
    }


def _whole(rows: pa.RecordBatch, keys: np.ndarray, sizes: dict[str, Sizes]) -> np.ndarray:
    """Return for each row whether all its outputs exist as stated.

    `keys` holds the digest of each row's shard, `sizes` the existing files by table.
    """
    outputs = rows["outputs"]
    offsets = outputs.offsets.to_numpy()
    owners = np.repeat(np.arange(len(rows)), np.diff(offsets))
    tables = outputs.keys.slice(offsets[0], len(owners))
    n_bytes = outputs.items.slice(offsets[0], len(owners)).to_numpy()
    whole = np.ones(len(rows), bool)
    for table in tables.unique().to_pylist():
        of_table = pc.equal(tables, table).to_numpy(zero_copy_only=False)
        there = sizes[table].equal(keys[owners[of_table]], n_bytes[of_table]) if table in sizes else False
        np.logical_and.at(whole, owners[of_table], there)
    return whole


def loose_names(output: str) -> Iterator[str]:
    """Yield the names of the shards that have an entry file, in any order.

    Args:
        output: the output folder.
    """
    return filter(is_shard_name, names_in(join(output, "manifest"), ".json"))


def entry_path(output: str, shard: str) -> str:
    """Return the path of a shard's entry file.

    Args:
        output: the output folder.
        shard: name of the shard.
    """
    return join(output, "manifest", f"{shard}.json")


def _loose(output: str) -> Iterator[str]:
    """Yield the names of `loose_names`, sorted.

    The listing is sorted by file name. The order is the same without the ending, because no shard name is a prefix of
    another.
    """
    folder = join(output, "manifest")
    with translate_storage_errors(folder):
        for found in listing(*resolve(folder)):
            name = found.path.rpartition("/")[2]
            if name.endswith(".json") and is_shard_name(name := name.removesuffix(".json")):
                yield name


def _loose_rows(output: str, shards: list[str]) -> pa.RecordBatch:
    """Return the entries of some shards, in their order; all were entry files when they were listed."""
    paths = [entry_path(output, shard) for shard in shards]
    try:
        contents = _contents(output, paths)
    except FileNotFoundError:  # The holder of the lock is moving them into the table or removing them.
        return _moved_rows(output, shards)
    return manifest_table.batch_of([_entry(path, content) for path, content in zip(paths, contents, strict=True)])


def _moved_rows(output: str, shards: list[str]) -> pa.RecordBatch:
    found: dict[str, Entry] = {}
    for shard in shards:
        path = entry_path(output, shard)
        with contextlib.suppress(FileNotFoundError):
            found[shard] = _entry(path, _contents(output, [path])[0])
    for rows in manifest_table.rows_of(output, [shard for shard in shards if shard not in found], ["shard", "entry"]):
        for shard, content in zip(rows["shard"].to_pylist(), rows["entry"].to_pylist(), strict=True):
            found[shard] = _entry(manifest_table.table_file(output), content)
    return manifest_table.batch_of([found[shard] for shard in shards if shard in found])


def _contents(output: str, paths: list[str]) -> list[bytes]:
    try:
        return read_all(paths)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PipelineError("output.not_readable", path=join(output, "manifest"), reason=error) from error


def _entry(path: str, content: bytes) -> Entry:
    tabled = path.endswith(".parquet")
    try:
        return Entry.from_json(content, check_digest=not tabled)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        code = "output.table_damaged" if tabled else "output.damaged"
        raise PipelineError(code, path=path, reason=error) from error
