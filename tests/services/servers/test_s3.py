"""`spanmarker tag` and outputs on a real S3 server: the same rows, whatever happens to the server on the way."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pipelines.errors import PipelineError
from pipelines.storage import (
    faults,
    make_folder,
    names_in,
    open_input,
    publish_bytes,
    read_all,
    remove_scratch,
    use_options,
)
from tests.faults.proxy import FaultyProxy
from tests.services.servers.seaweed import BUCKET, KEY, SECRET, Seaweed, client
from tests.support.jobs import all_rows, assert_same_rows, documents, prepare, spanmarker, write_jsonl, write_parquet
from tests.support.processes import finish, start, wait_for
from tests.support.rows import prepared

pytestmark = pytest.mark.timeout(600)


def words(inputs, output, bundle, *options):
    return [
        "tag",
        *(part for one in inputs for part in ("--input", one)),
        "--output",
        output,
        "--model",
        bundle,
        *options,
    ]


def tag(inputs, output, bundle, *options, code=0):
    """Run a command in this process, by default with the engine that starts none."""
    own = options if "--workers" in options else ("--engine", "inline", *options)
    done = spanmarker(*words(inputs, output, bundle, "--threads", 1, "--max-shard-bytes", 6000, *own))
    use_options([])
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def corpus(tmp_path):
    """Every format that shards are cut from."""
    write_jsonl(tmp_path / "in/a.jsonl", documents(40, "a"))
    write_parquet(tmp_path / "in/b.parquet", documents(30, "b"), row_group_size=10)
    for number, document in enumerate(documents(7, "c")):
        (tmp_path / f"in/c {number}.txt").write_text(document["text"])
    return tmp_path / "in"


def fetched(server: Seaweed, url, folder):
    """The tables of an output in the store, copied here."""
    client(server).get(url.removeprefix("s3://") + "/", str(folder) + "/", recursive=True)
    return folder


def without_source(rows):
    """Rows of one corpus in two places differ in where it lay."""
    return {
        table: [row | {"source": row["source"].rpartition("/")[2]} if "source" in row else row for row in found]
        for table, found in rows.items()
    }


def test_the_same_rows_from_disk_to_s3_and_from_s3_to_s3(corpus, tmp_path, tiny_bundle, s3_server, s3):
    tag([corpus / "*"], tmp_path / "local", tiny_bundle)
    expected = all_rows(tmp_path / "local")
    assert len(expected["documents"]) == 77
    client(s3_server).put(f"{corpus}/", f"{s3}/in/", recursive=True)
    ways = ((f"{corpus}/*", "from disk", ()), (f"{s3}/in/*", "from store", ()), (f"{s3}/in/*", "2", ("--workers", 2)))
    for inputs, name, options in ways:
        tag([inputs], f"{s3}/{name}", tiny_bundle, *options)
        found = all_rows(fetched(s3_server, f"{s3}/{name}", tmp_path / name))
        assert_same_rows(without_source(found), without_source(expected))


def test_options_in_place_of_the_environment_and_no_secret_in_what_is_written(corpus, tmp_path, tiny_bundle, s3_server):
    out = f"s3://{BUCKET}{tmp_path}/out"
    options = [f"s3.key={KEY}", f"s3.secret={SECRET}", f's3.client_kwargs={{"endpoint_url": "{s3_server.endpoint}"}}']
    given = [part for option in options for part in ("--storage-option", option)]
    printed = tag([corpus / "*.jsonl"], out, tiny_bundle, *given, "--workers", 1)
    folder = fetched(s3_server, out, tmp_path / "out")
    written = [printed.encode(), *(path.read_bytes() for path in folder.rglob("*") if path.is_file())]
    assert len(written) > 10
    assert not any(SECRET.encode() in content for content in written)
    assert b"s3.secret" in (folder / "report.json").read_bytes()


def test_a_second_run_does_what_is_missing_and_nothing_else(corpus, tmp_path, tiny_bundle, s3_server, s3):
    tag([corpus / "*"], s3, tiny_bundle)
    expected = all_rows(fetched(s3_server, s3, tmp_path / "1"))
    assert "Nothing to do" in tag([corpus / "*"], s3, tiny_bundle)
    fs, path = client(s3_server), s3.removeprefix("s3://")
    fs.rm_file(sorted(fs.ls(f"{path}/documents", detail=False))[0])
    fs.rm_file(sorted(fs.ls(f"{path}/manifest", detail=False))[-1])
    assert ", 2 to do" in tag([corpus / "*"], s3, tiny_bundle)
    assert_same_rows(all_rows(fetched(s3_server, s3, tmp_path / "2")), expected)


def test_a_second_run_at_the_same_time_is_told_who_writes(corpus, tiny_bundle, s3, s3_server):
    first = start(*words([corpus / "*"], s3, tiny_bundle, "--workers", 1))
    fs, path = client(s3_server), s3.removeprefix("s3://")
    wait_for(lambda: fs.exists(f"{path}/.lock-00000001"), process=first)
    said = tag([corpus / "*"], s3, tiny_bundle, code=5)
    assert "[output.busy]" in said
    assert f"process {first.pid} on" in said
    finish(first)


WRONG, NOBODY = {"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("inputs", "output", "environment", "said", "bad"),
    [
        ("{corpus}/*", "s3://no-such-bucket/out", {}, "url.no_bucket", "s3://no-such-bucket"),
        ("s3://no-such-bucket/*", "{out}", {}, "url.no_bucket", "s3://no-such-bucket"),
        ("s3://no-such-bucket/a.jsonl", "{out}", {}, "url.no_bucket", "s3://no-such-bucket"),
        ("{s3}/none/*.jsonl", "{out}", {}, "input.no_match", "{s3}/none/*.jsonl"),
        ("{corpus}/*", "s3://test/out", WRONG, "output.not_writable", "s3://test/out"),
        ("s3://test/*", "{out}", WRONG, "input.not_readable", "s3://test"),
        ("s3://test/a.jsonl", "{out}", WRONG, "input.not_readable", "s3://test"),
        ("{corpus}/*", "s3://test/out", NOBODY, "output.not_writable", "s3://test/out"),
        ("s3://test/*", "{out}", NOBODY, "input.not_readable", "s3://test"),
        ("{corpus}/*", "s4://test/out", {}, "url.unusable", "s4://test/out"),
        ("s3:/test/*", "{out}", {}, "url.unusable", "s3:/test/*"),
    ],
)
def test_bad_input_is_one_coded_message_within_seconds(
    inputs, output, environment, said, bad, corpus, tmp_path, tiny_bundle, s3, s3_server
):
    places = {"corpus": corpus, "out": tmp_path / "out", "s3": s3}
    begun = time.monotonic()
    code = 3 if environment == NOBODY else 1  # A store may be back later; a wrong secret stays wrong.
    with s3_server.in_use(**environment):
        printed = tag([inputs.format(**places)], output.format(**places), tiny_bundle, code=code)
    assert printed.startswith(f"spanmarker: [{said}] ")
    assert len(printed.splitlines()) == 1
    assert bad.format(**places) in printed
    assert time.monotonic() - begun < 45


@pytest.mark.parametrize(
    ("environment", "said"), [(WRONG, "storage.failed"), (NOBODY, "storage.failed"), ({}, "output.not_a_job")]
)
def test_status_of_what_cannot_be_reached_is_one_coded_message(environment, said, s3, s3_server):
    with s3_server.in_use(**environment):
        done = spanmarker("status", s3)
    assert done.returncode == (3 if environment == NOBODY else 1)
    assert f"[{said}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_upload_in_parts_outlives_a_killed_server(s3_server, s3):
    """The object is never there in part, and no parts stay."""
    content = os.urandom(1 << 20) * 120  # more than one part
    url, sizes, key = f"{s3}/x.bin", set(), s3.partition(f"{BUCKET}/")[2]
    make_folder(s3)
    publish_bytes(url, b"old")
    over = threading.Event()

    def watch():
        fs = client(s3_server)
        while not over.wait(0.1):
            with suppress(Exception):  # while the server is down
                sizes.add(fs.info(url)["size"])

    with ThreadPoolExecutor(2) as pool:
        watched = pool.submit(watch)
        upload = pool.submit(publish_bytes, url, content)
        wait_for(lambda: upload.done() or f"{key}/x.bin" in unfinished(s3_server))
        assert not upload.done()
        s3_server.kill()
        time.sleep(2)
        s3_server.start()
        upload.result()
        over.set()
        watched.result()
    assert sizes <= {3, len(content)}
    assert read_all([url]) == [content]

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(faults, "PATIENCE", 0.5)
        upload = pool.submit(publish_bytes, f"{s3}/y.bin", content)
        wait_for(lambda: upload.done() or f"{key}/y.bin" in unfinished(s3_server))
        s3_server.kill()
        with pytest.raises(PipelineError, match=r"output.not_writable"):
            upload.result()
    s3_server.start()
    assert sorted(names_in(s3, ".bin")) == ["x"]
    assert f"{key}/y.bin" in unfinished(s3_server)
    remove_scratch([s3])
    assert not unfinished(s3_server)
    publish_bytes(f"{s3}/y.bin", content)
    assert sorted(names_in(s3, ".bin")) == ["x", "y"]


def unfinished(server):
    return {upload["Key"] for upload in client(server).list_multipart_uploads(BUCKET)}


def test_a_run_during_which_the_server_is_killed_and_the_same_command_again(
    corpus, tmp_path, tiny_bundle, s3_server, s3
):
    """Preparing, which starts quicker: storage knows nothing of models."""
    prepare([corpus / "*"], tmp_path / "local", tiny_bundle)
    run = start("prepare", "--input", corpus / "*", "--output", s3, "--model", tiny_bundle, "--workers", 1)
    fs = client(s3_server)
    wait_for(lambda: fs.exists(f"{s3}/samples"), process=run)
    s3_server.kill()
    time.sleep(3)
    s3_server.start()
    finish(run)  # It has patience.
    assert "Nothing to do" in prepare([corpus / "*"], s3, tiny_bundle)
    assert prepared(s3) == prepared(tmp_path / "local")


@pytest.fixture
def stumbling(s3_server, s3):
    proxy = FaultyProxy(s3_server.port, seed=7, one_in=4)
    use_options([f's3.client_kwargs={{"endpoint_url": "{proxy.url}"}}'])
    yield proxy
    use_options([])
    proxy.close()


def test_objects_are_whole_through_500_503_slowness_and_cut_lines(stumbling, s3):
    contents = {f"{s3}/x/{number:03}.json": os.urandom(300_000) for number in range(40)}
    make_folder(f"{s3}/x")
    for url, content in contents.items():
        publish_bytes(url, content)
    assert sorted(names_in(f"{s3}/x", ".json")) == [f"{number:03}" for number in range(40)]
    assert read_all(list(contents)) == list(contents.values())
    for url, content in contents.items():
        with open_input(url) as file:
            assert file.read() == content
    assert {"500", "503", "slow", "cut"} <= stumbling.injected.keys()
    print(json.dumps(stumbling.injected))
