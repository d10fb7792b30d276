"""`spanmarker tag` and outputs on a real S3 server: the same rows, whatever happens to the server on the way."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

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
from tests.services.servers.seaweed import BUCKET, KEY, SECRET, Seaweed, client, running
from tests.support.jobs import all_rows, assert_same_rows, documents, write_jsonl, write_parquet

pytestmark = pytest.mark.timeout(600)


def command(inputs, output, bundle, *options):
    line = [sys.executable, "-m", "pipelines.cli", "tag", "--output", str(output), "--model", str(bundle)]
    line += ["--threads", "1", "--max-shard-bytes", "6000", *options]
    return [*line, *(part for one in inputs for part in ("--input", str(one)))]


def tag(inputs, output, bundle, *options, code=0, **environment):
    done = subprocess.run(
        command(inputs, output, bundle, *options),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | environment,
    )
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
    tag([corpus / "*"], f"{s3}/from disk", tiny_bundle)
    assert_same_rows(all_rows(fetched(s3_server, f"{s3}/from disk", tmp_path / "1")), expected)

    client(s3_server).put(f"{corpus}/", f"{s3}/in/", recursive=True)
    for engine in ("--workers", "2"), ():
        out = f"{s3}/from store{len(engine)}"
        tag([f"{s3}/in/*"], out, tiny_bundle, *engine)
        found = without_source(all_rows(fetched(s3_server, out, tmp_path / f"2{len(engine)}")))
        assert_same_rows(found, without_source(expected))


def test_options_in_place_of_the_environment_and_no_secret_in_what_is_written(corpus, tmp_path, tiny_bundle, s3_server):
    out = f"s3://{BUCKET}{tmp_path}/out"
    options = [f"s3.key={KEY}", f"s3.secret={SECRET}", f's3.client_kwargs={{"endpoint_url": "{s3_server.endpoint}"}}']
    given = [part for option in options for part in ("--storage-option", option)]
    printed = tag([corpus / "*.jsonl"], out, tiny_bundle, *given)
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
    first = subprocess.Popen(command([corpus / "*"], s3, tiny_bundle), stdout=subprocess.DEVNULL)
    fs, path = client(s3_server), s3.removeprefix("s3://")
    while not fs.exists(f"{path}/.lock-00000001"):
        assert first.poll() is None
        time.sleep(0.05)
    said = tag([corpus / "*"], s3, tiny_bundle, code=5)
    assert "[output.busy]" in said
    assert f"process {first.pid} on" in said
    assert first.wait(200) == 0


@pytest.mark.parametrize(
    ("inputs", "output", "environment", "said"),
    [
        ("{corpus}/*", "s3://no-such-bucket/out", {}, "[url.no_bucket] bucket s3://no-such-bucket"),
        ("s3://no-such-bucket/*", "{out}", {}, "[url.no_bucket] bucket s3://no-such-bucket"),
        ("s3://no-such-bucket/a.jsonl", "{out}", {}, "[url.no_bucket] bucket s3://no-such-bucket"),
        ("{s3}/none/*.jsonl", "{out}", {}, "[input.no_match] no file matches s3://"),
        ("{corpus}/*", "s3://test/out", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "[output.not_writable]"),
        ("s3://test/*", "{out}", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "[input.not_readable]"),
        ("s3://test/a.jsonl", "{out}", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "[input.not_readable]"),
        ("{corpus}/*", "s3://test/out", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "[output.not_writable]"),
        ("s3://test/*", "{out}", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "[input.not_readable]"),
        ("{corpus}/*", "s4://test/out", {}, "[url.unusable] s4://test/out"),
        ("s3:/test/*", "{out}", {}, "[url.unusable] s3:/test/*"),
    ],
)
def test_bad_input_is_one_coded_message_within_seconds(
    inputs, output, environment, said, corpus, tmp_path, tiny_bundle, s3
):
    places = {"corpus": corpus, "out": tmp_path / "out", "s3": s3}
    start = time.monotonic()
    # What a store that is back, or another secret, would mend may be tried again.
    code = 3 if "not_writable" in said or "not_readable" in said else 1
    printed = tag([inputs.format(**places)], output.format(**places), tiny_bundle, code=code, **environment)
    assert said in printed
    assert time.monotonic() - start < 45


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "[storage.failed]"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "[storage.failed] storage failed: Could not connect"),
        ({}, "[output.not_a_job]"),
    ],
)
def test_status_of_what_cannot_be_reached_is_one_coded_message(environment, said, s3):
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "status", s3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == (3 if environment else 1)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_upload_in_parts_outlives_a_killed_server(tmp_path):
    """The object is never there in part, and no parts stay."""
    (tmp_path / "seaweed").mkdir()
    content = os.urandom(1 << 20) * 120  # more than one part
    with running(tmp_path / "seaweed") as server, server.in_use(), pytest.MonkeyPatch.context() as patch:
        url, sizes = f"s3://{BUCKET}/big/x.bin", set()
        make_folder(f"s3://{BUCKET}/big")
        publish_bytes(url, b"old")
        over = threading.Event()

        def watch():
            fs = client(server)
            while not over.wait(0.1):
                try:
                    sizes.add(fs.info(url)["size"])
                except Exception:  # while the server is down
                    continue

        with ThreadPoolExecutor(2) as pool:
            watched = pool.submit(watch)
            upload = pool.submit(publish_bytes, url, content)
            wait_for(lambda: "big/x.bin" in unfinished(server), upload)
            server.kill()
            time.sleep(2)
            server.start()
            upload.result()
            over.set()
            watched.result()
        assert sizes <= {3, len(content)}
        assert digest(read_all([url])[0]) == digest(content)

        patch.setattr(faults, "PATIENCE", 0.5)
        with ThreadPoolExecutor(1) as pool:
            upload = pool.submit(publish_bytes, f"s3://{BUCKET}/big/y.bin", content)
            wait_for(lambda: "big/y.bin" in unfinished(server), upload)
            server.kill()
            with pytest.raises(PipelineError, match=r"output.not_writable"):
                upload.result()
        server.start()
        assert sorted(names_in(f"s3://{BUCKET}/big", ".bin")) == ["x"]
        patch.setattr(faults, "PATIENCE", 60.0)
        assert "big/y.bin" in unfinished(server)
        remove_scratch([f"s3://{BUCKET}/big"])
        assert not unfinished(server)
        publish_bytes(f"s3://{BUCKET}/big/y.bin", content)
        assert sorted(names_in(f"s3://{BUCKET}/big", ".bin")) == ["x", "y"]


def unfinished(server):
    return {upload["Key"] for upload in client(server).list_multipart_uploads(BUCKET)}


def wait_for(what, upload):
    deadline = time.monotonic() + 60
    while not what():
        assert not upload.done()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def digest(content):
    return hashlib.blake2b(content).hexdigest()


def test_a_run_during_which_the_server_is_killed_and_the_same_command_again(corpus, tmp_path, tiny_bundle):
    tag([corpus / "*"], tmp_path / "local", tiny_bundle)
    expected = all_rows(tmp_path / "local")
    (tmp_path / "seaweed").mkdir()
    with running(tmp_path / "seaweed") as server:
        out = f"s3://{BUCKET}/out"
        run = subprocess.Popen(
            command([corpus / "*"], out, tiny_bundle), env=os.environ | server.environment, stdout=subprocess.DEVNULL
        )
        fs = client(server)
        while not fs.exists(f"{BUCKET}/out/annotations"):
            assert run.poll() is None
            time.sleep(0.05)
        server.kill()
        time.sleep(3)
        server.start()
        assert run.wait(200) == 0  # It has patience.
        assert "Nothing to do" in tag([corpus / "*"], out, tiny_bundle, **server.environment)
        assert_same_rows(all_rows(fetched(server, out, tmp_path / "1")), expected)


@pytest.fixture
def stumbling(s3_server, s3):
    from tests.faults.proxy import FaultyProxy

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
