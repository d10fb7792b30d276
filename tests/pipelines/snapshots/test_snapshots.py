"""`spanmarker tag --commit`: the libraries of the formats read exactly the rows of the manifest's files."""

import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import write_deltalake

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.manifest import committed_names, identity_digest
from pipelines.runs.run import _Run
from pipelines.snapshots.columns import unfit_columns
from pipelines.snapshots.snapshots import Snapshots
from tests.pipelines.snapshots.readers import FORMATS, catalogue, table
from tests.support.jobs import SMALL, documents, tag, write_jsonl, write_parquet

TABLES = ("annotations", "documents", "rejects", "sentences")

pytestmark = pytest.mark.parametrize("form", FORMATS)


def as_rows(rows: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in rows.to_pylist())


def expected(output, name) -> pa.Table:
    """The rows of the files that the manifest names."""
    return ds.dataset([f"{output}/{name}/{shard}.parquet" for shard in committed_names(str(output))]).to_table()


def check(form, output, versions, names=TABLES[:3]):
    for name in names:
        read = table(form, output, name)
        assert as_rows(read.rows()) == as_rows(expected(output, name))
        assert len(read.versions()) == versions
        assert read.files() == {path.name for path in (output / name).glob("*.parquet")}


@pytest.fixture
def folder(tmp_path):
    """Two inputs in a folder whose name is awkward in URLs."""
    folder = tmp_path / "a b é"
    write_jsonl(folder / "in" / "a.jsonl", [*documents(12, "a"), {"id": "n", "text": None}, b"{"])
    write_jsonl(folder / "in" / "b.jsonl", documents(8, "b"))
    return folder


def run(folder, model, form, *names, **options):
    inputs = [folder / "in" / name for name in names or ("a.jsonl", "b.jsonl")]
    return tag(inputs, folder / "out", model, commit=form, **(SMALL | options))


def test_each_run_that_changes_rows_adds_one_snapshot(folder, tiny_bundle, form):
    output = folder / "out"
    run(folder, tiny_bundle, form, "a.jsonl", write_sentences="text")
    check(form, output, 1, TABLES)
    stray = output / "annotations" / "x-00000-0123456789abcdef.parquet"
    run(folder, tiny_bundle, form, "a.jsonl", write_sentences="text")
    check(form, output, 1, TABLES)
    run(folder, tiny_bundle, form, write_sentences="text")
    check(form, output, 2, TABLES)
    shutil.copy(next((output / "annotations").glob("*.parquet")), stray)  # as a killed worker leaves it
    write_jsonl(folder / "in" / "b.jsonl", documents(7, "other"))
    run(folder, tiny_bundle, form, write_sentences="text")
    check(form, output, 3, TABLES)
    run(folder, tiny_bundle, form, "b.jsonl", write_sentences="text")
    check(form, output, 3, TABLES)
    run(folder, tiny_bundle, form, "b.jsonl", write_sentences="text", prune=True)
    check(form, output, 4, TABLES)
    assert {row["document_id"][:5] for row in table(form, output, "documents").rows().to_pylist()} == {"other"}


def test_a_snapshot_names_its_run_and_describes_its_columns(folder, tiny_bundle, form):
    run(folder, tiny_bundle, form)
    output = folder / "out"
    identity = json.loads((output / "job.json").read_text())
    shards = list(committed_names(str(output)))
    read = table(form, output, "annotations")
    properties = read.versions()[0]
    assert properties["spanmarker.job"] == identity_digest(identity)
    assert properties["spanmarker.model"] == identity["model"]
    assert properties["spanmarker.shards"] == str(len(shards))
    states = {table(form, output, name).versions()[0]["spanmarker.state"] for name in TABLES[:3]}
    assert states == {DigestSet.of(shards).digest}
    rows = [expected_file(output, "annotations", shard) for shard in shards]
    bounds = sorted((0, min(starts), max(starts)) for starts in rows if starts)
    assert [each for each in read.bounds("char_start") if each[1] is not None] == bounds
    nulls = sum(null for null, _, _ in table(form, output, "documents").bounds("language"))
    assert nulls == expected(output, "documents")["language"].null_count > 0
    text = json.dumps(read.table.schema().to_json() if form == "delta" else str(read.table.schema()))
    assert "exclusive end, in characters" in text


