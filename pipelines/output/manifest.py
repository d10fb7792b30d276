"""What is done, exactly. The layout of an output folder and the entries of finished shards.

    out/job.json                    the identity of the job whose rows these are
    out/plan.jsonl                  the shards of the last run's inputs
    out/annotations/SHARD.parquet   and documents/, rejects/: one file a shard in each; see `layout`
    out/manifest/SHARD.json         published last: the shard is done
    out/manifest/entries.parquet    the same, for shards of earlier runs, where there are many
    out/report.json, .md, .html     what the last run did

A shard's name holds a digest of its source, range, content and job. So a shard is done if its name is
in the manifest and its files are there, each of the size that its entry says. The contents of files are
not read for that.

An entry is a file of its own at first. Whoever holds the output's lock moves entries into the table (`fold`): the
table is published with them, then their files are removed. So a crash leaves an entry in both at worst, and then its
file counts. An entry is taken back in the opposite order of what made it: out of the table, its file, the outputs.
"""

import contextlib
import hashlib
import heapq
import itertools
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.output import manifest_table as folded
from pipelines.output.digest_set import DigestSet, Sizes, digests_of, pages
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
    remove,
    resolve,
    size_of,
    sizes_in,
    translate_storage_errors,
    writing,
)
from schemas import Table
from schemas.manifest import ENTRIES, Entry
from schemas.shards import Shard

#: Entries that are files of their own, past which they are moved into the table.
COMPACT_AT = 1000
_SHARD_NAME = re.compile(r"[A-Za-z0-9_]{0,48}-[0-9]{5,}-[0-9a-f]{16}")
_READ_AT_ONCE = 256  # entries
_HELD_BYTES = 1 << 20  # of names of entries that are files; the rest is put on disk
_REMOVERS = 16


def plan_path(output: str) -> str:
    """Return where the plan lies."""
    return join(output, "plan.jsonl")


def identity_digest(identity: dict[str, str]) -> str:
    """Return the digest of a job identity, which stands for it in names and footers."""
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16).hexdigest()


def is_shard_name(name: str) -> bool:
    """Tell whether a file's name, without its ending, may be a shard's. Other files are not this program's.

    >>> is_shard_name("articles-00003-9f86d081884c7d65"), is_shard_name("mine")
    (True, False)
    """
    return _SHARD_NAME.fullmatch(name) is not None


def make_folders(output: str, tables: tuple[Table, ...] = TAG_TABLES) -> None:
    """Make the folders of an output that holds these tables."""
    for name in [*(table.name for table in tables), "manifest"]:
        make_folder(join(output, name))


def commit(output: str, entry: Entry) -> None:
    """Publish a shard's entry. Its outputs must be in place."""
    publish_bytes(_entry_path(output, entry.shard), entry.to_json(indent=1) + b"\n")


def committed_entry(output: str, shard: str) -> Entry | None:
    """Return a shard's entry if it has one, else None."""
    path = _entry_path(output, shard)
    try:
        return _entry(path, _contents(output, [path])[0])
    except FileNotFoundError:
        rows = next(folded.rows_of(output, [shard], ["shard", "entry"]), None)
    return None if rows is None else _entry(folded.table_file(output), rows["entry"][0].as_py())


def finished_entry(output: str, shard: str) -> Entry | None:
    """Return a shard's entry if it is finished and its outputs are there as it says, else None.

    An attempt of an earlier run may commit after this run has cleared what it had published.
    """
    entry = committed_entry(output, shard)
    if entry is None:
        return None
    sizes = ((size_of(table_path(output, table, shard)), there.n_bytes) for table, there in entry.outputs.items())
    return entry if all(found == told for found, told in sizes) else None


def has_entries(output: str) -> bool:
    """Tell whether any shard was ever finished here."""
    return any(True for _ in loose_names(output)) or exists(folded.table_file(output))


