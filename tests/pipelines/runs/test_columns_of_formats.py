"""Made ids, kept columns and languages of documents in every format, from the files to the rows."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warcio.warcwriter import WARCWriter

from pipelines.errors import PipelineError
from tests.pipelines.runs.test_inputs import piped
from tests.support.jobs import all_rows, assert_same_rows, prepare, rows, spanmarker, tag

RECORDS = [
    {"text": "Barack Obama war in Paris.", "lang": "German", "note": "one"},
    {"text": "John flew to Rome.", "lang": None, "note": None},
    {"text": "Он вернулся домой.", "lang": "ru", "note": "three"},
]


def nested(records):
    return [{"text": record["text"], "meta": {"lang": record["lang"], "note": record["note"]}} for record in records]


def delimited(delimiter):
    def make(path, records):
        file = io.StringIO()
        writer = csv.DictWriter(file, list(RECORDS[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(records)
        path.write_text(file.getvalue(), encoding="utf-8")

    return make


def arrow(path, records):
    table = pa.Table.from_pylist(records)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def parquet(path, records):
    pq.write_table(pa.Table.from_pylist(records), path)


def archive(path, records):
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=False)
        for record in records:
            payload = io.BytesIO(record["text"].encode())
            headers = {name: record[name] for name in ("lang", "note") if record[name] is not None}
            made = writer.create_warc_record("http://a/b", "conversion", payload=payload, warc_headers_dict=headers)
            writer.write_record(made)


def json_array(path, records):
    path.write_text(json.dumps(records, indent=1), encoding="utf-8")


#: Writes a file with some records, by the ending of its name.
FLAT = {
    ".json": json_array,
    ".csv": delimited(","),
    ".tsv": delimited("\t"),
    ".arrow": arrow,
    ".parquet": parquet,
    ".wet": archive,
}
NESTED = {".json": json_array, ".arrow": arrow, ".parquet": parquet}
CASES = [
    *((ending, write, RECORDS, "lang", "note") for ending, write in FLAT.items()),
    *((ending, write, nested(RECORDS), "meta.lang", "meta.note") for ending, write in NESTED.items()),
]


@pytest.mark.parametrize(("ending", "write", "records", "lang", "note"), CASES)
def test_columns_of_every_format(tmp_path, tiny_bundle, ending, write, records, lang, note):
    path = tmp_path / f"a{ending}"
    write(path, records)
    job = {"keep_columns_in": "annotations", "write_sentences": "offsets"}
    read = {"language_column": lang, "language": "en", "keep_columns": [f"{note}=kept"]}
    tag([path], tmp_path / "fused", tiny_bundle, **job, **read)
    found = sorted(rows(tmp_path / "fused", "documents"), key=lambda row: row["source_row"])
    empty = "" if ending in (".csv", ".tsv") else None
    assert [row["kept"] for row in found] == ["one", empty, "three"]
    assert [row["language"] for row in found] == ["de", "en", "ru"]
    assert [row["language_from"] for row in found] == ["column", "option", "column"]
    assert [row["source_row"] for row in found] == [0, 1, 2]
    if ending != ".wet":  # Its records have ids.
        assert [row["document_id"] for row in found] == [f"{path}:{number}" for number in range(3)]
    kept = {row["document_id"]: row["kept"] for row in found}
    annotations = rows(tmp_path / "fused", "annotations")
    assert annotations
    assert all(row["kept"] == kept[row["document_id"]] for row in annotations)
    prepare([path], tmp_path / "samples", tiny_bundle, **read)
    tag([], tmp_path / "staged", tiny_bundle, samples=str(tmp_path / "samples"), **job)
    assert_same_rows(all_rows(tmp_path / "staged"), all_rows(tmp_path / "fused"))
    assert rows(tmp_path / "staged", "sentences") == rows(tmp_path / "fused", "sentences")


@pytest.mark.slow
def test_columns_of_standard_input_are_kept(tmp_path, tiny_bundle):
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    out = tmp_path / "samples"
    for said in (b"3 documents", b"Nothing to do"):
        done = piped(lines, out, tiny_bundle, "--keep-columns", "note,lang=their_lang")
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    tag([], tmp_path / "out", tiny_bundle, samples=str(out))
    found = sorted(rows(tmp_path / "out", "documents"), key=lambda row: row["source_row"])
    assert [(row["note"], row["their_lang"]) for row in found] == [("one", "German"), (None, None), ("three", "ru")]


def test_a_kept_field_that_is_not_utf8_costs_its_row(tmp_path, tiny_bundle):
    (tmp_path / "a.csv").write_bytes(b"id,text,note\na,Paris.,\xff\nb,Rome.,x\n")
    tag([tmp_path / "a.csv"], tmp_path / "out", tiny_bundle, keep_columns=["note"])
    assert [(row["source_row"], row["code"]) for row in rows(tmp_path / "out", "rejects")] == [(0, "invalid_utf8")]
    (tagged,) = (row for row in rows(tmp_path / "out", "documents") if row["status"] == "tagged")
    assert (tagged["document_id"], tagged["note"]) == ("b", "x")


def test_all_columns_are_kept_except_those_that_are_read(tmp_path, tiny_bundle):
    for ending in (".csv", ".parquet"):
        FLAT[ending](tmp_path / f"a{ending}", RECORDS)
    job = {"keep_columns": ["all"], "language_column": "lang"}
    tag([tmp_path / "a.*"], tmp_path / "out", tiny_bundle, **job)
    names = {name for row in rows(tmp_path / "out", "documents") for name in row}
    assert "note" in names
    assert "lang" not in names


def test_a_missing_column_of_languages_is_named(tmp_path, tiny_bundle):
    FLAT[".csv"](tmp_path / "a.csv", RECORDS)
    with pytest.raises(PipelineError) as caught:
        tag([tmp_path / "a.csv"], tmp_path / "out", tiny_bundle, language_column="langue")
    assert caught.value.code == "input.bad_columns"
    assert "no 'langue' (did you mean 'lang'?)" in caught.value.values["files"]


def test_an_option_without_a_value_may_precede_other_words(tmp_path, tiny_bundle):
    FLAT[".csv"](tmp_path / "a.csv", RECORDS)
    FLAT[".parquet"](tmp_path / "b.parquet", RECORDS)
    words = ["--write-sentences", "--input", tmp_path / "a.csv", tmp_path / "b.parquet", "--output", tmp_path / "out"]
    done = spanmarker("tag", "--threads", 1, "--engine", "inline", "--model", tiny_bundle, *words)
    assert done.returncode == 0, done.stderr
    assert len({row["source"] for row in rows(tmp_path / "out", "sentences")}) == 2
