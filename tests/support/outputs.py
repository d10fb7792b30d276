"""Finished shards without a model: files of a few bytes and entries that fit them."""

import hashlib
from pathlib import Path

from pipelines.output.job_identity import acquire, write_identity
from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import commit, committed_names, identity_digest, make_folders, read_entries
from pipelines.output.pending_shards import SKIPPED, find_pending
from pipelines.storage import join, names_in, publish_bytes, sizes_in
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard

IDENTITY = {"model": "m", "code": "c"}
JOB = identity_digest(IDENTITY)


def a_shard(source: str, part: int = 0, content: str = "1", job: str = JOB, files: tuple[str, ...] = ()) -> Shard:
    digest = hashlib.blake2b(f"{source} {part} {content} {job} {files}".encode("utf-8", "replace")).hexdigest()
    stem = Path(source).stem.encode("ascii", "replace").decode().replace("?", "_")
    return Shard(f"{stem}-{part:05d}-{digest[:16]}", source, "text" if files else "jsonl", 0, 9, files, 100, content)


def an_entry(shard: Shard, job: str = JOB, n_bytes: int = 10) -> Entry:
    counts = dict.fromkeys(("documents", "tagged", "words", "entities"), 1)
    counts |= dict.fromkeys(("empty", "rejected", "unreadable", "characters", "sentences", "long_words", "windows"), 0)
    return Entry(
        version=MANIFEST_VERSION,
        shard=shard.name,
        source=shard.source,
        files=list(shard.files),
        job=job,
        counts=counts,
        work=dict.fromkeys(("candidates", "scored_candidates", "tokens", "token_places"), 1),
        reject_codes={},
        reject_examples=[],
        labels={"person": 1},
        seconds={"tag": 0.5, "wait": 0.1},
        peak_rss_bytes=1,
        outputs={table.name: Output(1, n_bytes, "0" * 32) for table in TAG_TABLES},
        versions={"code": "c"},
    )


def outputs_of(shard: Shard) -> bytes:
    """What the files of a shard hold here: ten bytes that tell the shards apart."""
    return hashlib.blake2b(shard.name.encode(), digest_size=5).hexdigest().encode()


def finish(output: str, shard: Shard, job: str = JOB) -> Entry:
    """Publish and commit a shard as a worker would."""
    for table in TAG_TABLES:
        publish_bytes(table_path(output, table.name, shard.name), outputs_of(shard))
    entry = an_entry(shard, job)
    commit(output, entry)
    return entry


def finish_all(output: str, shards, job: str = JOB) -> list[Entry]:
    make_folders(output)
    return [finish(output, shard, job) for shard in shards]


def run(output, shards, identity=IDENTITY, **options):
    """Do the work of a run except for tagging."""
    job = identity_digest(identity)
    acquire(output, identity, options.get("force", False))
    make_folders(output)
    options = {"prune": False, "force": False, **options}
    work = find_pending(
        output, shards, identity, job, before_removal=lambda: write_identity(output, identity), **options
    )
    for shard, reason in work.shards():
        if reason != SKIPPED:
            finish(output, shard, job)
    return work


def assert_holds(output, shards):
    """The output holds these shards, whole, each once, and nothing else."""
    expected = sorted(shard.name for shard in shards)
    assert list(committed_names(output)) == expected
    assert [entry.shard for entry in read_entries(output)] == expected
    for table in TAG_TABLES:
        assert sorted(names_in(join(output, table.name), ".parquet")) == expected
        sizes = dict(sizes_in(join(output, table.name), ".parquet"))
        assert sizes == {shard.name: len(outputs_of(shard)) for shard in shards}


OLD = [a_shard(f"/in/{name}.jsonl", part) for name in "abcd" for part in range(2)]
NEW = [
    *OLD[:2],  # a as it was
    a_shard("/in/b.jsonl", 0, "2"),  # b with other content
    a_shard("/in/b.jsonl", 1, "2"),
    *OLD[4:6],  # c, of which an output is lost; d is gone
    a_shard("/in/e.jsonl"),
]


def loose(output):
    return sorted(names_in(join(output, "manifest"), ".json"))
