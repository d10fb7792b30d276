"""Bringing an output folder in line with a plan. Only whoever holds the output's lock may do any of it.

What is removed goes in this order: out of the table of entries, the entry's own file, the output files. So whatever
moment a crash chooses, an entry speaks for whole outputs or the next run finds that it doesn't, and outputs that no
entry speaks for are no shard's.
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
from pipelines.output.digest_set import DigestSet, Sizes, digests_of, pages
from pipelines.output.layout import TABLES, table_ending, table_path
from pipelines.output.manifest import (
    OutputContents,
    committed_names,
    entry_rows,
    find_done,
    fold,
    is_shard_name,
    keep_only,
    loose_names,
    output_sizes,
    planned,
    read_entries,
    remove_entries,
    remove_files,
    shard_keys,
)
from pipelines.storage import join, names_in, remove_scratch
from schemas.manifest import OtherVersion

NONE = DigestSet.of([])
_TODO = re.compile(r"todo(-[0-9a-f]+)?")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What `reconcile` found and did.

    Attributes:
        done: finished shards, those that the plan doesn't know included.
        superseded: shards removed because one of their files has other content or is cut otherwise now.
        damaged: shards removed because one of their output files was missing or of another size.
        forced: shards removed because everything is to be done anew.
        pruned: shards removed of which the plan names no file; pruned_documents: documents in them.
        orphaned: finished shards of which the plan names no file; their rows are kept.
        changed: planned shards, not done, of files that finished shards were read from before they changed.
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
    before_removal: Callable[[], None] = lambda: None,
) -> Reconciled:
    """Bring an output folder in line with its saved plan, before any shard runs.

    Files of shards without an entry are what a crash left: removed. Shards with a file that the plan cuts in
    other shards now are removed, entry first, so that no row is there twice.

    Args:
        output: the output folder.
        plan: the planned shards.
        job: digest of the job identity. Shards of another are what an interrupted `force` left, and are removed.
        prune: whether shards of which the plan names no file are removed too.
        force: whether all shards are.
        before_removal: called before the first finished shard is removed; with `force` even if there is none.
    """
    remove_scratch([output, join(output, "manifest"), *(join(output, table.name) for table in TABLES)])
    _clear_engines(output)
    if force:
        before_removal()
        forced = sum(1 for _ in committed_names(output))
        keep_only(output, NONE)
        _remove_outputs(output, NONE, output_sizes(output))
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
    _remove_outputs(output, kept, found.sizes)
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
    """Return what is in the output after its entries were folded; an entry that is damaged is removed, not its shard.

    Its outputs are then nobody's, and the shard is done again.
    """
    while True:
        try:
            fold(output)
            return find_done(output)
        except PipelineError as error:
            if error.code != "output.damaged" or isinstance(error.__cause__, OtherVersion):
                raise
            before_removal()
            remove_files([str(error.values["path"])])


def _clear_engines(output: str) -> None:
    """Remove what the Beam engine keeps here while it runs, and leaves when it is killed."""
    todo = (name for name in names_in(output, ".jsonl") if _TODO.fullmatch(name))
    remove_files(join(output, f"{name}.jsonl") for name in list(todo))
    failures = join(output, "failures")
    told = (name for name in names_in(failures, ".json") if is_shard_name(name.removesuffix(".changed")))
    remove_files(join(failures, f"{name}.json") for name in told)


def remove_unknown_files(output: str, known: DigestSet) -> None:
    """Remove all of the shards that are not known, entries first.

    Call it after an engine has ended. A worker of a run that is dead may have looked at the lock just before this run
    took it, and have published or committed a shard of an older cut since `reconcile` was done. It costs a listing of
    each folder.

    Args:
        output: the output folder.
        known: planned shards and those that are kept.
    """
    remove_entries(output, known.missing(loose_names(output)))
    for table in TABLES:
        there = filter(is_shard_name, names_in(join(output, table.name), table_ending(table.name)))
        remove_files(table_path(output, table.name, name) for name in known.missing(there))


def remove_uncommitted(output: str, known: DigestSet) -> None:
    """Do what `remove_unknown_files` does, and remove what attempts have published of shards that are not finished.

    So no table shows half a shard.
    """
    sizes = output_sizes(output)  # before the entries are looked at: outputs come first
    remove_entries(output, known.missing(loose_names(output)))
    _remove_outputs(output, DigestSet.of(committed_names(output)), sizes)


def _remove_outputs(output: str, kept: DigestSet, sizes: dict[str, Sizes]) -> None:
    """Remove the outputs of shards that are not kept, and before that the entries that they have got meanwhile."""
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
    changed: DigestSet  # planned shards of the same files, not done


def _look_at_unknown(output: str, unknown: DigestSet, done: DigestSet, job: str) -> _Unknown:
    """Find out which finished shards that are not planned had a file that now is in other shards."""
    if not len(unknown):
        return _Unknown(NONE, NONE)
    others, owners, files = array("Q"), array("Q"), array("Q")  # of another job; one for each file, and the file
    for rows in entry_rows(output, ["shard", "job", "source", "files"]):
        rows = rows.filter(pa.array(unknown.mask(shard_keys(rows))))
        for key, row in zip(shard_keys(rows).tolist(), rows.to_pylist(), strict=True):
            if row["job"] != job:
                others.append(key)
                continue
            found = _file_keys(row["source"], row["files"])
            owners.extend([key] * len(found))
            files.frombytes(found.tobytes())
    wanted, cut_anew, changed = DigestSet(files), array("Q"), array("Q")
    for page in pages(planned(output)) if len(wanted) else ():
        open_ = ~done.mask(digests_of(shard.name for shard in page))
        for shard, is_open in zip(page, open_.tolist(), strict=True):
            keys = _file_keys(_bytes(shard.source), map(_bytes, shard.files))
            if len(hits := keys[wanted.mask(keys)]):
                cut_anew.frombytes(hits.tobytes())
                if is_open:
                    changed.frombytes(digests_of([shard.name]).tobytes())
        cut_anew = array("Q", np.unique(np.asarray(cut_anew, np.uint64)).tobytes())
    again = DigestSet(cut_anew).mask(np.asarray(files, np.uint64))
    superseded = DigestSet(np.asarray(owners, np.uint64)[again]) | DigestSet(others)
    return _Unknown(superseded, DigestSet(changed))


def _file_keys(source: bytes, files: Iterable[bytes]) -> np.ndarray:
    """Return keys of the paths of the files that a shard is read from."""
    folder = source.rstrip(b"/") + b"/"
    return digests_of([folder + name for name in files] or [source])


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
