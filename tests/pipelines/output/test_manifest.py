"""Entries in files and in the table are read alike; a run finds and removes leftovers."""

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.output import manifest, manifest_table
from pipelines.output.compaction import compact
from pipelines.output.digest_set import DigestSet, Sizes, digests_of
from pipelines.output.job_identity import acquire
from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import (
    committed_entry,
    committed_names,
    find_done,
    make_folders,
    read_entries,
)
from pipelines.output.pending_shards import SKIPPED
from pipelines.output.plan_file import save_plan
from pipelines.output.reconcile import reconcile, remove_uncommitted
from pipelines.storage import exists, join, names_in, publish_bytes, remove
from tests.support.outputs import (
    IDENTITY,
    JOB,
    NEW,
    OLD,
    a_shard,
    an_entry,
    assert_holds,
    finish,
    finish_all,
    loose,
    run,
)

pytestmark = pytest.mark.usefixtures("small")
NAMES = st.lists(st.sampled_from([f"n{number}" for number in range(40)]))


@given(NAMES, NAMES)
def test_name_sets_are_sets(one, other):
    for ours, theirs in (
        (DigestSet.of(one) - DigestSet.of(other), set(one) - set(other)),
        (DigestSet.of(one) & DigestSet.of(other), set(one) & set(other)),
        (DigestSet.of(one) | DigestSet.of(other), set(one) | set(other)),
    ):
        assert len(ours) == len(theirs)
        assert set(ours.among(one + other)) == theirs
        assert set(ours.missing(one + other)) == {*one, *other} - theirs
        assert [name for name in one + other if name in ours] == [name for name in one + other if name in theirs]


def test_sizes_are_told_by_name():
    sizes = Sizes.of([("b", 2), ("a", 1)])
    assert sizes.equal(digests_of(["a", "b", "b", "c"]), [1, 2, 1, 2]).tolist() == [True, True, False, False]
    assert Sizes.of([]).equal(digests_of(["a"]), [1]).tolist() == [False]


def test_entries_read_the_same_from_files_and_from_the_table(root):
    shards = [a_shard(f"/in/{number % 4}.jsonl", number) for number in range(23)]
    entries = finish_all(root, shards)
    before = list(read_entries(root))
    assert before == sorted(entries, key=lambda entry: entry.shard)
    compact(root)
    assert loose(root) == []
    assert pq.ParquetFile(manifest_table.open_input(manifest_table.table_file(root))).num_row_groups > 3
    assert list(read_entries(root)) == before
    assert list(committed_names(root)) == [entry.shard for entry in before]
    assert [committed_entry(root, entry.shard) for entry in before] == before
    assert committed_entry(root, a_shard("/in/other.jsonl").name) is None
    assert len(find_done(root).done) == 23
    wanted = DigestSet.of([shards[3].name, shards[20].name])
    assert {entry.shard for entry in read_entries(root, wanted)} == {shards[3].name, shards[20].name}


@pytest.mark.parametrize("seed", range(3))
def test_tables_and_files_merge_in_order(root, seed):
    choose = random.Random(seed)
    shards = [a_shard(f"/in/{number}.jsonl") for number in range(choose.randrange(1, 25))]
    make_folders(root)
    for step in range(4):
        for shard in choose.sample(shards, choose.randrange(len(shards) + 1)):
            finish(root, shard)
        names = {*names_in(join(root, TAG_TABLES[0].name), ".parquet")}
        assert [entry.shard for entry in read_entries(root)] == sorted(names), step
        compact(root)
        assert [entry.shard for entry in read_entries(root)] == sorted(names), step
        assert len(find_done(root).done) == len(names)


def test_few_entries_stay_files(root):
    finish_all(root, [a_shard("/in/a.jsonl"), a_shard("/in/b.jsonl")])
    compact(root)
    assert len(loose(root)) == 2
    assert not exists(manifest_table.table_file(root))


