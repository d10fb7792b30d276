"""Entries as files and in the table, read as one; and what a crash between any two steps leaves."""

import contextlib
import itertools
import random
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.output import compaction, job_identity, manifest, manifest_table, plan_file
from pipelines.output.compaction import compact
from pipelines.output.digest_set import DigestSet, Sizes, digests_of
from pipelines.output.job_identity import acquire, write_identity
from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import (
    committed_entry,
    committed_names,
    find_done,
    identity_digest,
    make_folders,
    read_entries,
)
from pipelines.output.pending_shards import SKIPPED, find_pending
from pipelines.output.plan_file import save_plan
from pipelines.output.reconcile import reconcile, remove_uncommitted, remove_unknown_files
from pipelines.storage import exists, join, make_folder, names_in, publish, publish_bytes, remove, sizes_in
from tests.support import outputs as made
from tests.support.outputs import IDENTITY, JOB, a_shard, an_entry, finish, finish_all, outputs_of

NAMES = st.lists(st.sampled_from([f"n{number}" for number in range(40)]))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(compaction, "COMPACT_AT", 2)
    monkeypatch.setattr(manifest, "_READ_AT_ONCE", 3)
    monkeypatch.setattr(manifest_table, "GROUP_ROWS", 4)


def loose(output):
    return sorted(names_in(join(output, "manifest"), ".json"))


def run(output, shards, identity=IDENTITY, **options):
    """What a run does but for tagging."""
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
        "9 shards: 8 done before, 1 to do (1 output lost or damaged), "
        "1 removed because a file of theirs was lost or damaged"
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


class Crash(BaseException):
    """The process dies here."""


def crashing(monkeypatch, step, work):
    """Do `work` in a process that dies before its step-th change of the output; tell whether it came so far."""
    asked = itertools.count(1)
    died = []

    def counted(change):
        def do(*arguments):
            if next(asked) >= step:
                died.append(step)
                raise Crash
            return change(*arguments)

        return do

    with monkeypatch.context() as patch, contextlib.suppress(Crash):
        for module in (manifest, job_identity, made):
            patch.setattr(module, "publish_bytes", counted(publish_bytes))
        for module in (plan_file, manifest_table):
            patch.setattr(module, "publish", counted(publish))
        for module in (compaction, manifest_table):
            patch.setattr(module, "remove", counted(remove))
        patch.setattr(compaction, "_REMOVERS", 1)
        work()
    return bool(died)


OLD = [a_shard(f"/in/{name}.jsonl", part) for name in "abcd" for part in range(2)]
NEW = [
    *OLD[:2],  # a as it was
    a_shard("/in/b.jsonl", 0, "2"),  # b with other content
    a_shard("/in/b.jsonl", 1, "2"),
    *OLD[4:6],  # c, of which an output is lost; d is gone
    a_shard("/in/e.jsonl"),
]


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.slow), True], ids=["in files", "in the table"])
def copies(request, tmp_path, monkeypatch):
    """A function that gives a new copy of an output in which there is something of everything to do."""
    monkeypatch.setattr("os.fsync", lambda handle: None)  # The power stays on here; it is most of the time.
    output = str(tmp_path / "0")
    make_folder(output)
    run(output, OLD)
    if request.param:
        compact(output)
        finish(output, OLD[0])  # in both
    remove(table_path(output, "documents", OLD[4].name))
    publish_bytes(table_path(output, "documents", "half-00000-0123456789abcdef"), b"left by a crash")
    return lambda step: shutil.copytree(output, tmp_path / str(step))


def test_a_crash_between_any_two_steps_loses_and_doubles_nothing(copies, monkeypatch):
    for step in itertools.count(1):
        output = str(copies(step))
        died = crashing(monkeypatch, step, lambda: run(output, NEW, prune=True))  # noqa: B023
        if not died:
            break
        for name in committed_names(output):
            assert committed_entry(output, name) is not None
        run(output, NEW, prune=True)
        assert_holds(output, NEW)
    assert step > 25
    assert_holds(output, NEW)


OTHER = {**IDENTITY, "model": "other"}
ANEW = [a_shard(f"/in/{name}.jsonl", job=identity_digest(OTHER)) for name in "abc"]


def test_a_forced_job_that_breaks_off_goes_on_without_force(copies, monkeypatch):
    taken = 0
    for step in itertools.count(1):
        output = str(copies(step))
        died = crashing(monkeypatch, step, lambda: run(output, ANEW, OTHER, force=True))  # noqa: B023
        if not died:
            break
        try:
            run(output, ANEW, OTHER)
        except PipelineError as error:  # It broke off before the folder changed hands: nothing was touched.
            assert error.code == "output.other_job"  # noqa: PT017
            assert taken == 0
            assert set(committed_names(output)) == {shard.name for shard in OLD}
            run(output, OLD)
            assert_holds(output, OLD)
        else:
            taken += 1
            assert_holds(output, ANEW)
    assert taken > 25
    assert_holds(output, ANEW)


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
    with pytest.raises(PipelineError, match=r"output.damaged.*manifest version 99, and this program reads"):
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


def test_a_shard_that_is_committed_amid_reconcile_is_whole_or_has_no_entry(root, monkeypatch):
    """By a worker of a dead driver, which had published the first of its files when they were listed."""
    finish_all(root, OLD[:2])
    publish_bytes(table_path(root, "rejects", OLD[2].name), outputs_of(OLD[2]))
    find = find_done

    def look(output):
        found = find(output)
        finish(output, OLD[2])
        return found

    monkeypatch.setattr("pipelines.output.reconcile.find_done", look)
    reconcile(root, DigestSet.of(shard.name for shard in OLD), JOB)
    assert_entries_are_whole(root)
    assert len(loose(root)) == 2


def assert_entries_are_whole(output):
    found = find_done(output)
    assert len(found.committed - found.done) == 0


def test_what_a_dead_driver_and_its_workers_left_goes(root):
    finish_all(root, OLD)
    compact(root)
    finish(root, NEW[2])
    publish_bytes(table_path(root, "rejects", NEW[3].name), b"of a dead driver's worker")
    mine = join(root, "todo-list.jsonl"), join(root, "failures", "mine.json"), join(root, "rejects", "mine.parquet")
    make_folder(join(root, "failures"))
    for path in mine:
        publish_bytes(path, b"mine")
    remove_unknown_files(root, DigestSet.of(shard.name for shard in OLD))
    gone = [join(root, "todo.jsonl"), join(root, "todo-0123456789abcdef.jsonl")]
    gone += [join(root, "failures", f"{OLD[0].name}{ending}.json") for ending in ("", ".changed")]
    for path in gone:
        publish_bytes(path, b"")
    reconcile(root, DigestSet.of(shard.name for shard in OLD), JOB)
    assert [exists(path) for path in (*mine, *gone)] == [True] * 3 + [False] * 4
    remove(mine[2])
    assert_holds(root, OLD)