def expected_file(output, name, shard):
    return ds.dataset(f"{output}/{name}/{shard}.parquet").to_table()["char_start"].to_pylist()


def test_readers_see_the_old_rows_until_the_new_snapshot(folder, tiny_bundle, form, monkeypatch):
    run(folder, tiny_bundle, form)
    output = folder / "out"
    before = {name: as_rows(table(form, output, name).rows()) for name in TABLES[:3]}
    write_jsonl(folder / "in" / "b.jsonl", documents(7, "other"))
    seen = []
    publish = Snapshots.publish

    def read_then_publish(self, *arguments):
        seen.append({name: as_rows(table(form, output, name).rows()) for name in TABLES[:3]})
        if len(seen) == 1:
            raise KeyboardInterrupt
        return publish(self, *arguments)

    monkeypatch.setattr(Snapshots, "publish", read_then_publish)
    with pytest.raises(KeyboardInterrupt):
        run(folder, tiny_bundle, form)
    assert "new snapshots" in run(folder, tiny_bundle, form)
    assert seen == [before, before]
    check(form, output, 2)


@pytest.mark.parametrize("finished", [1, 2, 3])
def test_a_commit_that_ends_early_is_completed_by_the_next_run(folder, tiny_bundle, form, finished, monkeypatch):
    run(folder, tiny_bundle, form, "a.jsonl")
    commits = []
    commit = Snapshots._commit

    def die(self, *arguments):
        commit(self, *arguments)
        commits.append(arguments[0])
        if len(commits) == finished:
            raise KeyboardInterrupt

    monkeypatch.setattr(Snapshots, "_commit", die)
    with pytest.raises(KeyboardInterrupt):
        run(folder, tiny_bundle, form, "b.jsonl", prune=True)
    monkeypatch.undo()
    assert commits == ["documents", "rejects", "annotations"][:finished]
    run(folder, tiny_bundle, form, "b.jsonl", prune=True)
    check(form, folder / "out", 2)


def test_a_file_is_dropped_before_it_is_replaced(folder, tiny_bundle, form, monkeypatch):
    run(folder, tiny_bundle, form)
    output = folder / "out"
    damaged = sorted((output / "annotations").glob("*.parquet"))[0]
    damaged.unlink()
    named = []
    do = _Run._do
    monkeypatch.setattr(_Run, "_do", lambda *args: (named.append(table(form, output, "documents").files()), do(*args)))
    run(folder, tiny_bundle, form)
    assert named == [{path.name for path in (output / "documents").glob("*.parquet")} - {damaged.name}]
    check(form, output, 3)
    run(folder, tiny_bundle, form, force=True)
    assert named[1] == set()
    check(form, output, 5)


def test_a_run_that_fails_commits_nothing(folder, tiny_bundle, form):
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form, max_rejects="0")
    assert error.value.code == "rejects.too_many"
    with pytest.raises(Exception, match=r"documents|No files in log"):
        table(form, folder / "out", "documents")
    run(folder, tiny_bundle, form)
    check(form, folder / "out", 1)


def test_a_run_that_is_interrupted_leaves_the_tables_as_they_are(folder, tiny_bundle, form, monkeypatch):
    run(folder, tiny_bundle, form)
    before = as_rows(table(form, folder / "out", "annotations").rows())
    write_jsonl(folder / "in" / "b.jsonl", documents(7, "other"))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.runs.run.engine", lambda name: interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(folder, tiny_bundle, form)
    monkeypatch.undo()
    assert as_rows(table(form, folder / "out", "annotations").rows()) == before
    run(folder, tiny_bundle, form)
    check(form, folder / "out", 2)


