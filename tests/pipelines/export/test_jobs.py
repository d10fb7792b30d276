"""Outputs of every way to read, split and keep inputs are exported: the texts are read as the run read them."""

import pytest

from spanmarker_core.text.sentences import split_sentences
from tests.pipelines.export.exported import content_of, documents_at, expected, export
from tests.support.jobs import prepare, rows, tag, write_jsonl, write_parquet

GERMAN = "Obama wohnt z. B. in Paris.\nAngela Merkel\nNew York\n"
RECORDS = [
    {"text": GERMAN, "lang": "de", "meta": {"list": [number], "note": "z: y"}, "source": f"s{number}"}
    for number in range(9)
]

CASES = {
    "ids are made": {},
    "languages are stated": {"language_column": "lang"},
    "languages are detected": {"language": "auto"},
    "lines are sentences": {"sentence_breaks": "lines"},
    "columns are kept": {"keep_columns": ["meta", "source=from", "meta.note=note", "year"]},
    "columns are kept in annotations": {"keep_columns": ["lang"], "keep_columns_in": "annotations"},
    "sentences are written": {"write_sentences": "text", "keep_columns": ["lang"], "language_column": "lang"},
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs") / "year=2024"
    write_jsonl(folder / "lines.jsonl", RECORDS)
    write_parquet(folder / "rows.parquet", RECORDS, row_group_size=4)
    return folder


@pytest.fixture(scope="module")
def rows_only(inputs):
    return inputs / "*.parquet"


def check(output, tmp_path, count, breaks="auto", language="de"):
    texts = {row["document_id"]: GERMAN for row in rows(output, "documents")}
    wanted = expected(output, texts)
    assert len(wanted) == count
    assert export(output, "conllu", tmp_path / "x", "--flatten", "longest").startswith(
        f"{tmp_path}/x: {count} documents"
    )
    found = documents_at(tmp_path / "x", "conllu")
    assert content_of(found) == wanted
    assert sum(len(entities) for _, entities in wanted.values()) > count
    bounds = split_sentences(GERMAN, language, breaks)
    assert all([(each.char_start, each.char_end) for each in document.sentences] == bounds for document in found)


@pytest.mark.parametrize("case", CASES)
def test_outputs_of_jobs(inputs, rows_only, tmp_path, tiny_bundle, case):
    options = CASES[case]
    has_struct = "meta" in options.get("keep_columns", ())  # JSON lines can't have the type of one
    tag(
        [rows_only if has_struct else inputs],
        tmp_path / "out",
        tiny_bundle,
        decoder="flat.v1",
        max_shard_bytes=400,
        **options,
    )
    language = "de" if {"language", "language_column"} & options.keys() else "en"
    count = 9 if has_struct else 18
    check(tmp_path / "out", tmp_path, count, options.get("sentence_breaks", "auto"), language)


def test_outputs_of_prepared_samples(rows_only, tmp_path, tiny_bundle):
    settings = {"language_column": "lang", "keep_columns": ["meta", "source=from"]}
    prepare([rows_only], tmp_path / "prepared", tiny_bundle, max_shard_bytes=400, **settings)
    tag([], tmp_path / "out", tiny_bundle, samples=str(tmp_path / "prepared"), decoder="flat.v1")
    check(tmp_path / "out", tmp_path, 9)
    assert export(tmp_path / "prepared", "jsonl", tmp_path / "y") == "export.not_tagged"


def test_a_changed_column_that_was_kept_is_a_changed_source(tmp_path, tiny_bundle):
    path = write_parquet(tmp_path / "in" / "rows.parquet", RECORDS)
    tag([path], tmp_path / "out", tiny_bundle, decoder="flat.v1", keep_columns=["lang"])
    write_parquet(path, [{**each, "source": "another"} for each in RECORDS])
    assert "9 documents" in export(tmp_path / "out", "jsonl", tmp_path / "x")
    write_parquet(path, [{**each, "lang": "fr"} for each in RECORDS])
    assert export(tmp_path / "out", "jsonl", tmp_path / "y") == "export.source_changed"