def test_an_entry_that_is_a_file_counts_for_more_than_the_table(root):
    shards = [a_shard(f"/in/{number}.jsonl") for number in range(9)]
    finish_all(root, shards)
    compact(root)
    newer = replace(an_entry(shards[4]), labels={"place": 7})
    manifest.commit(root, newer)
    assert committed_entry(root, shards[4].name) == newer
    assert [entry for entry in read_entries(root) if entry.shard == shards[4].name] == [newer]
    for shard in shards[:3]:
        finish(root, shard)
    compact(root)
    assert committed_entry(root, shards[4].name) == newer
    assert len(list(read_entries(root))) == 9


def test_paths_that_are_no_utf8_survive_the_table(root):
    shards = [a_shard(f"/in/{number}\udcff.txt", files=("a\udce4", "ü 😀")) for number in range(5)]
    entries = finish_all(root, shards)
    compact(root)
    assert sorted(read_entries(root), key=str) == sorted(entries, key=str)
    work = run(root, [*shards[1:], a_shard("/in/0\udcff.txt", content="2", files=("a\udce4", "b"))])
    assert work.state.superseded == 1
    assert work.reasons == {"content changed": 1}


@pytest.mark.parametrize("lost", ["annotations", "documents", "rejects"])
@pytest.mark.parametrize("how", ["gone", "longer"])
def test_outputs_are_held_against_the_table(root, lost, how):
    shards = [a_shard(f"/in/{number}.jsonl") for number in range(9)]
    run(root, shards)
    run(root, shards)  # moves them into the table
    assert loose(root) == []
    path = table_path(root, lost, shards[5].name)
    remove(path) if how == "gone" else publish_bytes(path, b"x" * 11)
    work = run(root, shards)
    assert work.intent == (
        "9 shards: 8 done before, 1 to do (1 output lost or damaged), 1 removed because a file was lost or damaged"
    )
    assert_holds(root, shards)


@pytest.mark.parametrize("what", ["damage", "version"])
def test_a_table_that_is_none_is_named(tmp_path, what):
    output = str(tmp_path)
    finish_all(output, [a_shard(f"/in/{number}.jsonl") for number in range(9)])
    compact(output)
    path = tmp_path / "manifest" / "entries.parquet"
    if what == "damage":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        pq.write_table(pa.table({"shard": ["a"]}), path)
    for read in (lambda: list(read_entries(output)), lambda: find_done(output), lambda: committed_entry(output, "a")):
        with pytest.raises(PipelineError, match=r"output.table_damaged.*entries.parquet"):
            read()


def test_a_lost_job_file_is_restored_from_the_table(root):
    shards = [a_shard(f"/in/{number}.jsonl") for number in range(9)]
    finish_all(root, shards)
    compact(root)
    with pytest.raises(PipelineError, match=r"(?s)output.other_job.*job digest"):
        acquire(root, {**IDENTITY, "model": "other"})
    acquire(root, IDENTITY)
    assert exists(join(root, "job.json"))


def test_a_table_alone_is_not_somebody_elses(root):
    finish_all(root, [a_shard(f"/in/{number}.jsonl") for number in range(9)])
    compact(root)
    for table in TAG_TABLES:
        for name in list(names_in(join(root, table.name), "")):
            remove(join(root, table.name, name))
    assert len(run(root, [a_shard("/in/0.jsonl")]).state.damaged) == 9


def test_why_a_shard_is_done_or_not(root):
    shards = [a_shard(f"/in/{name}.jsonl", part) for name in "abcd" for part in range(3)]
    run(root, shards)
    now = [shard for shard in shards if "/a." not in shard.source]
    now += [
        a_shard("/in/a.jsonl", 0),
        a_shard("/in/a.jsonl", 1),
        a_shard("/in/a.jsonl", 2, "2"),
        a_shard("/in/n.jsonl"),
    ]
    remove(table_path(root, "documents", now[0].name))
    work = run(root, now)
    reasons = {shard.name: reason for shard, reason in work.shards()}
    assert reasons.pop(now[0].name) == "output lost or damaged"
    assert reasons.pop(now[-2].name) == "content changed"
    assert reasons.pop(now[-1].name) == "new"
    assert set(reasons.values()) == {SKIPPED}
    assert work.reasons == {"output lost or damaged": 1, "content changed": 1, "new": 1}
    assert "10 done before, 3 to do" in work.intent.replace("13 shards: ", "")
    assert_holds(root, now)


