"""Cost of a plan and a manifest of many shards: seconds and memory of each step of a run with nothing left to do.

    python -m benchmarks.manifest_scale                      # 10,000, 100,000 and 1,000,000 shards
    python -m benchmarks.manifest_scale 100000 --keep DIR    # in DIR, which is kept

Shards and entries are synthetic: entries have the size of real ones (about 1.2 kB of JSON); outputs are real but empty
files, three per shard, listed in the entries. This measures the listing, checking, counting and moving of entries, but
not tagging. Each step runs in its own process; memory is its peak, and `bare` is the peak of a process that only
imports the program.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pipelines.output import compaction, manifest, manifest_table
from pipelines.output.compaction import compact
from pipelines.output.digest_set import DigestSet, chunks
from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import commit, committed_entry, find_done, identity_digest, make_folders, plan_path
from pipelines.output.pending_shards import find_pending
from pipelines.output.plan_file import save_plan
from pipelines.output.reconcile import reconcile
from pipelines.report.totals import Totals
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard

IDENTITY = {"model": "made up", "code": "made up"}
JOB = identity_digest(IDENTITY)
SHARDS_A_FILE = 100
#: Number of entries stored as separate files when a run begins: one more than are left uncompacted.
LOOSE = compaction.COMPACT_AT + 1
SIZES = (10_000, 100_000, 1_000_000)


def shards(count: int, start: int = 0, content: str = "1") -> Iterator[Shard]:
    """Yield a sorted plan, with files of a hundred shards each.

    Args:
        count: number of shards.
        start: number of the first shard.
        content: fingerprint of the files' content.
    """
    for number in range(start, start + count):
        file, part = divmod(number, SHARDS_A_FILE)
        source = f"s3://bucket/corpus/2026/part-{file:07d}.jsonl"
        digest, word = _digest(source, str(part), content)[:16], _digest(source, str(part), "content")
        begin = part * 4 << 20
        yield Shard(f"part_{file:07d}-{part:05d}-{digest}", source, "jsonl", begin, begin + 1, (), 4 << 20, word)


def _digest(*parts: str) -> str:
    return hashlib.blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()


def entry_of(shard: Shard) -> Entry:
    """Return an entry for a finished shard of 2,000 documents, similar to a real one.

    Args:
        shard: the shard.
    """
    number = int(shard.name[-6:], 16)
    return Entry(
        version=MANIFEST_VERSION,
        shard=shard.name,
        source=shard.source,
        files=[],
        job=JOB,
        counts={
            "documents": 2000,
            "tagged": 1990,
            "empty": 7,
            "rejected": 3,
            "unreadable": 0,
            "characters": 4_000_000 + number,
            "sentences": 40_000,
            "words": 800_000 + number,
            "long_words": 12,
            "windows": 42_000,
            "entities": 60_000 + number,
        },
        work={"candidates": 6_400_000, "scored_candidates": 38_400, "tokens": 1_100_000, "token_places": 1_130_000},
        reject_codes={"null_text": 3},
        reject_examples=[
            {
                "document_id": f"{shard.name}-{n}",
                "source": shard.source,
                "source_row": n,
                "code": "null_text",
                "message": "",
            }
            for n in range(3)
        ],
        labels=dict.fromkeys(("art", "location", "organization", "person"), number % 1000),
        seconds=dict.fromkeys(("check", "encode", "pack", "read", "split", "tag", "wait", "write"), number / 1000000.0),
        peak_rss_bytes=1_000_000_000 + number,
        outputs={table.name: Output(2000, 0, _digest(shard.name, table.name)) for table in TAG_TABLES},
        versions={"code": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0", "sentencex": "1.0.10"},
    )


def make(folder: str, count: int) -> None:
    """Create an output in which `count` shards are done; all but LOOSE entries are in the manifest table.

    Args:
        folder: the output folder.
        count: number of shards.
    """
    make_folders(folder)
    for shard in shards(count):
        for table in TAG_TABLES:
            os.close(os.open(table_path(folder, table.name, shard.name), os.O_CREAT | os.O_WRONLY))
    tabled = shards(count - LOOSE)
    manifest_table.replace(
        folder, (manifest_table.batch_of([entry_of(shard) for shard in chunk]) for chunk in chunks(tabled))
    )
    for shard in shards(LOOSE, count - LOOSE):
        commit(folder, entry_of(shard))


def _reconcile(folder: str, count: int) -> None:
    found = reconcile(folder, DigestSet.of(shard.name for shard in shards(count)), JOB)
    assert (len(found.done), found.superseded, len(found.damaged)) == (count, 0, 0)


def _find_work(folder: str, count: int, **changed: str) -> None:
    def now() -> Iterator[Shard]:
        yield from shards(SHARDS_A_FILE, **changed)
        yield from shards(count - SHARDS_A_FILE, SHARDS_A_FILE)

    work = find_pending(folder, now(), IDENTITY, JOB, prune=False, force=False, before_removal=lambda: None)
    expected = SHARDS_A_FILE if changed else 0
    assert (work.left, work.state.superseded) == (expected, expected), work.intent


def _changed(folder: str, count: int) -> None:
    _find_work(folder, count, content="2")


def _totals(folder: str, count: int) -> None:
    assert Totals.over(manifest.read_entries(folder)).counts["documents"] == 2000 * count


def _lookups(folder: str, count: int) -> None:
    for shard in islice(shards(count), 0, count, count // 100):
        assert committed_entry(folder, shard.name) is not None


SAMPLE_TABLES: dict[str, tuple[str, Callable[[str, int], object]]] = {
    "bare": ("start, with imports", lambda folder, count: None),
    "plan": ("make and save the plan", lambda folder, count: save_plan(plan_path(folder), shards(count), IDENTITY)),
    "make": ("(make up entries and outputs)", make),
    "fold": (f"move {LOOSE:,} entries into the table", lambda folder, count: compact(folder)),
    "done": ("find out what is done", lambda folder, count: find_done(folder)),
    "reconcile": ("that, and bring in line with the plan", _reconcile),
    "work": ("plan, save, bring in line: what a run does first", _find_work),
    "totals": ("add up all entries: what the report does", _totals),
    "lookups": ("look up 100 single entries", _lookups),
    "changed": ("as `work`, one file of 100 shards changed", _changed),
}


def step(name: str, folder: str, count: int) -> None:
    """Execute a step and print its cost.

    Args:
        name: name of the step.
        folder: the output folder.
        count: number of shards.
    """
    start, cpu = time.perf_counter(), time.process_time()
    SAMPLE_TABLES[name][1](folder, count)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_rss_mb": round(peak / 1e6)}))


def measure(folder: str, count: int) -> None:
    """Print a table of all steps.

    Args:
        folder: the output folder.
        count: number of shards.
    """
    print(
        f"\n{count:,} shards\n\n| step | seconds | of a processor | peak memory, MB |\n| --- | --- | --- | --- |",
        flush=True,
    )
    for name, (meaning, _) in SAMPLE_TABLES.items():
        command = [sys.executable, "-m", __spec__.name, str(count), "--step", name, "--keep", folder]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(
            f"| {name}: {meaning} | {found['seconds']:,.2f} | {found['cpu']:,.2f} | {found['peak_rss_mb']:,} |",
            flush=True,
        )
    for name in ("plan.jsonl", "manifest/entries.parquet"):
        print(f"{name}: {Path(folder, name).stat().st_size / 1e6:,.1f} MB", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shards", nargs="*", type=int, default=SIZES)
    parser.add_argument("--keep", help="folder to work in; else one that is removed")
    parser.add_argument("--step", choices=SAMPLE_TABLES)
    arguments = parser.parse_args()
    if arguments.step:
        step(arguments.step, arguments.keep, arguments.shards[0])
        return
    for count in arguments.shards:
        with tempfile.TemporaryDirectory() as scratch:
            measure(arguments.keep or scratch, count)


if __name__ == "__main__":
    main()
