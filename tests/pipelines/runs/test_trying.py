"""Trying before a run: `--text`, `--limit`, `--dry-run`; and what `--labels` and thresholds of labels write."""

import json

import pytest

from pipelines.output.plan_file import read_plan
from tests.support.jobs import documents, report, rows, spanmarker, tag, write_jsonl, write_parquet


@pytest.fixture
def lake(tmp_path):
    write_jsonl(tmp_path / "lake" / "a.jsonl", [*documents(5, "a"), b"{", *documents(2, "z")])
    write_parquet(tmp_path / "lake" / "b.parquet", documents(7, "b"), row_group_size=3)
    (tmp_path / "lake" / "c.txt").write_text("Obama was in Paris.")
    (tmp_path / "lake" / "d.csv").write_text("id,text\n" + "".join(f"d{n},Obama in Paris\n" for n in range(9)))
    return tmp_path / "lake"


@pytest.fixture
def whole(lake, tmp_path, tiny_bundle):
    tag([lake], tmp_path / "whole", tiny_bundle)
    return tmp_path / "whole"


def in_order(out):
    """Ids of all documents of an output, in the order of reading; None for those without one."""
    found = []
    for shard in read_plan(str(out / "plan.jsonl")):
        of_shard = [row for row in rows(out, "documents") if row["source"].startswith(shard.source)]
        found += sorted(of_shard, key=lambda row: (row["source"], row["source_row"] or 0))
    return [row["document_id"] for row in {json.dumps(row, default=repr): row for row in found}.values()]


@pytest.mark.parametrize("limit", [1, 6, 8, 9, 15, 16, 17, 25, 100])
def test_the_first_documents_are_tagged_and_counted(lake, tmp_path, tiny_bundle, whole, limit):
    tag([lake], tmp_path / "out", tiny_bundle, limit=limit)
    first = in_order(whole)[:limit]
    assert in_order(tmp_path / "out") == first
    counts = report(tmp_path / "out")["output"]["counts"]
    assert counts["documents"] == min(limit, 25) == counts["tagged"] + counts["empty"] + counts["rejected"]
    kept = [row for row in rows(whole, "annotations") if row["document_id"] in first]
    assert [row["text"] for row in rows(tmp_path / "out", "annotations")] == [row["text"] for row in kept]


def test_a_limit_is_another_job_and_its_rows_follow_the_inputs(lake, tmp_path, tiny_bundle):
    tag([lake], tmp_path / "out", tiny_bundle, limit=10)
    assert "Nothing to do" in tag([lake], tmp_path / "out", tiny_bundle, limit=10)
    assert json.loads((tmp_path / "out" / "job.json").read_text())["limit"] == "10"
    done = spanmarker("tag", lake, "--output", tmp_path / "out", "--model", tiny_bundle)
    assert (done.returncode, "[output.other_job]" in done.stderr) == (1, True)
    write_jsonl(lake / "0.jsonl", documents(3, "first"))
    tag([lake], tmp_path / "out", tiny_bundle, limit=10, prune=True)
    assert in_order(tmp_path / "out")[:4] == ["first-0", "first-1", "first-2", "a-0"]
    assert len(in_order(tmp_path / "out")) == 10


def test_a_wrong_column_is_an_error_of_the_job_with_a_limit_too(tmp_path, tiny_bundle):
    corpus, out = tmp_path / "in", tmp_path / "out"
    for name in "ab":
        write_parquet(corpus / f"{name}.parquet", documents(7, name))
    words = ["tag", corpus, "--output", out, "--model", tiny_bundle, "--text-column", "body"]
    whole, limited = spanmarker(*words), spanmarker(*words, "--limit", 3)
    assert (limited.returncode, limited.stderr) == (whole.returncode, whole.stderr)
    assert "[input.bad_columns]" in limited.stderr
    write_parquet(corpus / "c.parquet", [{"id": "c", "body": "Obama"}])
    assert spanmarker(*words, "--limit", 3).returncode == 4  # since all of them are rejected
    assert report(out)["output"]["counts"]["documents"] == 7


