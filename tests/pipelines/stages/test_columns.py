import datetime
import decimal
import io
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages.columns import id_values, is_id, is_text, made_id, text_values
from pipelines.stages.kept_columns import kept_rows, partitions
from pipelines.stages.read import read
from pipelines.task import Columns
from schemas.shards import Shard
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import write_jsonl, write_parquet

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
MOMENT = datetime.datetime(2024, 2, 29, 1, 2, 3)
IDS = {
    "string": (pa.array(["é"]), "é"),
    "view": (pa.array(["é"], pa.string_view()), "é"),
    "dictionary": (pa.array(["é"]).dictionary_encode(), "é"),
    "dictionary of numbers": (pa.array([7]).dictionary_encode(), "7"),
    "number": (pa.array([-7], pa.int8()), "-7"),
    "large number": (pa.array([(1 << 64) - 1], pa.uint64()), "18446744073709551615"),
    "decimal": (pa.array([decimal.Decimal("1.50")]), "1.50"),
    "uuid": (pa.array([UUID.bytes], pa.uuid()), str(UUID)),
    "fixed": (pa.array([b"abc"], pa.binary(3)), "616263"),
    "text as binary": (pa.array(["é".encode()], pa.binary()), "é"),
    "binary": (pa.array([b"\xff\x00"], pa.large_binary()), "0xff00"),
    "date": (pa.array([MOMENT.date()]), "2024-02-29"),
    "date64": (pa.array([MOMENT], pa.date64()), "2024-02-29"),
    "timestamp": (pa.array([MOMENT], pa.timestamp("s")), "2024-02-29 01:02:03"),
    "fraction": (pa.array([MOMENT.replace(microsecond=50_000)], pa.timestamp("ns")), "2024-02-29 01:02:03.05"),
    "round": (pa.array([MOMENT.replace(second=10)], pa.timestamp("s")), "2024-02-29 01:02:10"),
    "zoned": (pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin")), "2024-02-29 01:02:03Z"),
    "time": (pa.array([MOMENT.time()], pa.time32("s")), "01:02:03"),
}


def table_of(columns) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.mark.parametrize("kind", IDS)
def test_an_id_of_any_type_is_a_string(tmp_path, kind):
    array, expected = IDS[kind]
    array = pa.concat_arrays([array, pa.nulls(1, array.type)])
    assert is_id(array.type)
    assert id_values(array) == [expected.encode(), None]
    (tmp_path / "a.parquet").write_bytes(table_of({"id": array, "text": ["one", "two"]}))
    (shard,) = shards(tmp_path / "a.parquet")
    (batch,) = read(shard, Columns("id", "text"))
    assert batch.documents["document_id"].to_pylist() == [expected]
    assert [reject.code for reject in batch.rejects] == ["null_id"]


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.bool_(), pa.struct([]), pa.duration("s")])
def test_other_types_are_no_ids(kind):
    assert not is_id(kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.string_view(), pa.binary_view()])
def test_texts_of_any_type_are_bytes(kind):
    assert is_text(kind)
    assert text_values(pa.array(["Zürich", None]).cast(pa.large_string()).cast(kind)) == ["Zürich".encode(), None]


def test_binary_text_that_is_not_utf8_is_a_reject(tmp_path):
    (tmp_path / "a.parquet").write_bytes(table_of({"id": ["a", "b"], "text": pa.array([b"ok", b"Z\xfc"])}))
    (shard,) = shards(tmp_path / "a.parquet")
    (batch,) = read(shard, Columns("id", "text"))
    assert batch.documents["text"].to_pylist() == ["ok"]
    assert [(reject.document_id, reject.code) for reject in batch.rejects] == [("b", "invalid_utf8")]


