"""Downloads hold what a page shows, in bounded memory, and say when they are cut."""

import csv
import http.client
import io
import json
import threading
from urllib.parse import urlsplit

import pytest

from pipelines.browse import download as module
from pipelines.browse.database import Database
from pipelines.browse.download import row_download
from pipelines.browse.error_pages import PageError, too_slow
from pipelines.browse.query import Page, RowPosition, RowQuery
from tests.pipelines.browse.conftest import serving, site
from tests.pipelines.browse.test_server import ask, serve
from tests.support.browsed_output import add_shard, annotation, begin, document

NASTY = ["=1+1", "+x", "-5", "@me", 'a,"b"', "line\nend", "Ärger", "\tx"]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("download") / "out"
    begin(folder)
    for number in range(3):
        rows = [annotation("d", n, n + 1, text, score=0.9) for n, text in enumerate(NASTY)]
        reject = {"document_id": "r", "source": "/s", "source_row": 1, "stage": "read", "code": "null_text"}
        reject |= {"message": "m", "raw": b"\xff{}"}
        add_shard(folder, "rows", rows, [document("d", "/s", 0, 9)], [reject], number=number)
    return folder


def downloaded(output, query):
    with site(output) as pages:
        file = pages.page("/download", query)
        return file.name, b"".join(file.parts).decode()


def test_csv_is_read_back_and_runs_nothing_in_a_spreadsheet(output):
    name, text = downloaded(output, "what=mentions&as=csv")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert name == "annotations.csv"
    assert len(rows) == 3 * len(NASTY)
    assert [row["text"].removeprefix("'") for row in rows[: len(NASTY)]] == NASTY
    assert not any(row["text"].startswith(("=", "+", "-", "@", "\t")) for row in rows)
    assert {row["score"] for row in rows} == {"0.9"}


def test_json_lines_are_exact(output):
    name, text = downloaded(output, "what=mentions&as=jsonl")
    rows = [json.loads(line) for line in text.splitlines()]
    assert name == "annotations.jsonl"
    assert [row["text"] for row in rows] == NASTY * 3
    assert rows[0]["score"] == 0.9
    _, text = downloaded(output, "what=rejects&as=jsonl")
    assert json.loads(text.splitlines()[0])["raw"] == "\\xff{}"


def test_a_download_holds_what_is_selected(output):
    _, text = downloaded(output, "what=mentions&as=jsonl&q=%C3%A4r")
    assert [json.loads(line)["text"] for line in text.splitlines()] == ["Ärger"] * 3
    _, text = downloaded(output, "what=entities&as=csv&q=%C3%A4r")
    assert text.splitlines() == ["text,entities,mean_score,labels", "Ärger,3,0.9,person 3"]
    _, text = downloaded(output, "what=entities&q=nothing")
    assert text.splitlines() == ["text,entities,mean_score,labels"]
    _, text = downloaded(output, "what=documents&source=%2Fs&as=jsonl")
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("order", ["stored", "score-down"])
def test_rows_are_read_in_steps_up_to_the_maximum(output, monkeypatch, order):
    monkeypatch.setattr(module, "_AT_ONCE", 5)
    monkeypatch.setattr(module, "MAX_ROWS", 17)
    with site(output) as pages:
        file = row_download(pages.database, pages.live.now(), RowQuery("annotations", order=order), "jsonl")
        parts = list(file.parts)
    assert [part.count(b"\n") for part in parts] == [5, 5, 5, 2]


def test_a_search_that_finds_nothing_in_time_ends(output, monkeypatch):
    stuck = RowPosition("rows", -1)
    monkeypatch.setattr("pipelines.browse.queries.Queries.page", lambda *_: Page([], stuck, whole=False))
    with site(output) as pages:
        file = row_download(pages.database, pages.live.now(), RowQuery("annotations"), "csv")
        next(file.parts)
        with pytest.raises(PageError):
            next(file.parts)


def test_a_file_is_sent_with_its_name(output):
    with serving(output) as url:
        status, headers, body = ask(url, "/download?what=mentions")
        assert (status, headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
        assert headers["Content-Disposition"] == 'attachment; filename="annotations.csv"'
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert body.count(b"\r\n") == 1 + 3 * len(NASTY)
        assert ask(url, "/download?what=mentions", "HEAD")[2] == b""
        assert ask(url, "/download?what=mentions&least=9")[0] == 400


def test_an_error_at_the_start_is_a_page_and_one_later_cuts_the_file():
    def parts(good):
        yield from [b"part"] * good
        raise too_slow("over")

    files = {f"/{good}": good for good in (0, 2)}
    with serve(lambda path, query: module.Download("a.csv", "text/csv", parts(files[path]))) as server:
        assert ask(server.url, "/0")[0] == 503
        with pytest.raises(http.client.IncompleteRead) as caught:
            ask(server.url, "/2")
        assert caught.value.partial == b"partpart"


def test_a_client_that_takes_a_file_slowly_keeps_nobody_out(output):
    with serving(output) as url:
        where = urlsplit(url)
        clients = [http.client.HTTPConnection(where.netloc, timeout=20) for _ in range(40)]
        for client in clients:
            client.request("GET", "/download?what=mentions")
        found = []
        thread = threading.Thread(target=lambda: found.append(ask(url)[0]))
        thread.start()
        thread.join(10)
        assert found == [200]
        for client in clients:
            client.close()


def test_a_database_has_a_free_slot_between_the_steps(output, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 5)
    with site(output) as pages:
        database: Database = pages.database
        files = [row_download(database, pages.live.now(), RowQuery("annotations"), "csv") for _ in range(5)]
        for file in files:
            next(file.parts)
        with database.session(1.0) as queries:
            assert len(queries.page(pages.live.now(), RowQuery("annotations"), None, 3).rows) == 3
