import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.jobs.job_file import read_job
from pipelines.jobs.tag import TagJob
from tests.support.jobs import all_rows, assert_same_rows, documents, prepare, rows, tag, write_jsonl, write_parquet

KEEP = {"keep_columns": ["lang,year,seen,place=where,meta.url"]}
MOMENT = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)


def records(count, prefix):
    return [
        record
        | {"lang": f"l{number % 3}", "seen": MOMENT, "place": {"x": [number]}, "meta": {"url": f"u{prefix}{number}"}}
        for number, record in enumerate(documents(count, prefix))
    ]


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "in"
    write_parquet(folder / "year=2023" / "a.parquet", records(7, "a"), row_group_size=3)
    write_parquet(folder / "year=2024" / "b.parquet", [*records(5, "b"), records(1, "b")[0]])
    write_parquet(folder / "c.parquet", documents(3, "c"))
    return folder / "**" / "*.parquet"


def kept_of(output) -> dict[str, tuple]:
    names = ("lang", "year", "seen", "where", "meta.url")
    return {row["document_id"]: tuple(row[name] for name in names) for row in rows(output, "documents")}


@pytest.mark.parametrize(
    "engine", ["inline", *(pytest.param(name, marks=pytest.mark.slow) for name in ("local", "beam"))]
)
def test_columns_are_carried_into_both_tables(tmp_path, tiny_bundle, corpus, engine):
    tag([corpus], tmp_path / "out", tiny_bundle, engine=engine, keep_columns_in="annotations", **KEEP)
    expected = {f"c-{number}": (None,) * 5 for number in range(3)}
    for prefix, count, year in (("a", 7, 2023), ("b", 5, 2024)):
        for number, record in enumerate(records(count, prefix)):
            place = {"x": [number]}
            expected[record["id"]] = (record["lang"], year, MOMENT, place, f"u{prefix}{number}")
    found = rows(tmp_path / "out", "documents")
    repeated = [row for row in found if row["status"] == "rejected"]
    assert [(row["document_id"], row["lang"]) for row in repeated] == [("b-0", None)]
    for row in found:
        if row["status"] != "rejected":
            names = ("lang", "year", "seen", "where", "meta.url")
            assert tuple(row[name] for name in names) == expected[row["document_id"]]
    by_place = {(row["source"], row["source_row"]): row for row in found}
    annotations = rows(tmp_path / "out", "annotations")
    assert len(annotations) > 10
    for row in annotations:
        document = by_place[row["source"], row["source_row"]]
        assert all(row[name] == document[name] for name in ("document_id", "lang", "year", "where", "meta.url"))
    schemas = {pq.read_schema(path).remove_metadata() for path in (tmp_path / "out" / "documents").iterdir()}
    (schema,) = schemas
    assert schema.names[-5:] == ["lang", "meta.url", "seen", "where", "year"]
    assert schema.field("year").type == pa.int64()
    assert (
        schema.field("seen").type == pq.read_schema(corpus.parent.parent / "year=2024" / "b.parquet").field("seen").type
    )


def test_staged_rows_are_the_fused_ones(tmp_path, tiny_bundle, corpus):
    lines = write_jsonl(tmp_path / "in" / "d.jsonl", [{"text": "Paris.", "lang": "de"}, {"text": None}, b"{"])
    job = {"keep_columns_in": "annotations"}
    for inputs in ([corpus, lines], [lines]):
        keep = KEEP if len(inputs) > 1 else {"keep_columns": ["lang"]}
        out = tmp_path / str(len(inputs))
        tag(inputs, out / "fused", tiny_bundle, **keep, **job)
        prepare(inputs, out / "samples", tiny_bundle, **keep)
        tag([], out / "staged", tiny_bundle, samples=str(out / "samples"), **job)
        assert_same_rows(all_rows(out / "staged"), all_rows(out / "fused"))
        identities = [json.loads((out / name / "job.json").read_text()) for name in ("fused", "staged")]
        assert identities[0] == identities[1]
        assert tag(inputs, out / "staged", tiny_bundle, **keep, **job).startswith("Nothing to do")


def test_damaged_samples_with_kept_columns_are_named(tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "a.jsonl", [{"id": "1", "text": "x", "n": 1}])
    prepare([tmp_path / "a.jsonl"], tmp_path / "samples", tiny_bundle, keep_columns=["n"])
    (path,) = (tmp_path / "samples" / "inputs").iterdir()
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(PipelineError) as caught:
        tag([], tmp_path / "out", tiny_bundle, samples=str(tmp_path / "samples"))
    assert (caught.value.code, caught.value.values["path"]) == ("samples.damaged", str(path))


def test_equal_ids_of_two_files_are_told_apart(tmp_path, tiny_bundle):
    paths = [write_jsonl(tmp_path / f"{name}.jsonl", [{"id": 1, "text": "Obama flew to Paris."}]) for name in "ab"]
    tag(paths, tmp_path / "out", tiny_bundle, threshold=0)
    annotations = rows(tmp_path / "out", "annotations")
    assert {(row["document_id"], row["source"], row["source_row"]) for row in annotations} == {
        ("1", str(path), 0) for path in paths
    }