def test_a_run_that_would_not_commit_is_refused(folder, tiny_bundle, form):
    run(folder, tiny_bundle, form)
    for other in {None, *FORMATS} - {form}:
        with pytest.raises(PipelineError) as error:
            run(folder, tiny_bundle, other, "b.jsonl", prune=True)
        assert error.value.code == "snapshot.commit_needed"
        assert error.value.values["format"] == form
    check(form, folder / "out", 1)


def test_a_finished_output_is_committed_when_asked(folder, tiny_bundle, form):
    run(folder, tiny_bundle, None)
    assert "Nothing to do" in run(folder, tiny_bundle, form)
    check(form, folder / "out", 1)


def test_another_job_with_the_same_columns_replaces_the_rows(folder, tiny_bundle, form):
    run(folder, tiny_bundle, form, write_sentences="offsets")
    run(folder, tiny_bundle, form, threshold=0.9, force=True)
    check(form, folder / "out", 2)
    assert table(form, folder / "out", "sentences").rows().num_rows == 0
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form, write_sentences="text", force=True)
    assert error.value.code == "snapshot.other_columns"
    check(form, folder / "out", 2)


SCALARS = {
    "flag": (pa.bool_(), True),
    "small": (pa.int8(), -1),
    "ratio": (pa.float64(), 0.5),
    "half": (pa.float32(), 0.5),
    "bytes": (pa.large_binary(), b"\xff"),
    "fixed": (pa.binary(2), b"ab"),
    "day": (pa.date32(), date(2024, 2, 29)),
    "price": (pa.decimal128(10, 2), Decimal("1.50")),
    "tiny": (pa.decimal128(10, 9), Decimal("0.000000001")),
    "huge": (pa.decimal128(38, 3), Decimal("12345678901234567890123456789012345.123")),
    "local": (pa.timestamp("ms"), datetime(2024, 1, 2, 3, 4, 5, 678000)),
    "moment": (pa.timestamp("us", "UTC"), datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)),
    "long": (pa.large_string(), "é" * 1000),
}
NESTED = {
    "tags": (pa.list_(pa.string()), ["x", None]),
    "place": (pa.struct([("lat", pa.float64()), ("names", pa.list_(pa.string()))]), {"lat": 1.5, "names": ["y"]}),
    "counts": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


def test_kept_columns_of_all_types_that_the_format_has(tmp_path, tiny_bundle, form):
    kept = {name: pa.array([value, None], kind) for name, (kind, value) in (SCALARS | NESTED).items()}
    kept["language"] = pa.array(["de", None]).dictionary_encode()
    kept["not_a_number"] = pa.array([0.5, float("nan")])
    source = pa.table({"id": ["1", "2"], "text": ["Obama flew to Paris.", "Müller"], **kept})
    (tmp_path / "in").mkdir()
    pa.parquet.write_table(source, tmp_path / "in" / "a.parquet")
    options = {"keep_columns": ["all", "language=lang"], "keep_columns_in": "annotations"}
    kept["lang"] = kept.pop("language")
    run(tmp_path, tiny_bundle, form, "a.parquet", **options)
    check(form, tmp_path / "out", 1)
    rows = table(form, tmp_path / "out", "documents").rows().sort_by("document_id").to_pylist()
    source = pa.table(kept).to_pylist()
    assert [{name: repr(row[name]) for name in kept} for row in rows] == [
        {name: repr(row[name]) for name in kept} for row in source
    ]


@pytest.mark.parametrize("name", SCALARS)
def test_a_filter_on_a_kept_column_loses_no_row(tmp_path, tiny_bundle, form, name):
    kind, value = SCALARS[name]
    source = pa.table({"id": ["1", "2"], "text": ["Obama flew to Paris."] * 2, name: pa.array([value, None], kind)})
    (tmp_path / "in").mkdir()
    pa.parquet.write_table(source, tmp_path / "in" / "a.parquet")
    run(tmp_path, tiny_bundle, form, "a.parquet", keep_columns=[name], max_shard_bytes=1)
    assert len(list((tmp_path / "out" / "documents").glob("*.parquet"))) == 2
    read = table(form, tmp_path / "out", "documents")
    assert read.matching(name, value)["document_id"].to_pylist() == ["1"]
    assert read.matching(name, None)["document_id"].to_pylist() == ["2"]
    assert read.matching("n_words", 5)["document_id"].to_pylist() == ["1", "2"]


@pytest.mark.parametrize(
    ("kind", "name", "bad"),
    [
        (pa.uint16(), "n", FORMATS),
        (pa.float16(), "n", FORMATS),
        (pa.timestamp("ns"), "n", FORMATS),
        (pa.timestamp("us", "Europe/Berlin"), "n", FORMATS),
        (pa.time64("us"), "n", ["delta"]),
        (pa.list_(pa.struct([("x", pa.int64())])), "n", ["iceberg"]),
        (pa.struct([("x", pa.list_(pa.uint8()))]), "n", FORMATS),
        (pa.int64(), "a b", ["delta"]),
        (pa.struct([("a=b", pa.int64())]), "n", ["delta"]),
    ],
)
def test_columns_that_the_format_lacks(form, kind, name, bad):
    assert bool(unfit_columns(pa.schema([(name, kind)]), form)) == (form in bad)


def test_a_column_that_the_format_lacks_is_refused_before_the_run(tmp_path, tiny_bundle, form):
    rows = [{"id": "1", "text": "Obama", "n": 1}]
    write_parquet(tmp_path / "in" / "a.parquet", rows)
    unsigned = pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("text", pa.string()), ("n", pa.uint32())]))
    pa.parquet.write_table(unsigned, tmp_path / "in" / "a.parquet")
    with pytest.raises(PipelineError) as error:
        run(tmp_path, tiny_bundle, form, "a.parquet", keep_columns=["n"])
    assert error.value.code == "snapshot.bad_columns"
    assert error.value.values["columns"] == "  n: uint32"
    assert not (tmp_path / "out").exists()