def committed_names(output: str) -> Iterator[str]:
    """Yield the names of finished shards, sorted, as their entries say; reads no entry."""
    tabled = (name for batch in folded.batches(output, ["shard"]) for name in batch["shard"].to_pylist())
    # The files are listed before the table is opened: what is moved meanwhile is in the table by then.
    for name, _ in itertools.groupby(heapq.merge(_loose(output), tabled)):
        yield name


def read_entries(output: str, wanted: DigestSet | None = None) -> Iterator[Entry]:
    """Yield the entries of finished shards, or of those among them that are wanted, sorted by name."""
    for batch in entry_rows(output, ["shard", "entry"]):
        if wanted is not None:
            batch = batch.filter(pa.array(wanted.mask(shard_keys(batch))))
        for content in batch["entry"].to_pylist():
            yield _entry(folded.table_file(output), content)


def entry_rows(output: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield all entries as rows of ENTRIES, sorted by shard. Memory holds some thousand of them.

    The files are listed once, before the table is opened. So an entry that another process moves meanwhile is found
    where it was or in the table.

    Args:
        output: the output folder.
        columns: those that are wanted; the first is "shard".
    """
    with tempfile.SpooledTemporaryFile(_HELD_BYTES) as held:

        def kept() -> Iterator[str]:
            for name in _loose(output):
                held.write(f"{name}\n".encode())
                yield name

        loose = DigestSet.of(kept())
        held.seek(0)
        names = (line.decode().rstrip("\n") for line in held)
        files = (_loose_rows(output, page).select(columns) for page in pages(names, _READ_AT_ONCE))
        masked = (rows.filter(pa.array(~loose.mask(shard_keys(rows)))) for rows in folded.batches(output, columns))
        yield from _merged(filter(len, masked), filter(len, files))


def shard_keys(rows: pa.RecordBatch) -> np.ndarray:
    """Return the keys, as in DigestSet, of rows of ENTRIES."""
    return digests_of(rows["shard"].to_pylist())


def planned(output: str) -> Iterator[Shard]:
    """Yield the shards of the saved plan.

    Raises:
        PipelineError: `plan.other_version`; `output.damaged` if the file is no plan, `output.not_readable`.
    """
    return read_plan(plan_path(output))


@dataclass(frozen=True, slots=True)
class OutputContents:
    """What is in an output folder.

    Attributes:
        committed: shards that have an entry.
        done: those of them whose outputs are all in place and of the right sizes.
        sizes: the output files by table.
    """

    committed: DigestSet
    done: DigestSet
    sizes: dict[str, Sizes]


def find_done(output: str) -> OutputContents:
    """Hold the entries against the files that are there."""
    sizes = output_sizes(output)
    committed, done = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for rows in entry_rows(output, ["shard", "outputs"]):
        keys = shard_keys(rows)
        committed.append(keys)
        done.append(keys[_whole(rows, keys, sizes)])
    return OutputContents(DigestSet(np.concatenate(committed)), DigestSet(np.concatenate(done)), sizes)


def output_sizes(output: str) -> dict[str, Sizes]:
    """Return the output files that are there, by table."""
    return {
        name: Sizes.of(found for found in sizes_in(join(output, name), table_ending(name)) if is_shard_name(found[0]))
        for name in (table.name for table in TABLES)
    }


def _whole(rows: pa.RecordBatch, keys: np.ndarray, sizes: dict[str, Sizes]) -> np.ndarray:
    """Tell which shards' outputs are there as their entries say; keys and names of sizes are by row and table."""
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


def fold(output: str) -> None:
    """Move entries into the table if many are files of their own. Only for whoever holds the output's lock."""
    loose = DigestSet.of(loose_names(output))
    if len(loose) <= COMPACT_AT:
        return
    folded.replace(output, entry_rows(output, ENTRIES.schema.names))
    remove_entries(output, loose.among(loose_names(output)))


def keep_only(output: str, kept: DigestSet) -> None:
    """Remove the entries of all other shards; their outputs are then what nobody speaks for.

    Only for whoever holds the output's lock.
    """
    tabled = [shard_keys(batch) for batch in folded.batches(output, ["shard"])]
    if not all(kept.mask(keys).all() for keys in tabled):
        every = folded.batches(output, ENTRIES.schema.names)
        folded.replace(output, filter(len, (rows.filter(pa.array(kept.mask(shard_keys(rows)))) for rows in every)))
    remove_entries(output, kept.missing(loose_names(output)))


def remove_entries(output: str, shards: Iterable[str]) -> None:
    """Remove the entries of shards that are files."""
    remove_files(_entry_path(output, shard) for shard in shards)


def loose_names(output: str) -> Iterator[str]:
    """Yield the names of shards whose entries are files, in no order."""
    return filter(is_shard_name, names_in(join(output, "manifest"), ".json"))


def remove_files(paths: Iterable[str]) -> None:
    """Remove files, a number of them at once, since each takes a store its time.

    Raises:
        PipelineError: `output.not_writable`.
    """
    with ThreadPoolExecutor(_REMOVERS) as pool:
        for page in pages(paths):
            list(pool.map(_remove, page))


def _remove(path: str) -> None:
    with writing(path):
        remove(path)


def _entry_path(output: str, shard: str) -> str:
    return join(output, "manifest", f"{shard}.json")


def _loose(output: str) -> Iterator[str]:
    """Yield what `loose_names` does, sorted. With their ending they sort so too, since no such name begins another."""
    folder = join(output, "manifest")
    with translate_storage_errors(folder):
        for found in listing(*resolve(folder)):
            name = found.path.rpartition("/")[2]
            if name.endswith(".json") and is_shard_name(name := name.removesuffix(".json")):
                yield name


def _loose_rows(output: str, shards: list[str]) -> pa.RecordBatch:
    """Return the entries of these shards, sorted as they are, which were files when they were listed."""
    paths = [_entry_path(output, shard) for shard in shards]
    try:
        contents = _contents(output, paths)
    except FileNotFoundError:  # Another process has the lock and moves them into the table; or removes them.
        return _moved_rows(output, shards)
    return folded.batch_of([_entry(path, content) for path, content in zip(paths, contents, strict=True)])


def _moved_rows(output: str, shards: list[str]) -> pa.RecordBatch:
    found: dict[str, Entry] = {}
    for shard in shards:
        path = _entry_path(output, shard)
        with contextlib.suppress(FileNotFoundError):
            found[shard] = _entry(path, _contents(output, [path])[0])
    for rows in folded.rows_of(output, [shard for shard in shards if shard not in found], ["shard", "entry"]):
        for shard, content in zip(rows["shard"].to_pylist(), rows["entry"].to_pylist(), strict=True):
            found[shard] = _entry(folded.table_file(output), content)
    return folded.batch_of([found[shard] for shard in shards if shard in found])


def _contents(output: str, paths: list[str]) -> list[bytes]:
    try:
        return read_all(paths)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PipelineError("output.not_readable", path=join(output, "manifest"), reason=error) from error


def _entry(path: str, content: bytes) -> Entry:
    try:
        return Entry.from_json(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        code = "output.table_damaged" if path.endswith(".parquet") else "output.damaged"
        raise PipelineError(code, path=path, reason=error) from error


def _merged(first: Iterator[pa.RecordBatch], second: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge two runs of batches, each sorted by shard; memory holds one of each."""
    one, other = next(first, None), next(second, None)
    while one is not None and other is not None:
        bound = min(one["shard"][-1].as_py(), other["shard"][-1].as_py())
        (low, one), (high, other) = _cut(one, bound, first), _cut(other, bound, second)
        yield pa.concat_batches([low, high]).sort_by("shard")
    for rest, following in ((one, first), (other, second)):
        if rest is not None:
            yield rest
            yield from following


def _cut(
    rows: pa.RecordBatch, bound: str, following: Iterator[pa.RecordBatch]
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Return the rows up to a shard, and those after it or the batch that follows."""
    count = pc.sum(pc.less_equal(rows["shard"], bound)).as_py()
    return rows[:count], rows[count:] if count < len(rows) else next(following, None)
