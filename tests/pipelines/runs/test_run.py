"""Rows of whole jobs, with the shard tasks in this process."""

import gzip
import shutil

import duckdb
import fsspec
import polars
import pytest

from pipelines.errors import PipelineError
from pipelines.stages.records import MAX_BATCH_DOCUMENTS
from spanmarker_core.errors import CoreError
from tests.support.jobs import (
    SMALL,
    all_rows,
    assert_same_annotations,
    assert_same_rows,
    codes,
    documents,
    report,
    rows,
    tag,
    write_jsonl,
    write_parquet,
    written,
)


def test_rows_do_not_depend_on_how_the_work_is_cut(tagged, tmp_path, tiny_bundle):
    corpus, many = tagged
    tag([corpus / "*"], tmp_path / "one", tiny_bundle)
    assert len(written(many)) > len(written(tmp_path / "one"))
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


def test_decoder_and_threshold_reach_the_rows(corpus, tmp_path, tiny_bundle):
    tag([corpus / "*"], tmp_path / "out", tiny_bundle, threshold=0.5, decoder="all.v1")
    found = rows(tmp_path / "out", "annotations")
    assert found
    assert min(row["score"] for row in found) >= 0.5
    with pytest.raises(ValueError, match=r"not one of flat\.v1, nested\.v1, all\.v1"):
        tag([corpus / "*"], tmp_path / "other", tiny_bundle, decoder="best.v1")
    assert rows(tmp_path / "other", "documents") == []


def test_missing_column_stops_the_job_before_it_touches_data(corpus, tmp_path, tiny_bundle):
    with pytest.raises(PipelineError, match=r"input.bad_columns"):
        tag([corpus / "*"], tmp_path / "out", tiny_bundle, text_column="body")
    assert written(tmp_path / "out") == {}
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
    assert "4 documents have an id that also occurs in another shard" in text
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
    assert "not checked with more than 1 shards" in (tmp_path / "out" / "report.md").read_text()


def test_many_rejects_make_bounded_batches(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in.jsonl", [{"id": n, "text": None} for n in range(3 * MAX_BATCH_DOCUMENTS)])
    tag([tmp_path / "in.jsonl"], tmp_path / "out", tiny_bundle, max_rejects="100%")
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
    assert_same_annotations(copied["annotations"], rows(tmp_path / "out", "annotations"), places=False)


def test_bundle_faults_stop_the_job_first(corpus, tmp_path, tiny_bundle):
    broken = shutil.copytree(tiny_bundle, tmp_path / "broken")
    (broken / "tokenizer.json").write_text("{}")
    with pytest.raises(CoreError, match=r"bundle.digest_mismatch"):
        tag([corpus / "*"], tmp_path / "out", broken)
    assert not (tmp_path / "out").exists()
