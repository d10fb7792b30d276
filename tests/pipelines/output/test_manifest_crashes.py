"""Crashes between any two steps, and workers that outlive their driver."""

import contextlib
import itertools
import shutil

import pytest

from pipelines.errors import PipelineError
from pipelines.output import compaction, job_identity, manifest, manifest_table, plan_file
from pipelines.output.compaction import compact
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import table_path
from pipelines.output.manifest import (
    committed_entry,
    committed_names,
    find_done,
    identity_digest,
)
from pipelines.output.reconcile import reconcile, remove_unknown_files
from pipelines.storage import exists, join, make_folder, publish, publish_bytes, remove
from tests.support import outputs as made
from tests.support.outputs import (
    IDENTITY,
    JOB,
    NEW,
    OLD,
    a_shard,
    assert_holds,
    finish,
    finish_all,
    loose,
    outputs_of,
    run,
)

pytestmark = pytest.mark.usefixtures("small")


class Crash(BaseException):
    """The process dies here."""


def crashing(monkeypatch, step, work):
    """Do `work`, and simulate a crash before its step-th change of the output; return whether it got that far."""
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


@pytest.mark.slow
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