def test_json_values_have_one_type_or_are_json_text(tmp_path, tiny_bundle):
    values = [
        {"n": 1, "f": 1, "s": "x", "b": True, "mixed": 1, "list": [1], "big": 1 << 70},
        {"n": None, "f": 0.5, "s": "ü", "b": False, "mixed": "1", "list": None},
    ]
    lines = [{"id": str(number), "text": "x"} | value for number, value in enumerate(values)]
    late = [{"id": f"late {number}", "text": "x"} for number in range(120)]
    late[110] |= {"n": "no number"}
    late[111] |= {"n": 1.5}
    late[112] |= {"s": "\ud800"}
    late[113] |= {"mixed": {"any": "thing"}}
    write_jsonl(tmp_path / "a.jsonl", lines + [json.dumps(each).encode() for each in late])
    write_jsonl(tmp_path / "b.jsonl", [{"id": "no columns", "text": "x"}])
    tag([tmp_path / "*.jsonl"], tmp_path / "out", tiny_bundle, keep_columns=["all"])
    found = {row["document_id"]: row for row in rows(tmp_path / "out", "documents")}
    names = ("n", "f", "s", "b", "mixed", "list", "big")
    assert [tuple(found[key][name] for name in names) for key in ("0", "1", "late 113", "no columns")] == [
        (1, 1.0, "x", True, "1", "[1]", str(1 << 70)),
        (None, 0.5, "ü", False, '"1"', None, None),
        (None, None, None, None, '{"any": "thing"}', None, None),
        (None,) * 7,
    ]
    rejects = {row["document_id"]: row["code"] for row in rows(tmp_path / "out", "rejects")}
    assert rejects == {"late 110": "kept_type", "late 111": "kept_type", "late 112": "invalid_unicode"}
    identity = json.loads((tmp_path / "out" / "job.json").read_text())
    assert {key: identity[key] for key in ("keep.n", "keep.f", "keep.mixed")} == {
        "keep.n": "int64",
        "keep.f": "double",
        "keep.mixed": "json",
    }


def test_partitions_take_the_type_of_the_column_in_other_files(tmp_path, tiny_bundle):
    day = datetime.date(2024, 2, 29)
    folder = tmp_path / "in"
    write_parquet(folder / "a.parquet", [{"id": "a", "text": "x", "day": day, "n": 1}])
    write_parquet(folder / "day=2024-02-29" / "n=2" / "b.parquet", [{"id": "b", "text": "x"}])
    write_jsonl(folder / "day=2024-02-29" / "n=x" / "c.jsonl", [{"id": "c", "text": "x"}])
    write_parquet(folder / "n=x" / "d.parquet", [{"id": "d", "text": "x"}])
    (folder / "n=x" / "e.txt").write_text("x")
    tag([folder], tmp_path / "out", tiny_bundle, keep_columns=["day", "n"])
    documents = rows(tmp_path / "out", "documents")
    kept = {row["document_id"]: (row["day"], row["n"]) for row in documents if row["status"] != "rejected"}
    assert kept == {"a": (day, 1), "b": (day, 2)}
    assert [row["code"] for row in rows(tmp_path / "out", "rejects")] == ["kept_type"] * 3


def test_nested_types_of_nulls_take_the_types_of_other_files(tmp_path, tiny_bundle):
    null = {
        "s": pa.array([{"x": None}], pa.struct([("x", pa.null())])),
        "l": pa.array([[]], pa.list_(pa.null())),
        "m": pa.array([[("k", None)]], pa.map_(pa.string(), pa.null())),
        "d": pa.array([[{"x": None}]], pa.list_(pa.struct([("x", pa.null())]))),
        "n": pa.nulls(1),
    }
    full = {
        "s": pa.array([{"x": 1}]),
        "l": pa.array([[1]], pa.list_(pa.int32())),
        "m": pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        "d": pa.array([[{"x": "y"}]]),
        "n": pa.array([{"x": 1}]),
    }
    for name, columns in (("a", null), ("b", full), ("c", null)):
        pq.write_table(pa.table({"id": [name], "text": ["x"], **columns}), tmp_path / f"{name}.parquet")
    tag([tmp_path / "*.parquet"], tmp_path / "out", tiny_bundle, keep_columns=["all"])
    found = {row["document_id"]: {name: row[name] for name in full} for row in rows(tmp_path / "out", "documents")}
    nothing = {name: column.to_pylist()[0] for name, column in null.items()}
    assert found == {"a": nothing, "b": {name: column.to_pylist()[0] for name, column in full.items()}, "c": nothing}
    types = pq.read_schema(next((tmp_path / "out" / "documents").iterdir()))
    assert {name: str(types.field(name).type) for name in ("s", "l", "n")} == {
        "s": "struct<x: int64>",
        "l": "list<element: int32>",
        "n": "struct<x: int64>",
    }


