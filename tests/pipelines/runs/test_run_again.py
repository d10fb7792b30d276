"""Second runs over an output, and outputs that a job must not or can not have."""

import pytest

from pipelines.commands.status import status
from pipelines.errors import PipelineError
from tests.support.jobs import SMALL, all_rows, assert_same_rows, documents, report, rows, tag, write_jsonl, written


def test_second_run_does_nothing_but_say_so(tagged, tiny_bundle):
    corpus, out = tagged
    before = written(out), (out / "report.json").read_bytes()
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    assert (written(out), (out / "report.json").read_bytes()) == before


def test_only_new_and_changed_input_is_tagged_and_no_row_doubles(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    before = written(out)
    write_jsonl(corpus / "c.jsonl", documents(5, "c"))
    changed = documents(30, "a")
    changed[29]["text"] += " Paris"  # the last, so that the other lines stay where they are
    write_jsonl(corpus / "a.jsonl", changed)
    text = tag([corpus / "*"], out, tiny_bundle, **SMALL)
    after = written(out)
    kept = {path for path in after if before.get(path) == after[path]}
    assert len(kept) == len(before) - 3
    assert "55 documents" in text
    count = report(out)["this_run"]["shards_superseded"]
    assert count >= 1
    assert f", {count} removed because the input changed" in text
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **SMALL)
    assert all_rows(out) == all_rows(tmp_path / "clean")


def test_rows_of_vanished_input_stay_and_are_reported(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle)
    (corpus / "a.jsonl").unlink()
    assert "1 of inputs that no longer exist" in tag([corpus / "*"], out, tiny_bundle)
    write_jsonl(corpus / "c.jsonl", documents(7, "a"))  # the ids of rows that are still there
    text = tag([corpus / "*"], out, tiny_bundle)
    assert "57 documents" in text
    assert "30 of the documents are from inputs that no longer exist" in text
    assert "7 documents have an id that also occurs in another shard" in text
    found = report(out)
    assert (found["this_run"]["shards_orphaned"], found["this_run"]["documents_orphaned"]) == (1, 30)
    assert found["output"]["counts"]["documents"] == len(rows(out, "documents")) == 57
    assert found["output"]["shards"] == 3
    assert "1 kept (30 documents)" in (out / "report.md").read_text()


def test_other_cut_replaces_all_shards(tagged, tiny_bundle):
    corpus, out = tagged
    expected = all_rows(out)
    tag([corpus / "*"], out, tiny_bundle, max_shard_bytes=4 << 20)
    assert_same_rows(all_rows(out), expected)
    assert len(written(out)) == 6


@pytest.mark.parametrize(
    ("table", "cut"),
    [("manifest", None), *((table, cut) for table in ("annotations", "documents", "rejects") for cut in (None, 40))],
)
def test_a_shard_with_a_file_that_is_lost_or_of_another_size_is_made_again(tagged, tiny_bundle, table, cut):
    corpus, out = tagged
    expected = all_rows(out)
    damaged = sorted((out / table).iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:-cut]) if cut else damaged.unlink()
    (out / "annotations" / "stranger-00000-0123456789abcdef.parquet").write_bytes(b"left by a crash")
    text = tag([corpus / "*"], out, tiny_bundle, **SMALL)
    why = "1 to do (1 output lost or damaged), 1 removed because a file was lost or damaged"
    assert ("1 to do" if table == "manifest" else why) in text
    assert all_rows(out) == expected


def test_damaged_output_of_the_right_size_is_named(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "a.jsonl"], out, tiny_bundle)
    (damaged,) = (out / "documents").iterdir()
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(PipelineError) as caught:
        tag([corpus / "*"], out, tiny_bundle)
    assert caught.value.code == "output.damaged"
    assert caught.value.values["path"] == str(damaged)


def test_output_of_another_job_is_refused_with_what_differs(tagged, tiny_bundle):
    corpus, out = tagged
    before = all_rows(out)
    with pytest.raises(PipelineError) as caught:
        tag([corpus / "*"], out, tiny_bundle, threshold=0.25, decoder="all.v1")
    assert caught.value.code == "output.other_job"
    assert "threshold: none there, 0.25 here" in str(caught.value)
    assert "decoder: flat.v1 there, all.v1 here" in str(caught.value)
    assert "text_column" not in str(caught.value)
    assert all_rows(out) == before


