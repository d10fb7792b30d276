"""What is done, exactly. The layout of an output folder, the entries of finished shards, what is left to do.

    out/job.json                    the identity of the job whose rows these are
    out/plan.jsonl                  the shards of the last run's inputs
    out/annotations/SHARD.parquet   and documents/, rejects/: one file a shard in each
    out/manifest/SHARD.json         published last: the shard is done
    out/report.json, report.md      what the last run did

A shard's name holds a digest of its source, range, content and job. So a shard is done if its name is
in the manifest and its files are there, each of the size that its entry says. The contents of files are
not read for that.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pipelines.errors import PipelineError
from pipelines.plan import read_plan
from pipelines.storage import (
    join,
    make_folder,
    names_in,
    open_input,
    publish_bytes,
    read_all,
    remove,
    remove_scratch,
    sizes_in,
    writing,
)
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import PLAN_VERSION, Shard

Item = TypeVar("Item")

#: Tables of a shard, in the order in which they are published.
TABLES = (ANNOTATIONS, DOCUMENTS, REJECTS)
_SHARD_NAME = re.compile(r"[A-Za-z0-9_]{0,48}-[0-9]{5,}-[0-9a-f]{16}")
_PAGE = 256  # entries fetched at once


def table_path(output: str, table: str, shard: str) -> str:
    """Return where a shard's part of a table lies."""
    return join(output, table, f"{shard}.parquet")


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


def make_folders(output: str) -> None:
    """Make the folders of an output."""
    for name in [*(table.name for table in TABLES), "manifest"]:
        make_folder(join(output, name))


def commit(output: str, entry: Entry) -> None:
    """Publish a shard's entry. Its outputs must be in place."""
    content = json.dumps(asdict(entry), indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape")
    publish_bytes(_entry_path(output, entry.shard), content + b"\n")


def read_entries(output: str, shards: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of finished shards by name, in order; memory holds a page of them."""
    for page in _pages(shards):
        yield from _read_page(output, page)


def entries_of(output: str, shards: Iterable[Shard], done: set[str]) -> Iterator[tuple[Shard, Entry | None]]:
    """Yield shards with their entries, None where they are not in `done`."""
    for page in _pages(shards):
        entries = iter(_read_page(output, [shard.name for shard in page if shard.name in done]))
        for shard in page:
            yield shard, next(entries) if shard.name in done else None


def planned(output: str) -> Iterator[Shard]:
    """Yield the shards of the saved plan.

    Raises:
        PipelineError: `output.damaged` if the file is no plan of this version, `output.not_readable`.
    """
    path = plan_path(output)
    try:
        with open_input(path) as file:
            header = json.loads(file.readline())
        if not isinstance(header, dict) or header.get("plan_version") != PLAN_VERSION:
            raise ValueError(f"it does not begin as a plan of version {PLAN_VERSION} does")
        yield from read_plan(path)
    except OSError as error:
        raise PipelineError("output.not_readable", path=path, reason=error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError("output.damaged", path=path, reason=error) from error


def done_shards(output: str) -> set[str]:
    """Return the names of finished shards: committed, with all their outputs in place and of the right sizes."""
    sizes = {table.name: dict(sizes_in(join(output, table.name), ".parquet")) for table in TABLES}
    committed = filter(is_shard_name, names_in(join(output, "manifest"), ".json"))
    whole = sorted(name for name in committed if all(name in found for found in sizes.values()))
    return {
        name
        for name, entry in zip(whole, read_entries(output, whole), strict=True)
        if all(sizes[table][name] == written.n_bytes for table, written in entry.outputs.items())
    }


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What `reconcile` found and did.

    Attributes:
        done: names of finished shards, those that the plan doesn't know included.
        superseded: shards removed because one of their files has other content or is cut otherwise now.
        damaged: shards removed because one of their output files was missing or of another size.
        orphaned: names of finished shards of which the plan names no file, sorted; their rows are kept.
    """

    done: set[str]
    superseded: int
    damaged: int
    orphaned: list[str]


def reconcile(output: str) -> Reconciled:
    """Bring an output folder in line with its saved plan, before any shard runs.

    Files of shards without an entry are what a crash left: removed. Shards with a file that the plan cuts in
    other shards now are removed, entry first, so that no row is there twice.
    """
    folders = [join(output, table.name) for table in TABLES]
    remove_scratch([output, join(output, "manifest"), *folders])
    done = done_shards(output)
    damaged = 0
    for name in names_in(join(output, "manifest"), ".json"):
        if name not in done and is_shard_name(name):
            _remove(_entry_path(output, name))
            damaged += 1
    for folder in folders:
        for name in names_in(folder, ".parquet"):
            if name not in done and is_shard_name(name):
                _remove(join(folder, f"{name}.parquet"))

    unknown = set(done)
    for shard in planned(output):
        unknown.discard(shard.name)
    files = {entry.shard: _files(entry) for entry in read_entries(output, sorted(unknown))}
    wanted = {file for of_shard in files.values() for file in of_shard}
    cut_anew = {file for shard in planned(output) for file in _files(shard) if file in wanted} if wanted else set()
    superseded = {name for name, of_shard in files.items() if not cut_anew.isdisjoint(of_shard)}
    for name in sorted(superseded):
        _remove(_entry_path(output, name))
        for table in TABLES:
            _remove(table_path(output, table.name, name))
    return Reconciled(done - superseded, len(superseded), damaged, sorted(files.keys() - superseded))


def _files(shard: Shard | Entry) -> list[str]:
    """Return the paths of the files that a shard is read from."""
    return [join(shard.source, name) for name in shard.files] or [shard.source]


def left(output: str, done: set[str]) -> Iterator[Shard]:
    """Yield the planned shards that are not done."""
    return (shard for shard in planned(output) if shard.name not in done)


def _entry_path(output: str, shard: str) -> str:
    return join(output, "manifest", f"{shard}.json")


def _remove(path: str) -> None:
    with writing(path):
        remove(path)


def _pages(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while page := list(itertools.islice(iterator, _PAGE)):
        yield page


def _read_page(output: str, shards: list[str]) -> Iterator[Entry]:
    paths = [_entry_path(output, shard) for shard in shards]
    for path, content in zip(paths, _contents(output, paths), strict=True):
        try:
            yield _entry(json.loads(content.decode("utf-8", "surrogateescape")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError("output.damaged", path=path, reason=error) from error


def _contents(output: str, paths: list[str]) -> list[bytes]:
    try:
        return read_all(paths)
    except OSError as error:
        raise PipelineError("output.not_readable", path=join(output, "manifest"), reason=error) from error


def _entry(values: dict[str, Any]) -> Entry:
    if values["version"] != MANIFEST_VERSION:
        raise ValueError(f"manifest version {values['version']}, and this program reads {MANIFEST_VERSION}")
    values["outputs"] = {table: Output(**output) for table, output in values["outputs"].items()}
    return Entry(**values)