def test_types_are_fixed_by_the_first_run(tmp_path, tiny_bundle):
    def write(name, kind, values=(1,)):
        columns = {"id": [name] * len(values), "text": ["x"] * len(values), "n": pa.array(values, kind)}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")

    job = {"keep_columns": ["n"]}
    write("a", pa.int64())
    write("b", pa.int8())
    tag([tmp_path / "*.parquet"], tmp_path / "out", tiny_bundle, **job)
    (tmp_path / "a.parquet").unlink()
    write("c", pa.int32())
    write("d", pa.null(), [None])
    tag([tmp_path / "*.parquet"], tmp_path / "out", tiny_bundle, **job)
    types = {pq.read_schema(path).field("n").type for path in (tmp_path / "out" / "documents").iterdir()}
    assert types == {pa.int64()}
    write("b", pa.string(), ["x"])
    for name in ("c", "d"):
        (tmp_path / f"{name}.parquet").unlink()
    with pytest.raises(PipelineError) as caught:
        tag([tmp_path / "*.parquet"], tmp_path / "out", tiny_bundle, **job)
    assert caught.value.code == "output.other_job"
    assert caught.value.values["differences"] == "  keep.n: int64 there, string here"
    write("a", pa.int64())
    with pytest.raises(PipelineError) as caught:
        tag([tmp_path / "*.parquet"], tmp_path / "new", tiny_bundle, **job)
    assert caught.value.code == "input.kept_types"


@pytest.mark.parametrize(
    ("keep", "code"),
    [
        ("all", "input.kept_names"),
        ("source", "input.kept_names"),
        ("lang=Status", "input.kept_names"),
        ("lang=x,source=x", "input.kept_names"),
    ],
)
def test_columns_that_can_not_be_kept_are_refused(tmp_path, tiny_bundle, keep, code):
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": "a", "text": "x", "lang": "de", "source": "s"}])
    with pytest.raises(PipelineError) as caught:
        tag([path], tmp_path / "out", tiny_bundle, keep_columns=[keep])
    assert caught.value.code == code


def test_a_missing_column_is_refused_with_those_that_there_are(tmp_path, tiny_bundle):
    path = write_jsonl(tmp_path / "year=2024" / "a.jsonl", [{"id": "a", "text": "x", "lang": "de"}])
    with pytest.raises(PipelineError) as caught:
        tag([path], tmp_path / "out", tiny_bundle, keep_columns=["lnag", "year"])
    assert caught.value.code == "input.no_kept_column"
    assert (caught.value.values["columns"], caught.value.values["known"]) == (
        "'lnag' (did you mean 'lang'?)",
        "id, text, lang, year",
    )


def test_a_clash_is_resolved_as_the_message_says(tmp_path, tiny_bundle):
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": 7, "text": "x", "source": "s", "lang": "de"}])
    tag([path], tmp_path / "out", tiny_bundle, keep_columns=["all,source=their_source,id=number"])
    (row,) = rows(tmp_path / "out", "documents")
    assert (row["their_source"], row["lang"], row["number"], row["source"]) == ("s", "de", 7, str(path))


def test_invalid_text_in_a_kept_column_costs_its_document(tmp_path, tiny_bundle):
    url = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff"]).buffers())
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "y"], "url": url}), tmp_path / "a.parquet")
    tag([tmp_path / "a.parquet"], tmp_path / "out", tiny_bundle, keep_columns=["url"])
    assert [row["code"] for row in rows(tmp_path / "out", "rejects")] == ["invalid_utf8"]
    assert [row["url"] for row in rows(tmp_path / "out", "documents") if row["status"] != "rejected"] == ["ok"]


def test_changed_values_of_a_kept_column_are_read_again(tmp_path, tiny_bundle):
    path, record = tmp_path / "a.parquet", {"id": "a", "text": "x"}
    for lang in ("de", "en"):
        write_parquet(path, [record | {"lang": lang}])
        tag([path], tmp_path / "out", tiny_bundle, keep_columns=["lang"])
        assert [row["lang"] for row in rows(tmp_path / "out", "documents")] == [lang]


@pytest.mark.parametrize(
    "values",
    [
        {"input": ["a"], "keep_columns_in": "annotations"},
        {"samples": "s", "keep_columns": ["a"]},
        {"input": ["a"], "keep_columns": ["a,,b"]},
    ],
)
def test_jobs_that_can_not_keep_columns_are_refused(values):
    with pytest.raises(PipelineError) as caught:
        read_job(TagJob, None, {"output": "o", **values})
    assert caught.value.code == "job.invalid"


def test_a_named_id_column_is_another_job_than_a_default(tmp_path, tiny_bundle):
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": "a", "text": "x"}, {"text": "y"}])
    tag([path], tmp_path / "out", tiny_bundle)
    assert {row["document_id"] for row in rows(tmp_path / "out", "documents")} == {"a", f"{path}:25"}
    with pytest.raises(PipelineError) as caught:
        tag([path], tmp_path / "out", tiny_bundle, id_column="id")
    assert caught.value.code == "output.other_job"
