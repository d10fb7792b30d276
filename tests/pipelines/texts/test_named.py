"""Only files below folders that the reader named are read, whatever an output says."""

import contextlib
import http.server
import json
import os
import threading

import fsspec
import pytest

from pipelines.texts.named import NamedFolders
from tests.pipelines.browse.conftest import serving
from tests.pipelines.browse.test_server import ask
from tests.support.browsed_output import add_shard, annotation, begin, document

SECRET = "Ann and what nobody may see"
HINT = b"--sources"


@contextlib.contextmanager
def trap():
    """Yield the address of a web server and the requests that it has got."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def an_output(folder, source):
    begin(folder)
    add_shard(folder, "a", [annotation("a", 0, 3, "Ann")], [document("a", source, 0, len(SECRET))], source=source)
    return folder


def write_secret(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": "a", "text": SECRET}) + "\n")
    return path


def pages(output, named):
    """Return the pages of the entity and of its document, as the server answers them."""
    with serving(output, named) as url:
        shard = next((output / "annotations").iterdir()).stem
        documents = (f"/document?shard={shard}&{place}=0" for place in ("hit", "row"))
        answers = [ask(url, path) for path in ("/mentions", *documents)]
    assert [status for status, _, _ in answers] == [200, 200, 200]
    return [body for _, _, body in answers]


def shown(output, *named):
    """Tell whether the pages show the text; all or none do."""
    found = {b"nobody may see" in page for page in pages(output, [str(each) for each in named])}
    assert len(found) == 1
    return found.pop()


def test_nothing_is_read_unless_a_folder_is_named(tmp_path):
    source = write_secret(tmp_path / "in" / "a.jsonl")
    output = an_output(tmp_path / "out", str(source))
    for page in pages(output, []):
        assert b"nobody may see" not in page
        assert page.count(HINT) == 1
    for page in pages(output, [str(tmp_path / "in")]):
        assert b"nobody may see" in page
        assert HINT not in page


@pytest.mark.parametrize("named", ["in", "in/", "./in", ".", "in/a.jsonl", "file://{tmp}/in", "x/../in", "to-in"])
def test_a_folder_may_be_named_in_many_ways(tmp_path, monkeypatch, named):
    source = write_secret(tmp_path / "in" / "a.jsonl")
    (tmp_path / "x").mkdir()
    (tmp_path / "to-in").symlink_to("in")
    monkeypatch.chdir(tmp_path)
    output = an_output(tmp_path / "out", str(source))
    assert shown(output, named.replace("{tmp}", str(tmp_path)))
    assert shown(output, tmp_path / "elsewhere", named.replace("{tmp}", str(tmp_path)))


SOURCES = [
    "{tmp}/secret/a.jsonl",
    "{tmp}/in/../secret/a.jsonl",
    "{tmp}/in/x/../../secret/a.jsonl",
    "{tmp}/in2/a.jsonl",  # begins as what was named
    "{tmp}/in/link.jsonl",
    "{tmp}/in/linked/a.jsonl",
    "file://{tmp}/secret/a.jsonl",
    "file://{tmp}/in/../secret/a.jsonl",
    "local://{tmp}/secret/a.jsonl",
    "secret/a.jsonl",
    "in/../secret/a.jsonl",
    "memory://secret/a.jsonl",
    "simplecache::file://{tmp}/secret/a.jsonl",
    "{tmp}/in::file://{tmp}/secret/a.jsonl",
    "/proc/self/cwd/secret/a.jsonl",
    "~/secret/a.jsonl",
    "{tmp}/in/\x00/../../secret/a.jsonl",
]


@pytest.mark.parametrize("source", SOURCES)
def test_no_source_leads_out_of_the_folder(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    secret = write_secret(tmp_path / "secret" / "a.jsonl")
    write_secret(tmp_path / "in2" / "a.jsonl")
    (tmp_path / "in" / "x").mkdir(parents=True)
    (tmp_path / "in" / "link.jsonl").symlink_to(secret)
    (tmp_path / "in" / "linked").symlink_to(secret.parent)
    fsspec.filesystem("memory").pipe("/secret/a.jsonl", secret.read_bytes())
    output = an_output(tmp_path / "out", source.replace("{tmp}", str(tmp_path)))
    assert not shown(output, tmp_path / "in")
    assert not shown(output, "s3://in", "memory://in")


@pytest.mark.slow
def test_no_url_is_asked_for_that_was_not_named(tmp_path):
    with trap() as (address, asked):
        output = an_output(tmp_path / "out", f"{address}/secret/a.jsonl")
        for named in ([], [tmp_path], [f"{address}/in"], [f"{address}/secret2"], [address.replace("http", "https")]):
            assert not shown(output, *named)
        for number, way_out in enumerate(["in/../secret", "in/%2e%2e/secret", "in/..%2fsecret", "in\\..\\secret"]):
            output = an_output(tmp_path / f"out{number}", f"{address}/{way_out}/a.jsonl")
            assert not shown(output, f"{address}/in")
        output = an_output(tmp_path / "user", address.replace("//", "//in@") + "/a.jsonl")
        assert not shown(output, "http://in")
        assert asked == []
        output = an_output(tmp_path / "named", f"{address}/secret/a.jsonl")
        assert not shown(output, f"{address}/secret")  # It is not there.
        assert asked


def test_a_store_may_be_named(tmp_path):
    fsspec.filesystem("memory").pipe("/in/a.jsonl", write_secret(tmp_path / "a.jsonl").read_bytes())
    output = an_output(tmp_path / "out", "memory:///in/a.jsonl")
    assert shown(output, "memory://in")
    assert shown(output, "memory:///in/")
    assert not shown(output, "memory://i")
    assert not shown(output, os.sep)


def test_the_root_holds_every_file_and_no_url():
    named = NamedFolders(["/"])
    assert named.hold("/etc/passwd")
    assert not named.hold("s3://bucket/key")
    assert not NamedFolders([])