def test_tables_of_others_are_left_alone(folder, tiny_bundle, form):
    output = folder / "out"
    run(folder, tiny_bundle, None)
    theirs = pa.table({"x": [1]})
    if form == "delta":
        write_deltalake(str(output / "rejects"), theirs)
    else:
        (output / "iceberg").mkdir()
        catalogue(output).create_namespace("spanmarker")
        catalogue(output).create_table(("spanmarker", "rejects"), theirs.schema).append(theirs)
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form)
    assert error.value.code == "snapshot.foreign"
    assert table(form, output, "rejects").rows() == theirs


def test_rows_of_others_in_our_table_are_noticed(folder, tiny_bundle, form):
    output = folder / "out"
    run(folder, tiny_bundle, form)
    read = table(form, output, "documents")
    if form == "delta":
        write_deltalake(read.table, read.rows().slice(0, 1), mode="append")
    else:
        read.table.append(read.rows().slice(0, 1).cast(read.table.schema().as_arrow()))
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form)
    assert error.value.code == "snapshot.foreign"


def test_a_damaged_table_is_named(folder, tiny_bundle, form):
    output = folder / "out"
    run(folder, tiny_bundle, form)
    log = "documents/_delta_log/00000000000000000000.json"
    path = output / log if form == "delta" else next((output / "iceberg/documents/metadata").glob("snap-*.avro"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form)
    assert error.value.code == "snapshot.not_readable"


def test_a_library_that_is_missing_is_named(folder, tiny_bundle, form, monkeypatch):
    library = {"delta": "deltalake", "iceberg": "pyiceberg"}[form]
    monkeypatch.setitem(__import__("sys").modules, f"pipelines.snapshots.{form}", None)
    with pytest.raises(PipelineError) as error:
        run(folder, tiny_bundle, form)
    assert error.value.code == "snapshot.no_library"
    assert error.value.values["library"] == library


@pytest.mark.parametrize("output", ["memory://rows", "100%20"])
def test_a_place_that_the_libraries_cannot_name_is_refused(tmp_path, tiny_bundle, form, output, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError) as error:
        tag([write_jsonl(tmp_path / "a.jsonl", documents(1))], output, tiny_bundle, commit=form)
    assert error.value.code == "snapshot.no_store"