@pytest.mark.parametrize("column", ["id", "text"])
def test_a_column_of_type_null_is_a_column_of_nulls(tmp_path, column):
    write_parquet(tmp_path / "a.parquet", [{"id": "a", "text": "x"} | {column: None}])
    write_parquet(tmp_path / "b.parquet", [{"id": "b", "text": "y"}])
    first, second = shards(tmp_path / "*.parquet")
    (batch,) = read(first, Columns("id", "text"))
    assert [reject.code for reject in batch.rejects] == [f"null_{column}"]
    (batch,) = read(second, Columns("id", "text"))
    assert batch.documents["text"].to_pylist() == ["y"]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_integers_stored_as_floats_are_ids(tmp_path, kind):
    values = pa.array([17.0, -3.0, 1.5, None, float("nan"), float("inf")], pa.float64()).cast(kind)
    (tmp_path / "a.parquet").write_bytes(table_of({"id": values, "text": list("abcdef")}))
    lines = [{"id": value, "text": "x"} for value in (17.0, 2.0**53, 2.0**54, 1e300, float("nan"))]
    write_jsonl(tmp_path / "b.jsonl", lines)
    found = []
    for shard in shards(tmp_path / "*"):
        (batch,) = read(shard, Columns("id", "text"))
        found.append((batch.documents["document_id"].to_pylist(), [reject.code for reject in batch.rejects]))
    assert found == [
        (["17", "-3"], ["bad_id", "null_id", "bad_id", "bad_id"]),
        (["17", str(1 << 53)], ["bad_id"] * 3),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.float64(),
        pa.int32(),
        pa.bool_(),
        pa.date32(),
        pa.list_(pa.string()),
        pa.list_(pa.null()),
        pa.struct([("a", pa.null())]),
        pa.struct([("a", pa.list_(pa.int8()))]),
    ],
)
def test_a_column_with_nothing_but_nulls_may_have_any_type(tmp_path, kind):
    columns = {"id": list("abcde"), "text": pa.nulls(5, kind)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=2)
    empty = pa.table({"id": pa.nulls(0, pa.float64()), "text": pa.nulls(0, kind)})
    pq.write_table(empty, tmp_path / "b.parquet")
    write_parquet(tmp_path / "c.parquet", [{"id": "c", "text": "y"}])
    found = [batch for shard in shards(tmp_path / "*") for batch in read(shard, Columns("id", "text"))]
    rejects = [(reject.document_id, reject.code) for batch in found for reject in batch.rejects]
    assert rejects == [(name, "null_text") for name in "abcde"]
    assert [text for batch in found for text in batch.documents["text"].to_pylist()] == ["y"]


def test_one_value_of_another_type_refuses_the_file(tmp_path):
    columns = {"id": ["a", "b"], "text": pa.array([None, 5], pa.int64())}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1)
    write_parquet(tmp_path / "c.parquet", [{"id": "c", "text": "y"}])
    first, _ = shards(tmp_path / "*")
    assert (first.format, first.reason) == ("unreadable", "'text' is int64; its columns are id, text")


@pytest.mark.parametrize(
    "meta",
    [pa.nulls(1), pa.nulls(1, pa.struct([("inner", pa.null())])), pa.array([{"inner": None}])],
)
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_fields_of_a_column_of_type_null_are_null(tmp_path, meta, name):
    made = pa.table({"id": ["a"], "meta": meta})
    if name == "a.arrow":
        with pa.ipc.new_file(tmp_path / name, made.schema) as file:
            file.write_table(made)
    else:
        pq.write_table(made, tmp_path / name)
    write_parquet(tmp_path / "b.parquet", [{"id": "b", "meta": {"inner": {"text": "y"}}}])
    columns = Columns("id", "meta.inner.text")
    found = [batch for shard in shards(tmp_path / "*", columns=columns) for batch in read(shard, columns)]
    assert [(reject.document_id, reject.code) for batch in found for reject in batch.rejects] == [("a", "null_text")]
    assert [text for batch in found for text in batch.documents["text"].to_pylist()] == ["y"]


NESTED = Columns("meta.key", "meta.text")


def test_a_path_names_a_nested_field_and_a_literal_name_precedes_it(tmp_path):
    nested = [{"meta": {"key": 1, "text": "one", "other": 0}}, {"meta": {"key": 2, "text": None, "other": 0}}]
    literal = [record | {"meta.text": "literal"} for record in nested]
    write_parquet(tmp_path / "a.parquet", [*nested, {"meta": None}])
    write_parquet(tmp_path / "b.parquet", literal)
    write_jsonl(tmp_path / "c.jsonl", [*nested, {"meta": None}, *literal[:1], {"meta": "no object"}])
    found = {}
    for shard in shards(tmp_path / "*", columns=NESTED):
        for batch in read(shard, NESTED):
            texts = batch.documents["text"].to_pylist()
            found[shard.source.rpartition("/")[2]] = texts, [reject.code for reject in batch.rejects]
    assert found == {
        "a.parquet": (["one"], ["null_text", "null_id"]),
        "b.parquet": (["literal", "literal"], []),
        "c.jsonl": (["one"], ["null_text", "missing_field", "duplicate_id", "missing_field"]),
    }


MADE = Columns("id", "text", make_ids=True)