def test_output_that_is_a_file(corpus, tmp_path, tiny_bundle):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(PipelineError, match=r"output.not_writable"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle)


@pytest.mark.parametrize(
    "name", ["documents/mine.parquet", "manifest/mine.json", "report.md", "plan.jsonl", "job.json"]
)
def test_a_folder_with_files_of_others_is_left_alone(corpus, tmp_path, tiny_bundle, name):
    mine = tmp_path / "projB" / name
    mine.parent.mkdir(parents=True)
    mine.write_text('{"jobs": []}')
    with pytest.raises(PipelineError) as caught:
        tag([corpus / "*"], tmp_path / "projB", tiny_bundle)
    assert caught.value.code == "output.foreign"
    assert f"\n  {name}\n" in str(caught.value)
    assert mine.read_text() == '{"jobs": []}'
    assert [path for path in (tmp_path / "projB").rglob("*") if path.is_file() and path.name != ".lock"] == [mine]


def test_files_of_other_names_stay_where_a_job_writes(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle)
    mine = [out / "documents" / "mine.parquet", out / "manifest" / "notes.json"]
    for path in mine:
        path.write_text("[]")
    write_jsonl(corpus / "c.jsonl", documents(5, "c"))
    assert "1 to do" in tag([corpus / "*"], out, tiny_bundle)
    assert [path.read_text() for path in mine] == ["[]", "[]"]


@pytest.mark.parametrize("content", [None, "[]", '"x"', "null", "{", '{"jobs": "mine"}'])
def test_lost_job_file_is_restored_for_the_same_job_only(tagged, tiny_bundle, content):
    corpus, out = tagged
    before, path = written(out), out / "job.json"
    job = path.read_text()
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(PipelineError, match=r"output.other_job.*\n  job digest: [0-9a-f]{12}… there, "):
        tag([corpus / "*"], out, tiny_bundle, threshold=0.25, **SMALL)
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    assert (written(out), path.read_text()) == (before, job)


def test_job_file_that_can_not_be_opened(corpus, tmp_path, tiny_bundle):
    (tmp_path / "out" / "job.json").mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"output.not_readable.*job.json"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle)


def test_text_files_of_another_pattern_over_the_same_folder_stay(tmp_path, tiny_bundle):
    for year in (2023, 2024):
        for number in range(3):
            path = tmp_path / "in" / f"{year}-{number}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"Obama flew to Paris in {year}.")
    out = tmp_path / "out"
    tag([tmp_path / "in" / "2023*.txt"], out, tiny_bundle)
    before = written(out)
    text = tag([tmp_path / "in" / "2024*.txt"], out, tiny_bundle)
    assert "1 of inputs that no longer exist" in text
    assert "removed" not in text
    assert before.items() <= written(out).items()
    assert len(rows(out, "documents")) == 6

    (tmp_path / "in" / "2023-1.txt").write_text("She flew to London.")
    text = tag([tmp_path / "in" / "*.txt"], out, tiny_bundle)
    assert "2 removed because the input changed" in text  # all six files are one shard now
    assert sorted(row["document_id"] for row in rows(out, "documents")) == sorted(
        f"{year}-{number}.txt" for year in (2023, 2024) for number in range(3)
    )


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ('{"plan_version": 99}', "plan.other_version"),
        *(
            (text, "output.damaged")
            for text in ("", "[]", "null", '"x"', '{"plan": 1}', '{"plan_version": 1}\n[]', "{")
        ),
        (None, "output.not_readable"),  # a folder
    ],
)
def test_a_plan_that_is_none_or_of_another_version_is_refused(tmp_path, content, code):
    path = tmp_path / "plan.jsonl"
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(PipelineError, match=r"plan.jsonl|99") as caught:
        status(str(tmp_path))
    assert caught.value.code == code
    if code == "plan.other_version":
        assert (caught.value.values["there"], caught.value.values["here"]) == (99, 1)