def test_only_the_chosen_labels_are_written(lake, tmp_path, tiny_bundle):
    how = {"decoder": "all", "threshold": 0.1}
    found = rows_of(lake, tmp_path / "all", tiny_bundle, **how)
    chosen = sorted({row["label"] for row in found})[0]
    expected = [row["text"] for row in found if row["label"] == chosen]
    assert 0 < len(expected) < len(found)
    tag([lake], tmp_path / "out", tiny_bundle, labels=[chosen], **how)
    written = rows(tmp_path / "out", "annotations")
    assert sorted(row["text"] for row in written) == sorted(expected)
    assert {row["label"] for row in written} == {chosen}
    counts = report(tmp_path / "out")["output"]["counts"]
    assert counts["entities"] == len(expected)


def test_labels_have_thresholds_of_their_own(lake, tmp_path, tiny_bundle):
    found = rows_of(lake, tmp_path / "all", tiny_bundle, decoder="all")
    label = max({row["label"] for row in found}, key=lambda name: sum(row["label"] == name for row in found))
    scores = sorted(row["score"] for row in found if row["label"] == label)
    least = scores[len(scores) // 2]
    raised = rows_of(lake, tmp_path / "raised", tiny_bundle, decoder="all", threshold=f"{label}={least}")
    # A score at or above a half is that of the best label.
    assert least >= 0.5
    kept = [row for row in found if row["label"] != label or row["score"] >= least]
    assert {(row["text"], row["label"]) for row in raised} == {(row["text"], row["label"]) for row in kept}


def rows_of(lake, out, model, **options):
    tag([lake], out, model, **options)
    return rows(out, "annotations")


def test_texts_are_tagged_as_documents_are(tmp_path, tiny_bundle):
    texts = [record["text"] for record in documents(3)]
    write_jsonl(tmp_path / "in.jsonl", documents(3))
    expected = rows_of(tmp_path / "in.jsonl", tmp_path / "out", tiny_bundle)
    words = [word for text in texts for word in ("--text", text)]
    before = set(tmp_path.iterdir())
    done = spanmarker("tag", *words, "--model", tiny_bundle)
    assert done.returncode == 0, done.stderr
    printed = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line.startswith("  0.")]
    ordered = sorted(expected, key=lambda row: (row["document_id"], row["entity_id"]))
    assert [(label, text) for _, label, text in printed] == [
        (row["label"], " ".join(row["text"].split())) for row in ordered
    ]
    assert [float(score) for score, _, _ in printed] == pytest.approx([row["score"] for row in ordered], abs=1e-3)
    assert "\x1b" not in done.stdout
    assert set(tmp_path.iterdir()) == before


def test_a_text_without_entities_says_so(tiny_bundle):
    done = spanmarker("tag", "--text", "so", "--model", tiny_bundle, "--threshold", 1)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["so", "  no entities"])


def test_a_dry_run_shows_the_plan_and_writes_nothing(lake, tmp_path, tiny_bundle):
    before = set(tmp_path.rglob("*"))
    words = ["tag", lake, "--output", tmp_path / "out", "--model", tiny_bundle, "--dry-run"]
    done = spanmarker(*words)
    assert done.returncode == 0, done.stderr
    for shown in ("a.jsonl", "b.parquet", "d.csv", "4 files", "a-0, a-1, a-2", "no finished shards"):
        assert shown in done.stdout
    assert set(tmp_path.rglob("*")) == before
    limited = spanmarker(*words, "--limit", 3)
    assert "1 file," in limited.stdout
    assert "b.parquet" not in limited.stdout
    tag([lake], tmp_path / "out", tiny_bundle)
    shards = sum(1 for _ in read_plan(str(tmp_path / "out" / "plan.jsonl")))
    assert f"{shards} of {shards} shards are done" in spanmarker(*words).stdout
    assert "another job" in spanmarker(*words, "--threshold", 0.9).stdout


@pytest.mark.parametrize("options", [["--id-column", "nowhere"], ["--labels", "nobody"]])
def test_a_dry_run_finds_what_a_run_would_refuse(lake, tmp_path, tiny_bundle, options):
    (lake / "b.parquet").unlink()
    (lake / "c.txt").unlink()
    words = ["tag", lake, "--output", tmp_path / "out", "--model", tiny_bundle, *options]
    dry, real = spanmarker(*words, "--dry-run"), spanmarker(*words)
    assert (dry.returncode, dry.stderr) == (real.returncode, real.stderr)
    assert dry.returncode == 1


def test_samples_can_be_prepared_without_writing(lake, tmp_path, tiny_bundle):
    words = ["prepare", lake, "--output", tmp_path / "out", "--model", tiny_bundle, "--dry-run"]
    assert "4 files" in spanmarker(*words).stdout
    assert not (tmp_path / "out").exists()
