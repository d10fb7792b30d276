"""Whole jobs, with the shard tasks in this process."""

import gzip
import json
import shutil

import duckdb
import fsspec
import polars
import pytest

from pipelines.commands.status import status
from pipelines.engines import ENGINES
from pipelines.errors import PipelineError
from pipelines.stages.read import MAX_BATCH_DOCUMENTS
from pipelines.storage import sole_writer
from spanmarker_core.errors import CoreError
from tests.support.jobs import (
    all_rows,
    assert_same_annotations,
    assert_same_rows,
    codes,
    documents,
    rows,
    tag,
    write_jsonl,
    write_parquet,
)

SMALL = {"max_shard_bytes": 600}


def write_corpus(folder):
    write_jsonl(folder / "a.jsonl", documents(30, "a"))
    write_parquet(folder / "b.parquet", documents(20, "b"), row_group_size=7)
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "in")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_bundle):
    """A corpus that no test changes, and the output of a run over it in small shards."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "inline", "tests.support.inline_engine")
        tag([write_corpus(folder / "in") / "*"], folder / "out", tiny_bundle, **SMALL)
    return folder


@pytest.fixture
def tagged(finished, tmp_path):
    """That corpus, and a copy of the output."""
    return finished / "in", shutil.copytree(finished / "out", tmp_path / "out")


def files(out):
    return {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}


def report(out):
    return json.loads((out / "report.json").read_text())


def test_second_run_does_nothing_but_say_so(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    assert "50 documents = 40 tagged + 10 empty + 0 rejected" in tag([corpus / "*"], out, tiny_bundle, **SMALL)
    before = files(out), (out / "report.json").read_bytes()
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    assert (files(out), (out / "report.json").read_bytes()) == before


def test_rows_do_not_depend_on_how_the_work_is_cut(tagged, tmp_path, tiny_bundle):
    corpus, many = tagged
    tag([corpus / "*"], tmp_path / "one", tiny_bundle)
    assert len(files(many)) > len(files(tmp_path / "one"))
    assert_same_rows(all_rows(many), all_rows(tmp_path / "one"))


def test_rows_open_in_duckdb_and_polars_as_one_table(tagged):
    _, out = tagged
    count = len(rows(out, "annotations"))
    for table in ("annotations", "documents", "rejects"):
        pattern = f"{out}/{table}/*.parquet"
        n = duckdb.sql(f"select count(*) from '{pattern}'").fetchall()[0][0]
        assert n == polars.scan_parquet(pattern).collect().height == len(rows(out, table))
    joined = f"select count(*) from '{out}/annotations/*.parquet' join '{out}/documents/*.parquet' using (document_id)"
    assert duckdb.sql(joined).fetchall()[0][0] == count > 0


def test_only_new_and_changed_input_is_tagged_and_no_row_doubles(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle, **SMALL)
    before = files(out)
    write_jsonl(corpus / "c.jsonl", documents(5, "c"))
    changed = documents(30, "a")
    changed[29]["text"] += " Paris"  # the last, so that the other lines stay where they are
    write_jsonl(corpus / "a.jsonl", changed)
    text = tag([corpus / "*"], out, tiny_bundle, **SMALL)
    after = files(out)
    kept = {path for path in after if before.get(path) == after[path]}
    assert len(kept) == len(before) - 3
    assert "55 documents" in text
    count = report(out)["this_run"]["shards_superseded"]
    assert count >= 1
    assert f", {count} removed because their input changed" in text
    tag([corpus / "*"], tmp_path / "clean", tiny_bundle, **SMALL)
    assert all_rows(out) == all_rows(tmp_path / "clean")


def test_rows_of_vanished_input_stay_and_are_reported(corpus, tmp_path, tiny_bundle):
    out = tmp_path / "out"
    tag([corpus / "*"], out, tiny_bundle)
    (corpus / "a.jsonl").unlink()
    assert "1 of inputs that are gone" in tag([corpus / "*"], out, tiny_bundle)
    write_jsonl(corpus / "c.jsonl", documents(7, "a"))  # the ids of rows that are still there
    text = tag([corpus / "*"], out, tiny_bundle)
    assert "57 documents" in text
    assert "30 of the documents are kept from inputs that are gone" in text
    assert "7 documents have the id of another in another shard" in text
    found = report(out)
    assert (found["this_run"]["shards_orphaned"], found["this_run"]["documents_orphaned"]) == (1, 30)
    assert found["output"]["counts"]["documents"] == len(rows(out, "documents")) == 57
    assert found["output"]["shards"] == 3
    assert "1 kept whose input is gone (30 documents)" in (out / "report.md").read_text()


def test_other_cut_replaces_all_shards(tagged, tiny_bundle):
    corpus, out = tagged
    expected = all_rows(out)
    tag([corpus / "*"], out, tiny_bundle)
    assert_same_rows(all_rows(out), expected)
    assert len(files(out)) == 6


@pytest.mark.parametrize("lost", ["manifest", "annotations", "documents", "rejects"])
def test_lost_file_of_a_shard_is_made_again(tagged, tiny_bundle, lost):
    corpus, out = tagged
    expected = all_rows(out)
    sorted((out / lost).iterdir())[1].unlink()
    (out / "annotations" / "stranger-00000-0123456789abcdef.parquet").write_bytes(b"left by a crash")
    text = tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert "1 to do" in text
    assert all_rows(out) == expected


@pytest.mark.parametrize("table", ["annotations", "documents", "rejects"])
def test_shard_with_a_file_of_another_size_is_made_again(tagged, tiny_bundle, table):
    corpus, out = tagged
    expected = all_rows(out)
    damaged = sorted((out / table).iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    text = tag([corpus / "*"], out, tiny_bundle, **SMALL)
    assert "1 to do (1 output lost or damaged), 1 removed because a file of theirs was lost or damaged" in text
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
    assert "threshold: there 'None', here '0.25'" in str(caught.value)
    assert "decoder: there 'flat.v1', here 'all.v1'" in str(caught.value)
    assert "text_column" not in str(caught.value)
    assert all_rows(out) == before


def test_decoder_and_threshold_reach_the_rows(corpus, tmp_path, tiny_bundle):
    tag([corpus / "*"], tmp_path / "out", tiny_bundle, threshold=0.5, decoder="all.v1")
    found = rows(tmp_path / "out", "annotations")
    assert found
    assert min(row["score"] for row in found) >= 0.5
    with pytest.raises(CoreError, match=r"call.unknown_option"):
        tag([corpus / "*"], tmp_path / "other", tiny_bundle, decoder="best.v1")
    assert rows(tmp_path / "other", "documents") == []


def test_missing_column_stops_the_job_before_it_touches_data(corpus, tmp_path, tiny_bundle):
    with pytest.raises(PipelineError, match=r"input.bad_columns"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle, text_column="body")
    assert files(tmp_path / "out") == {}
    tag([corpus / "*"], tmp_path / "out", tiny_bundle)  # the mended command may have the folder


def test_bad_input_is_rejected_and_costs_its_neighbours_nothing(tmp_path, tiny_bundle):
    inputs, good = tmp_path / "in", documents(12)
    write_parquet(inputs / "good.parquet", good)
    (inputs / "corrupt.parquet").write_bytes(b"PAR1 no PAR1")
    write_jsonl(
        inputs / "mixed.jsonl",
        [
            {"id": "null", "text": None},
            b'{"id": "broken", ',
            b'{"id": "latin", "text": "Z\xfcrich"}',
            {"id": "twice", "text": "He flew to Paris."},
            {"id": "twice", "text": "She flew to London."},
            {"id": "blank", "text": " \n\t"},
            {"id": "zero-width", "text": "\u200b\ufeff\u2060\u200d"},
            {"id": "empty", "text": ""},
            {"id": "newlines", "text": "\n" * 1000},
            {"id": "nul", "text": "Obama\x00 flew\x00to Paris."},
            {"id": "invisible", "text": "Obama \u2063 flew to \u2063 Paris."},
        ],
    )
    (inputs / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"id": "gz", "text": "Paris"}\n' * 9)[:-12])
    out = tmp_path / "out"
    tag([inputs / "*"], out, tiny_bundle)
    expected = ["broken_json", "damaged_file", "duplicate_id", "invalid_utf8", "null_text", "unreadable_file"]
    assert sorted(code for _, code in codes(out)) in (expected, sorted([*expected, "broken_json"]))  # a cut line, too
    status = {(row["document_id"], row["status"]) for row in rows(out, "documents")}
    assert {("blank", "empty"), ("zero-width", "empty"), ("empty", "empty"), ("newlines", "empty")} <= status
    assert {("nul", "tagged"), ("invisible", "tagged"), ("twice", "tagged"), ("twice", "rejected")} <= status
    assert {("null", "rejected"), ("latin", "rejected"), (None, "rejected")} <= status
    counts = report(out)["output"]["counts"]
    assert counts["documents"] == counts["tagged"] + counts["empty"] + counts["rejected"] == len(rows(out, "documents"))
    assert counts["unreadable"] == 2

    tag([inputs / "good.parquet"], tmp_path / "alone", tiny_bundle)
    ids = {record["id"] for record in good}
    among = [row for row in rows(out, "annotations") if row["document_id"] in ids]
    assert_same_annotations(among, rows(tmp_path / "alone", "annotations"))


def test_hard_texts_have_exact_rows(tmp_path, tiny_bundle):
    texts = {
        "megabytes": "Obama flew to Paris and New York. " * 3000,
        "one-word": "Paris " + "x" * 100_000 + " London",
        "newlines": "Paris" + "\n" * 1000 + "London",
        "emoji": "😀 Obama 👩‍👩‍👧 flew 🏴‍☠️ to Paris 😀",
        "hangul": "Obama 한글 Paris",
        "right-to-left": "אובמה Paris מרחבא London!",
        "ligatures": "Obama ﬁne ﬂew to ﬃ Paris",
        "combining": "Zu\u0308rich and Mu\u0308ller",
    }
    write_jsonl(tmp_path / "in.jsonl", [{"id": name, "text": text} for name, text in texts.items()])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle)
    assert codes(tmp_path / "out") == []
    found = rows(tmp_path / "out", "annotations")
    assert {row["document_id"] for row in found} >= {"megabytes", "one-word", "emoji", "ligatures"}
    for row in found:
        assert texts[row["document_id"]][row["char_start"] : row["char_end"]] == row["text"] == row["text"].strip()
    by_id = {row["document_id"]: row for row in rows(tmp_path / "out", "documents")}
    assert by_id["one-word"]["n_words"] == 3
    assert by_id["megabytes"]["n_words"] == 3000 * 8


@pytest.mark.slow
def test_a_document_of_10_megabytes(tmp_path, tiny_bundle):
    text = f"Obama flew to {'pneumono' * 20} in Paris. " * 55_000
    assert len(text) > 10_000_000
    write_jsonl(tmp_path / "in.jsonl", [{"id": "big", "text": text}, {"id": "small", "text": "Paris"}])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle)
    assert codes(tmp_path / "out") == []
    by_id = {row["document_id"]: row for row in rows(tmp_path / "out", "documents")}
    assert by_id["big"]["n_words"] == 55_000 * 7


def test_ids_of_two_shards_that_are_the_same_are_counted(tmp_path, tiny_bundle):
    for name in ("a", "b"):
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", documents(4))
    text = tag([tmp_path / "in" / "*"], tmp_path / "out", tiny_bundle)
    assert "4 documents have the id of another in another shard" in text
    found = report(tmp_path / "out")["output"]["duplicate_ids_across_shards"]
    assert found == {"documents": 4, "examples": ["doc-0", "doc-1", "doc-2", "doc-3"]}
    assert ": 4, doc-0, doc-1, doc-2, doc-3." in (tmp_path / "out" / "report.md").read_text()


def test_where_there_are_too_many_shards_no_ids_are_looked_for(tmp_path, tiny_bundle, monkeypatch):
    monkeypatch.setattr("pipelines.report.run_values.MAX_LOOKED_AT", 1)
    for name in ("a", "b"):
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", documents(4))
    text = tag([tmp_path / "in" / "*"], tmp_path / "out", tiny_bundle)
    assert "in another shard" not in text
    assert report(tmp_path / "out")["output"]["duplicate_ids_across_shards"] == {"documents": None, "examples": []}
    assert "not looked for among more than 1 shards" in (tmp_path / "out" / "report.md").read_text()


def test_many_rejects_make_bounded_batches(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in.jsonl", [{"id": n, "text": None} for n in range(3 * MAX_BATCH_DOCUMENTS)])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle)
    assert len(rows(tmp_path / "out", "rejects")) == len(rows(tmp_path / "out", "documents")) == 3 * MAX_BATCH_DOCUMENTS


def test_a_folder_of_text_files(tmp_path, tiny_bundle):
    for number, record in enumerate(documents(10)):
        path = tmp_path / "in" / str(number % 3) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record["text"], encoding="utf-8")
    tag([tmp_path / "in" / "**" / "*.txt"], tmp_path / "out", tiny_bundle)
    found = rows(tmp_path / "out", "documents")
    assert sorted(row["document_id"] for row in found) == sorted(f"{n % 3}/{n}.txt" for n in range(10))
    assert {row["source"] for row in found} == {str(tmp_path / "in" / row["document_id"]) for row in found}


def test_inputs_and_output_may_be_any_fsspec_url(corpus, tmp_path, tiny_bundle):
    base = f"memory://run{tmp_path}"
    memory = fsspec.filesystem("memory")
    memory.put(f"{corpus}/", f"{base}/in/", recursive=True)
    tag([f"{base}/in/*"], f"{base}/out", tiny_bundle, **SMALL)
    assert tag([f"{base}/in/*"], f"{base}/out", tiny_bundle, **SMALL).startswith("Nothing to do")
    memory.get(f"{base}/out", str(tmp_path / "copy"), recursive=True)
    tag([corpus / "*"], tmp_path / "out", tiny_bundle, **SMALL)
    copied = all_rows(tmp_path / "copy")
    for row in copied["documents"]:
        assert row["source"].startswith("memory://")
    assert_same_annotations(copied["annotations"], rows(tmp_path / "out", "annotations"))


def test_bundle_faults_stop_the_job_first(corpus, tmp_path, tiny_bundle):
    broken = shutil.copytree(tiny_bundle, tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{}")
    with pytest.raises(CoreError, match=r"bundle.digest_mismatch"):
        tag([corpus / "*"], tmp_path / "out", broken)
    assert not (tmp_path / "out").exists()


def test_two_jobs_never_write_at_once(corpus, tmp_path, tiny_bundle):
    (tmp_path / "out").mkdir()
    with sole_writer(str(tmp_path / "out")), pytest.raises(PipelineError, match=r"output.busy"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle)
    tag([corpus / "*"], tmp_path / "out", tiny_bundle)


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
    before, path = files(out), out / "job.json"
    job = path.read_text()
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(PipelineError, match=r"output.other_job.*\n  job digest: there '[0-9a-f]{32}', here"):
        tag([corpus / "*"], out, tiny_bundle, threshold=0.25, **SMALL)
    assert tag([corpus / "*"], out, tiny_bundle, **SMALL).startswith("Nothing to do")
    assert (files(out), path.read_text()) == (before, job)


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
    before = files(out)
    text = tag([tmp_path / "in" / "2024*.txt"], out, tiny_bundle)
    assert "1 of inputs that are gone" in text
    assert "removed" not in text
    assert before.items() <= files(out).items()
    assert len(rows(out, "documents")) == 6

    (tmp_path / "in" / "2023-1.txt").write_text("She flew to London.")
    text = tag([tmp_path / "in" / "*.txt"], out, tiny_bundle)
    assert "2 removed because their input changed" in text  # all six files are one shard now
    assert sorted(row["document_id"] for row in rows(out, "documents")) == sorted(
        f"{year}-{number}.txt" for year in (2023, 2024) for number in range(3)
    )


def test_plan_of_another_version_is_named(tmp_path):
    (tmp_path / "plan.jsonl").write_text('{"plan_version": 99}')
    with pytest.raises(PipelineError) as caught:
        status(str(tmp_path))
    assert caught.value.code == "plan.other_version"
    assert (caught.value.values["there"], caught.value.values["here"]) == (99, 1)


@pytest.mark.parametrize("content", ["", "[]", "null", '"x"', '{"plan": 1}', '{"plan_version": 1}\n[]', "{"])
def test_plan_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "plan.jsonl").write_text(content)
    with pytest.raises(PipelineError, match=r"output.damaged.*plan.jsonl"):
        status(str(tmp_path))


def test_plan_that_can_not_be_opened(tmp_path):
    (tmp_path / "plan.jsonl").mkdir()
    with pytest.raises(PipelineError, match=r"output.not_readable.*plan.jsonl"):
        status(str(tmp_path))