@pytest.mark.parametrize("limit", [1, 100, 1 << 20])
def test_ids_are_made_of_file_and_row_however_the_file_is_cut(tmp_path, limit):
    lines = write_jsonl(tmp_path / "a.jsonl", [{"text": f"{number}"} for number in range(9)])
    table = write_parquet(tmp_path / "b.parquet", [{"text": f"{number}"} for number in range(9)], row_group_size=4)
    ids = []
    for shard in shards(tmp_path / "*", columns=MADE, max_shard_bytes=limit):
        for batch in read(shard, MADE):
            ids += batch.documents["document_id"].to_pylist()
    assert ids == [made_id(str(lines), 14 * row) for row in range(9)] + [f"{table}:{row}" for row in range(9)]


def test_a_named_id_precedes_a_made_one(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"id": "a", "text": "x"}, {"text": "y"}, {"id": None, "text": "z"}])
    (shard,) = shards(path, columns=MADE)
    (batch,) = read(shard, MADE)
    assert batch.documents["document_id"].to_pylist() == ["a", f"{path}:25"]
    assert [reject.code for reject in batch.rejects] == ["null_id"]
    (shard,) = shards(path)
    (batch,) = read(shard, Columns("id", "text"))
    assert [reject.code for reject in batch.rejects] == ["missing_field", "null_id"]


def test_partitions_are_the_folders_of_a_path():
    path = "s3://b/year=2024/city=S%C3%A3o%20Paulo/none=__HIVE_DEFAULT_PARTITION__/=x/a=b.parquet"
    assert partitions(path) == {"year": "2024", "city": "São Paulo", "none": None}


def simple_values():
    return {
        pa.int8(): st.integers(-128, 127),
        pa.uint64(): st.integers(0, (1 << 64) - 1),
        pa.float32(): st.floats(width=32, allow_nan=False),
        pa.bool_(): st.booleans(),
        pa.string(): st.text(max_size=5),
        pa.large_binary(): st.binary(max_size=5),
        pa.binary(2): st.binary(min_size=2, max_size=2),
        pa.date32(): st.dates(),
        pa.timestamp("us", "UTC"): st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1)),
        pa.duration("ms"): st.integers(0, 10**9).map(lambda number: datetime.timedelta(milliseconds=number)),
        pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda number: decimal.Decimal(number).scaleb(-2)),
        pa.uuid(): st.uuids().map(lambda value: value.bytes),
    }


@st.composite
def arrays(draw):
    """A type, simple or nested, and values of it."""
    values = simple_values()
    kind, depth = draw(st.sampled_from(list(values))), draw(st.integers(0, 2))
    value = values[kind]
    for _ in range(depth if not isinstance(kind, pa.BaseExtensionType) else 0):
        form = draw(st.sampled_from(["list", "large_list", "struct", "map"]))
        inner = st.none() | value
        if form == "struct":
            kind, value = pa.struct({"a": kind, "b": pa.int32()}), st.fixed_dictionaries({"a": inner, "b": st.just(1)})
        elif form == "map":
            pairs = st.dictionaries(st.text(max_size=3), inner, max_size=3).map(lambda found: list(found.items()))
            kind, value = pa.map_(pa.string(), kind), pairs
        else:
            kind = pa.list_(kind) if form == "list" else pa.large_list(kind)
            value = st.lists(inner, max_size=3)
    count = draw(st.integers(1, 12))
    return pa.array(draw(st.lists(st.none() | value, min_size=count, max_size=count)), kind)


@given(column=arrays(), group=st.integers(1, 5), data=st.data())
def test_a_kept_column_of_any_type_comes_out_equal(tmp_path_factory, column, group, data):
    path = tmp_path_factory.mktemp("kept") / "a.parquet"
    texts = data.draw(st.lists(st.sampled_from(["x", None]), min_size=len(column), max_size=len(column)))
    table = pa.table({"id": range(len(column)), "text": pa.array(texts, pa.string()), "c": column})
    pq.write_table(table, path, row_group_size=group)
    columns = Columns("id", "text", keep=("c",), kept=pa.schema({"c": column.type}))
    shard = Shard("s", str(path), "parquet", 0, len(table), (), 0, "c")
    found = [batch.documents["kept"].field("c") for batch in read(shard, columns)]
    there = table.filter(pa.array([text is not None for text in texts]))["c"].combine_chunks()
    assert pa.chunked_array(found, column.type).combine_chunks().equals(there)


def test_kept_rows_of_values_and_of_tables_are_joined():
    schema = pa.schema({"a": pa.int64()})
    assert kept_rows([(1,), (None,)], schema).to_pylist() == [{"a": 1}, {"a": None}]
    assert kept_rows([], schema).type == pa.struct(schema)
