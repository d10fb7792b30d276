"""Reconciliation of an output folder with a plan. Only the holder of the output's lock may call these functions.

A shard is removed in this order: from the manifest table, its entry file, its output files. Whenever a crash
happens, an entry therefore refers to complete outputs, or the next run detects that it does not. Outputs without an
entry do not belong to any shard.
"""

import functools
import operator
import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.errors import PipelineError
from pipelines.output.compaction import compact, keep_only, remove_entries, remove_files
from pipelines.output.digest_set import DigestSet, Sizes, chunks, digests_of
from pipelines.output.layout import TABLES, table_ending, table_path
from pipelines.output.manifest import (
    OutputContents,
    committed_names,
    entry_rows,
    find_done,
    is_shard_name,
    loose_names,
    output_sizes,
    planned,
    read_entries,
    shard_keys,
)
from pipelines.storage import join, names_in, remove_scratch
from schemas.manifest import OtherVersion

NONE = DigestSet.of([])
_TODO = re.compile(r"todo(-[0-9a-f]+)?")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of `reconcile`.

    Attributes:
        done: finished shards, including those outside the plan.
        superseded: number of shards removed because one of their files has changed or is now cut into other shards.
        damaged: shards removed because one of their output files was missing or had another size.
        forced: number of shards removed because all shards are processed again.
        pruned: number of shards removed because the plan contains none of their files.
        pruned_documents: documents in the pruned shards.
        orphaned: finished shards of which the plan contains no file; their rows are kept.
        changed: pending planned shards of files that finished shards had been read from before the files changed.
    """

    done: DigestSet
    superseded: int = 0
    damaged: DigestSet = NONE
    forced: int = 0
    pruned: int = 0
    pruned_documents: int = 0
    orphaned: DigestSet = NONE
    changed: DigestSet = NONE


def reconcile(
    output: str,
    plan: DigestSet,
    job: str,
    *,
    prune: bool = False,
    force: bool = False,
    held: DigestSet = NONE,
    before_removal: Callable[[], None] = lambda: None,
) -> Reconciled:
    """Reconcile an output folder with its saved plan, before any shard runs.

    Files of shards without an entry are left over from a crash, and are removed. Shards with a file that the plan now
    cuts into other shards are removed, entry first, so that no row appears twice.

    Args:
        output: the output folder.
        plan: the planned shards.
        job: digest of the job identity. Shards of another job are left over from an interrupted `force`, and are
            removed.
        prune: whether to remove finished shards if the plan contains none of their files.
        force: whether to remove all finished shards.
        held: shards whose files stay even if their entries are removed, because a snapshot of a table names them.
        before_removal: called before the first finished shard is removed; with `force` even if there is none.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged` for an entry of another version, `output.table_damaged`,
            `output.not_writable`.
    """
    remove_scratch([output, join(output, "manifest"), *(join(output, table.name) for table in TABLES)])
    _clear_engines(output)
    if force:
        before_removal()
        forced = sum(1 for _ in committed_names(output))
        keep_only(output, NONE)
        _remove_outputs(output, held, output_sizes(output))
        return Reconciled(NONE, forced=forced)
    found = _find_done(output, before_removal)
    unknown = _look_at_unknown(output, found.done - plan, found.done, job)
    orphaned = found.done - plan - unknown.superseded
    pruned = orphaned if prune else NONE
    pruned_documents = sum(entry.counts["documents"] for entry in read_entries(output, pruned)) if len(pruned) else 0
    kept = found.done - unknown.superseded - pruned
    if len(found.committed - kept):
        before_removal()
        keep_only(output, kept)
    _remove_outputs(output, kept | held, found.sizes)
    return Reconciled(
        kept,
        superseded=len(unknown.superseded),
        damaged=found.committed - found.done,
        pruned=len(pruned),
        pruned_documents=pruned_documents,
        orphaned=orphaned - pruned,
        changed=unknown.changed,
    )


def _find_done(output: str, before_removal: Callable[[], None]) -> OutputContents:
    """Return the contents of an output after compacting its entries. Damaged entries are removed.

    The outputs of a damaged entry are then without an entry, and its shard is processed again.
    """
    while True:
        try:
            compact(output)
            return find_done(output)
        except PipelineError as error:
            if error.code != "output.damaged" or isinstance(error.__cause__, OtherVersion):
                raise
            before_removal()
            remove_files([str(error.values["path"])])


def _clear_engines(output: str) -> None:
    """Remove the files that the Beam engine keeps here while it runs, and leaves behind when it is killed."""
    todo = (name for name in names_in(output, ".jsonl") if _TODO.fullmatch(name))
    remove_files(join(output, f"{name}.jsonl") for name in list(todo))
    failures = join(output, "failures")
    recorded = (name for name in names_in(failures, ".json") if is_shard_name(name.removesuffix(".changed")))
    remove_files(join(failures, f"{name}.json") for name in recorded)


def remove_unknown_files(output: str, known: DigestSet, held: DigestSet = NONE) -> None:
    """Remove all files of unknown shards, entries first.

    Call it after an engine has ended. A worker of a dead run may have checked the lock just before this run acquired
    it, and have published or committed a shard of an older plan since `reconcile`. The cost is one listing per folder.

    Args:
        output: the output folder.
        known: planned shards and shards that are kept.
        held: shards whose files stay in any case, because a snapshot of a table names them.

    Raises:
        PipelineError: `output.not_writable`.
    """
    remove_entries(output, known.missing(loose_names(output)))
    for table in TABLES:
        there = filter(is_shard_name, names_in(join(output, table.name), table_ending(table.name)))
        remove_files(table_path(output, table.name, name) for name in (known | held).missing(there))


def remove_uncommitted(output: str, known: DigestSet, held: DigestSet = NONE) -> None:
    """Remove all files of unknown shards, and published outputs of shards that are not finished.

    No table then shows a part of a shard.

    Args:
        output: the output folder.
        known: planned shards and shards that are kept.
        held: shards whose files stay in any case, because a snapshot of a table names them.

    Raises:
        PipelineError: `output.not_writable`.
    """
    sizes = output_sizes(output)  # before the entries are read, because outputs are published first
    remove_entries(output, known.missing(loose_names(output)))
    _remove_outputs(output, DigestSet.of(committed_names(output)) | held, sizes)


def _remove_outputs(output: str, kept: DigestSet, sizes: dict[str, Sizes]) -> None:
    """Remove the outputs of shards that are not kept, after any entries committed for them in the meantime."""
    extra = {table: there.names - kept for table, there in sizes.items()}
    if not any(map(len, extra.values())):
        return
    remove_entries(output, functools.reduce(operator.or_, extra.values()).among(loose_names(output)))
    for table, names in extra.items():
        if len(names):
            there = filter(is_shard_name, names_in(join(output, table), table_ending(table)))
            remove_files(table_path(output, table, name) for name in names.among(there))


@dataclass(frozen=True, slots=True)
class _Unknown:
    superseded: DigestSet
    changed: DigestSet  # pending planned shards of the same files


def _look_at_unknown(output: str, unknown: DigestSet, done: DigestSet, job: str) -> _Unknown:
    """Find the finished, unplanned shards of which a file is now in other shards."""
    if not len(unknown):
        return _Unknown(NONE, NONE)
    others, owners, files = array("Q"), array("Q"), array("Q")  # shards of other jobs; shard and file of each pair
    for rows in entry_rows(output, ["shard", "job", "source", "files"]):
        rows = rows.filter(pa.array(unknown.mask(shard_keys(rows))))
        for key, row in zip(shard_keys(rows).tolist(), rows.to_pylist(), strict=True):
            if row["job"] != job:
                others.append(key)
                continue
            found = _file_keys(row["source"], row["files"])
            owners.extend([key] * len(found))
            files.frombytes(found.tobytes())
    sources, cut_again, changed = DigestSet(files), array("Q"), array("Q")
    for chunk in chunks(planned(output)) if len(sources) else ():
        open_ = ~done.mask(digests_of(shard.name for shard in chunk))
        for shard, is_open in zip(chunk, open_.tolist(), strict=True):
            keys = _file_keys(_bytes(shard.source), map(_bytes, shard.files))
            if len(hits := keys[sources.mask(keys)]):
                cut_again.frombytes(hits.tobytes())
                if is_open:
                    changed.frombytes(digests_of([shard.name]).tobytes())
        cut_again = array("Q", np.unique(np.asarray(cut_again, np.uint64)).tobytes())
    again = DigestSet(cut_again).mask(np.asarray(files, np.uint64))
    superseded = DigestSet(np.asarray(owners, np.uint64)[again]) | DigestSet(others)
    return _Unknown(superseded, DigestSet(changed))


def _file_keys(source: bytes, files: Iterable[bytes]) -> np.ndarray:
    """Return the digests of the paths of a shard's files."""
    folder = source.rstrip(b"/") + b"/"
    return digests_of([folder + name for name in files] or [source])


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
