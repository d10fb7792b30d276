"""Pages of rows, against the same rows picked by pyarrow."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.browse import database as module
from pipelines.browse import queries as queries_module
from pipelines.browse import query as rules
from pipelines.browse.catalogue import read_catalogue
from pipelines.browse.database import Database, Gone, retrying
from pipelines.browse.error_pages import PageError
from pipelines.browse.query import ORDERS, RowPosition, RowQuery
from pipelines.output.layout import table_path
from tests.support.browsed_output import add_shard, annotation, begin, document

TEXTS = ["Ann", "ann", "ANNA", "É", "é", "Яна", "яна", "100%", "a_b", "o'neil", '"x"', "a\\b", "line\nend", "", "ﬁne"]
LABELS = ["person", "place", "o'label", "%"]
SCORES = [0.1, 0.25, 0.5, 0.9, 0.9, 1.0]


def fill(output, sizes, seed=0):
    """Make a shard a size, with rows drawn from few values, so that there are many ties."""
    random = np.random.default_rng(seed)
    begin(output)
    for number, size in enumerate(sizes):
        rows = [
            annotation(
                f"d{n % 3}", 0, 1, str(random.choice(TEXTS)), str(random.choice(LABELS)), score=random.choice(SCORES)
            )
            for n in range(size)
        ]
        add_shard(output, "rows", rows, [document(f"d{n}", "/s.jsonl", n, 9) for n in range(3)], number=number)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    output = tmp_path_factory.mktemp("filled") / "o'ut put [1]*"
    output.mkdir()
    fill(output, [7, 0, 30, 1, 12])
    catalogue = read_catalogue(str(output))
    tables = []
    for number, name in enumerate(catalogue.names):
        table = pq.read_table(table_path(str(output), "annotations", name), partitioning=None)
        table = table.append_column("number", pa.array([number] * len(table), pa.int64()))
        tables.append(table.append_column("row", pa.array(range(len(table)), pa.int64())))
    database = Database(str(output))
    yield database, catalogue, pa.concat_tables(tables)
    database.close()


def oracle(table, query):
    if query.value:
        table = table.filter(pc.equal(table["label"], query.value))
    if query.least is not None:
        table = table.filter(pc.greater_equal(table["score"], pa.scalar(np.float32(query.least))))
    if query.most is not None:
        table = table.filter(pc.less_equal(table["score"], pa.scalar(np.float32(query.most))))
    lower = pc.utf8_lower(table["text"])
    if query.text:
        text = pc.utf8_lower(pa.scalar(query.text)).as_py()
        table = table.filter(pc.equal(lower, text) if query.whole else pc.match_substring(lower, text))
    table = table.append_column("lower", pc.utf8_lower(table["text"]))
    keys = [("number", "ascending"), ("row", "ascending")]
    if order := ORDERS[query.order]:
        keys.insert(0, ("score" if order[0] == "score" else "lower", "descending" if order[2] else "ascending"))
    return [(row["number"], row["row"], row["text"]) for row in table.sort_by(keys).to_pylist()]


def paged(database, catalogue, query, limit):
    """Return all rows, page by page."""
    found, after = [], None
    for _ in range(200):
        with database.session() as queries:
            page = queries.page(catalogue, query, after, limit)
        assert page.whole
        assert len(page.rows) <= limit
        found += [(catalogue.number_of(row["shard"]), row["row"], row["text"]) for row in page.rows]
        after = page.after
        if after is None:
            return found
    raise AssertionError("the pages have no end")


@given(
    text=st.sampled_from([*TEXTS, "n", "A", "%", "_", "'", "zzz"]),
    whole=st.booleans(),
    value=st.sampled_from(["", *LABELS, "nothing"]),
    least=st.sampled_from([None, *SCORES]),
    most=st.sampled_from([None, *SCORES]),
    order=st.sampled_from(list(ORDERS)),
    limit=st.sampled_from([1, 3, 7, 100]),
)
def test_pages_hold_the_rows_that_are_asked_for_each_once_in_order(
    filled, text, whole, value, least, most, order, limit
):
    database, catalogue, table = filled
    query = RowQuery("annotations", text, whole, value, least, most, order)
    expected = oracle(table, query)
    assert paged(database, catalogue, query, limit) == expected
    with database.session() as queries:
        counts = queries.counts(catalogue, query)
    assert counts.whole
    assert counts.by_value.total() == len(expected)


def test_shards_are_asked_some_at_a_time(filled, monkeypatch):
    database, catalogue, table = filled
    monkeypatch.setattr(rules, "_FIRST_ROWS", 5)
    monkeypatch.setattr(rules, "_MOST_ROWS", 15)
    for order in ORDERS:
        query = RowQuery("annotations", "n", order=order)
        assert paged(database, catalogue, query, 2) == oracle(table, query)
    request = [len(shards) for shards in rules.growing(catalogue, RowQuery("annotations"), None)]
    assert request == [1, 1, 2]  # of those that have rows: 7; 30; 1 and 12
    monkeypatch.setattr(rules, "_MOST_FILES", 1)
    monkeypatch.setattr(rules, "_FIRST_FILES", 1)
    request = [len(shards) for shards in rules.growing(catalogue, RowQuery("annotations"), None)]
    assert request == [1, 1, 1, 1]


HOSTILE = [
    "' OR 1=1 --",
    "'; DROP TABLE x; --",
    "x') UNION SELECT content FROM read_text('/etc/passwd') --",
    "%",
    "_",
    "\\",
    "\x00",
    "$1",
    "?",
    "{}",
    "\u202e",
    "\ufffd",
    "😀" * 500,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_values_are_only_ever_values(filled, text):
    database, catalogue, table = filled
    for query in (
        RowQuery("annotations", text),
        RowQuery("annotations", text, whole=True, order="text-up"),
        RowQuery("annotations", value=text),
        RowQuery("documents", text, value=text),
        RowQuery("rejects", text, value=text),
    ):
        with database.session() as queries:
            page = queries.page(catalogue, query, None, 5)
            assert queries.counts(catalogue, query).by_value.total() >= len(page.rows)
        if query.table == "annotations":
            assert [row["text"] for row in page.rows] == [text for _, _, text in oracle(table, query)][:5]
    with database.session() as queries:
        shard = catalogue.names[0]
        assert queries.entities(shard, text, 0, 9, 9) == []
        assert queries.crossing(shard, text, 0) is None
        assert queries.documents_of([(shard, text)]) == {}


def test_duckdb_reaches_nothing_but_the_output(filled, tmp_path):
    database, _, _ = filled
    secret = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"a": [1]}), secret)
    for statement in (
        f"SELECT * FROM read_parquet('{secret}')",
        "SELECT * FROM read_text('/etc/hostname')",
        f"COPY (SELECT 1) TO '{tmp_path}/new.parquet'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        f"ATTACH '{tmp_path}/new.db'",
    ):
        with pytest.raises(module.duckdb.Error):
            database._connection.cursor().execute(statement)
    assert list(tmp_path.iterdir()) == [secret]


def test_what_takes_too_long_is_broken_off(tmp_path, monkeypatch):
    fill(tmp_path, [50, 50, 50])
    catalogue = read_catalogue(str(tmp_path))
    database = Database(str(tmp_path), seconds=0.3)
    slow = (
        queries_module.FILES
        + ", (SELECT count(*) FROM range(20000) a, range(20000) b WHERE hash(a.range, b.range) = 1)"
    )
    monkeypatch.setattr(queries_module, "FILES", slow)
    began = time.monotonic()
    for order in ("stored", "score-down"):
        query = RowQuery("annotations", "Ann", order=order)
        if order == "stored":
            with database.session() as queries:
                page = queries.page(catalogue, query, None, 500)
            assert not page.whole
            assert page.after == RowPosition(catalogue.names[0], -1)  # from where it may be gone on with
        else:
            with pytest.raises(PageError, match="stopped after") as caught, database.session() as queries:
                queries.page(catalogue, query, None, 500)
            assert caught.value.status == 503
    with database.session() as queries:
        assert not queries.counts(catalogue, RowQuery("annotations", "Ann")).whole
    assert time.monotonic() - began < 5
    monkeypatch.undo()
    with database.session() as queries:  # and is none the worse for it
        assert len(queries.page(catalogue, RowQuery("annotations"), None, 10).rows) == 10
    database.close()


def test_a_page_that_was_broken_off_goes_on_where_it_stopped(filled, monkeypatch):
    database, catalogue, table = filled
    query = RowQuery("annotations", "n")
    monkeypatch.setattr(rules, "_FIRST_FILES", 1)
    monkeypatch.setattr(rules, "_MOST_FILES", 1)
    real, sent = module.Queries.execute, []

    def second_fails(self, statement, parameters):
        sent.append(statement)
        if len(sent) % 2 == 0:
            raise module.OutOfTime
        return real(self, statement, parameters)

    monkeypatch.setattr(module.Queries, "execute", second_fails)
    found, after = [], None
    for _ in range(20):
        with database.session() as queries:
            page = queries.page(catalogue, query, after, 100)
        found += [(catalogue.number_of(row["shard"]), row["row"], row["text"]) for row in page.rows]
        after = page.after
        if after is None:
            break
        assert not page.whole
    assert found == oracle(table, query)


def test_others_wait_and_are_told(filled, monkeypatch):
    database, _, _ = filled
    monkeypatch.setattr(database, "_slots", threading.Semaphore(0))
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    with pytest.raises(PageError, match="Other searches"), database.session(0.05):
        pass


def test_what_does_not_fit_in_memory_is_told(tmp_path):
    begin(tmp_path)
    rows = pa.Table.from_pylist([annotation("d", 0, 1, "x" * (2 << 20) + str(n)) for n in range(40)])
    add_shard(tmp_path, "large", rows)
    database = Database(str(tmp_path), memory="24MB")
    catalogue = read_catalogue(str(tmp_path))
    with pytest.raises(PageError) as caught, database.session() as queries:
        queries.page(catalogue, RowQuery("annotations", order="text-up"), None, 25)
    assert caught.value.title == "The search needs too much memory"
    assert not list(tmp_path.rglob("*.tmp"))
    database.close()


def test_a_file_that_a_run_has_removed_is_looked_for_anew(tmp_path):
    fill(tmp_path, [5, 5])
    old = read_catalogue(str(tmp_path))
    database = Database(str(tmp_path))
    gone = old.names[0]
    (tmp_path / "manifest" / f"{gone}.json").unlink()
    (tmp_path / "annotations" / f"{gone}.parquet").unlink()

    def look(catalogue):
        with database.session() as queries:
            return queries.page(catalogue, RowQuery("annotations"), None, 50)

    with pytest.raises(Gone):
        look(old)
    page = retrying(look, lambda: old, lambda: read_catalogue(str(tmp_path)))
    assert {row["shard"] for row in page.rows} == {old.names[1]}
    with pytest.raises(PageError, match="try again"):
        retrying(look, lambda: old, lambda: old)
    database.close()


def test_a_damaged_file_is_told(tmp_path):
    fill(tmp_path, [5])
    catalogue = read_catalogue(str(tmp_path))
    path = tmp_path / "annotations" / f"{catalogue.names[0]}.parquet"
    path.write_bytes(b"no parquet at all")
    database = Database(str(tmp_path))
    with pytest.raises(PageError, match="cannot be read"), database.session() as queries:
        queries.page(catalogue, RowQuery("annotations"), None, 5)
    database.close()


def test_thousands_of_files_cost_what_is_looked_at(tmp_path):
    """The first page of an output of many small shards opens few of them."""
    begin(tmp_path)
    for number in range(60):
        add_shard(tmp_path, "small", [annotation("d", 0, 1, f"t{number}")], number=number)
    catalogue = read_catalogue(str(tmp_path))
    database, seen = Database(str(tmp_path)), []
    with database.session() as queries:
        real = queries.execute

        def counted(statement, parameters):
            seen.append(len(parameters[0]))
            return real(statement, parameters)

        queries.execute = counted
        page = queries.page(catalogue, RowQuery("annotations"), None, 20)
    assert len(page.rows) == 20
    assert sum(seen) < 50
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("library", ["duckdb", "starlette.requests", "uvicorn"])
def test_without_a_library_it_is_said_what_to_install(tmp_path, library):
    begin(tmp_path)
    code = f"import sys; sys.modules[{library!r}] = None; from pipelines.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, "browse", str(tmp_path), "--no-open"], capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "[browse.not_installed]" in found.stderr
    assert "spanmarker-pipelines[browse]" in found.stderr
    assert json.loads((tmp_path / "job.json").read_text())
