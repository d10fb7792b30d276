"""Sizes of shards: small inputs give all workers work, and what is done stays done."""

import json
from dataclasses import replace

import pytest

from pipelines.output.digest_set import Sizes
from pipelines.output.manifest import commit, identity_digest, make_folders, plan_path
from pipelines.output.plan_file import read_plan, save_plan
from pipelines.planning import shard_sizes as module
from pipelines.planning.shard_sizes import MAX_SHARD_BYTES, MIN_SHARD_BYTES, ShardSizes, earlier_sizes
from tests.support.jobs import documents, report, tag, write_jsonl, written
from tests.support.outputs import a_shard, an_entry

KB, MB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("total", "workers", "expected"),
    [
        (0, 1, 128 * KB),
        (1 * MB, 1, 128 * KB),
        (2 * MB, 1, 256 * KB),
        (2 * MB, 8, 128 * KB),
        (3 * MB, 1, 256 * KB),
        (16 * MB, 1, 2 * MB),
        (32 * MB, 1, 4 * MB),
        (1 << 40, 1, 4 * MB),
        (1 << 30, 16, 4 * MB),
        (256 * MB, 16, 2 * MB),
    ],
)
def test_each_worker_has_eight_shards_within_bounds(total, workers, expected):
    sizes = ShardSizes(None, workers)
    sizes.choose([total // 2, total - total // 2])
    assert sizes.of("/a") == expected
    shards = -(-total // expected)
    assert shards >= 8 * workers or expected == MIN_SHARD_BYTES


def test_large_inputs_are_not_listed_to_their_end():
    listed = []

    def files():
        for number in range(1000):
            listed.append(number)
            yield MAX_SHARD_BYTES

    ShardSizes(None, 2).choose(files())
    assert len(listed) == 16


def test_a_size_that_is_given_wins_and_an_earlier_one_is_kept():
    earlier = Sizes.of([("/old", 200), ("/of an earlier version", 0)])
    assert ShardSizes(5, 1, earlier).of("/old") == 5
    assert not ShardSizes(5).need_total
    sizes = ShardSizes(None, 1, earlier)
    sizes.choose([MB])
    assert [sizes.of(path) for path in ("/old", "/of an earlier version", "/new")] == [200, 4 * MB, 128 * KB]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "MIN_SHARD_BYTES", 256)


def cuts(out):
    return {(shard.source.rpartition("/")[2], shard.cut_bytes) for shard in read_plan(str(out / "plan.jsonl"))}


def test_what_is_done_stays_done_with_more_inputs_and_other_workers(tmp_path, tiny_bundle, small):
    corpus, out = tmp_path / "in", tmp_path / "out"
    write_jsonl(corpus / "a.jsonl", documents(15))
    tag([corpus], out, tiny_bundle)
    before = written(out / "annotations")
    assert len(before) >= 6
    assert cuts(out) == {("a.jsonl", 256)}
    assert tag([corpus], out, tiny_bundle, workers=7).startswith("Nothing to do")
    write_jsonl(corpus / "b.jsonl", documents(40, "b"))
    tag([corpus], out, tiny_bundle, workers=1)
    assert {path: time for path, time in written(out / "annotations").items() if path in before} == before
    assert cuts(out) == {("a.jsonl", 256), ("b.jsonl", 1024)}
    assert report(out)["output"]["counts"]["documents"] == 55


def test_inputs_that_a_run_leaves_out_stay_as_they_were_cut(tmp_path):
    identity, out = {"model": "m"}, str(tmp_path)
    make_folders(out)
    a, b, c = (replace(a_shard(f"/in/{name}.jsonl"), cut_bytes=size) for name, size in (("a", 512), ("b", 7), ("c", 9)))
    for shard, job in ((a, identity_digest(identity)), (b, identity_digest(identity)), (c, "of another job")):
        commit(out, replace(an_entry(shard), job=job, cut_bytes=shard.cut_bytes))
    save_plan(plan_path(out), [replace(b, cut_bytes=256)], identity)  # of a run over b alone
    sizes = earlier_sizes(out, identity)
    assert [sizes.get(shard.source) for shard in (a, b, c)] == [512, 256, None]
    (tmp_path / "manifest" / f"{a.name}.json").write_text("{")
    assert earlier_sizes(out, identity).get(b.source) == 256
    assert earlier_sizes(out, {"model": "another"}) is None


def test_a_file_that_is_left_out_for_a_run_is_not_tagged_again(tmp_path, tiny_bundle, small):
    a, out = write_jsonl(tmp_path / "in" / "a.jsonl", documents(15)), tmp_path / "out"
    tag([a], out, tiny_bundle)
    before = written(out / "annotations")
    b = write_jsonl(tmp_path / "in" / "b.jsonl", documents(60, "b"))
    tag([b], out, tiny_bundle)
    tag([a, b], out, tiny_bundle, workers=1)
    assert {path: time for path, time in written(out / "annotations").items() if path in before} == before
    assert report(out)["output"]["counts"]["documents"] == 75


def test_a_size_on_the_command_line_is_kept_too(tmp_path, tiny_bundle):
    corpus, out = write_jsonl(tmp_path / "in.jsonl", documents(40)), tmp_path / "out"
    tag([corpus], out, tiny_bundle, max_shard_bytes=600)
    assert tag([corpus], out, tiny_bundle).startswith("Nothing to do")
    assert "to do" in tag([corpus], out, tiny_bundle, max_shard_bytes=900)
    assert cuts(out) == {("in.jsonl", 900)}


def test_an_output_of_an_earlier_version_keeps_its_shards(tmp_path, tiny_bundle, small):
    corpus, out = write_jsonl(tmp_path / "in.jsonl", documents(40)), tmp_path / "out"
    tag([corpus], out, tiny_bundle, max_shard_bytes=MAX_SHARD_BYTES)
    plan = out / "plan.jsonl"
    lines = [json.loads(line) for line in plan.read_text().splitlines()]
    assert lines[1].pop("cut_bytes") == MAX_SHARD_BYTES
    plan.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tag([corpus], out, tiny_bundle).startswith("Nothing to do")


def test_a_job_of_which_nothing_is_done_is_cut_anew(tmp_path, tiny_bundle, small):
    corpus, out = write_jsonl(tmp_path / "in.jsonl", documents(40)), tmp_path / "out"
    tag([corpus], out, tiny_bundle, max_shard_bytes=MAX_SHARD_BYTES)
    for path in (out / "manifest").iterdir():
        path.unlink()
    tag([corpus], out, tiny_bundle)
    assert cuts(out) == {("in.jsonl", 1024)}


def test_text_files_of_a_folder_keep_their_groups(tmp_path, tiny_bundle, small):
    corpus, out = tmp_path / "in", tmp_path / "out"
    corpus.mkdir()
    for number in range(12):
        (corpus / f"{number:03}.txt").write_text("Obama flew to Paris. " * 3)
    tag([corpus], out, tiny_bundle)
    before = written(out / "annotations")
    assert len(before) > 3
    for number in range(12, 60):
        (corpus / f"{number:03}.txt").write_text("Obama flew to Paris. " * 3)
    tag([corpus], out, tiny_bundle)
    kept = [path for path in before if path.exists()]
    assert len(kept) >= len(before) - 1  # the last group may have room for a new file