def test_rows_of_inputs_that_are_gone_stay_until_they_are_pruned(root):
    shards = [a_shard(f"/in/{name}.jsonl", part) for name in "abc" for part in range(3)]
    run(root, shards)
    kept = run(root, shards[:6])
    assert len(kept.state.orphaned) == 3
    assert not kept.changed
    assert_holds(root, shards)
    pruned = run(root, shards[:6], prune=True)
    assert (pruned.state.pruned, pruned.state.pruned_documents, len(pruned.state.orphaned)) == (3, 3, 0)
    assert pruned.changed
    assert_holds(root, shards[:6])


def test_force_does_all_anew(root):
    run(root, OLD)
    work = run(root, OLD[:6], force=True)
    assert work.reasons == {"forced": 6}
    assert {reason for _, reason in work.shards()} == {"forced"}
    assert work.state.forced == 8
    assert_holds(root, OLD[:6])


def test_what_is_not_committed_is_cleared(root):
    finish_all(root, OLD)
    compact(root)
    finish(root, NEW[2])
    half = table_path(root, "annotations", NEW[3].name)
    publish_bytes(half, b"half")
    publish_bytes(join(root, "annotations", "mine.parquet"), b"mine")
    remove_uncommitted(root, DigestSet.of([shard.name for shard in [*OLD, *NEW]]))
    assert not exists(half)
    assert exists(join(root, "annotations", "mine.parquet"))
    remove(join(root, "annotations", "mine.parquet"))
    assert_holds(root, [*OLD, NEW[2]])


def test_a_plan_is_counted_as_it_is_saved(root):
    make_folders(root)
    saved = save_plan(manifest.plan_path(root), iter(OLD), IDENTITY)
    assert list(manifest.planned(root)) == OLD
    assert saved.left(DigestSet.of([])) == (8, 800)
    assert saved.left(DigestSet.of([OLD[0].name, "other"])) == (7, 700)


def test_reading_goes_on_while_another_process_moves_entries(root, monkeypatch):
    finish_all(root, OLD)
    expected = list(read_entries(root))
    reading = read_entries(root)
    first = next(reading)
    compact(root)
    assert [first, *reading] == expected


def test_an_entry_of_another_version_is_named(root):
    finish_all(root, OLD[:1])
    manifest.commit(root, replace(an_entry(OLD[1]), version=99))
    with pytest.raises(PipelineError, match=r"output.damaged.*manifest version 99, but this program reads"):
        reconcile(root, DigestSet.of([]), JOB)


def moved_between(output, monkeypatch):
    """Let another process move the entries between the listing of files and the opening of the table."""
    batches = manifest_table.batches

    def then(output, columns):
        monkeypatch.setattr(manifest_table, "batches", batches)
        compact(output)
        yield from batches(output, columns)

    monkeypatch.setattr(manifest_table, "batches", then)


def test_nothing_is_missed_while_another_process_moves_entries(root, monkeypatch):
    finish_all(root, OLD[:5])
    compact(root)
    finish_all(root, OLD[3:])
    expected = list(read_entries(root))
    monkeypatch.setattr(manifest, "_HELD_BYTES", 10)
    for number, read in enumerate((read_entries, committed_names, lambda output: find_done(output).done.keys)):
        output = join(root, str(number))
        finish_all(output, OLD[:5])
        compact(output)
        finish_all(output, OLD[3:])
        moved_between(output, monkeypatch)
        assert len(list(read(output))) == len(OLD), number
        assert loose(output) == []
    moved_between(root, monkeypatch)
    assert list(read_entries(root)) == expected
