import errno
import io
from pathlib import PurePosixPath

import fsspec
import pyarrow.parquet as pq
import pytest

from pipelines.errors import PipelineError
from pipelines.storage import (
    ContentIdentity,
    StorageError,
    absolute,
    exists,
    faults,
    folders,
    is_storage_error,
    listing,
    make_folder,
    names_in,
    open_input,
    option_names,
    publish,
    publish_bytes,
    read_all,
    remove,
    remove_scratch,
    resolve,
    use_options,
)
from pipelines.storage.globs import Pattern
from pipelines.storage.options import options_for
from pipelines.storage.outputs import _abort_uploads


@pytest.fixture(autouse=True)
def no_options():
    yield
    use_options([])


def put(url, content=b"x"):
    fs, path = fsspec.core.url_to_fs(url)
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(path, content)


def test_publish_shows_all_or_nothing(root):
    url = f"{root}/out/x.bin"
    put(f"{root}/out/other")
    with publish(url) as file:
        file.write(b"half")
        assert list(names_in(f"{root}/out", ".bin")) == []
        file.write(b" whole")
    assert read_all([url]) == [b"half whole"]
    with pytest.raises(ZeroDivisionError), publish(url) as file:
        file.write(b"other" * (1 // 0))
    assert read_all([url]) == [b"half whole"]
    assert list(names_in(f"{root}/out", ".bin")) == ["x"]


def test_failed_publish_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError), publish(f"{tmp_path}/x.parquet"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_publish_into_what_is_no_folder_is_a_coded_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"output.not_writable.*is a file, not a folder"):
        publish_bytes(f"{tmp_path}/file/x.json", b"")


def test_scratch_of_dead_processes_is_removed_and_nothing_else(tmp_path):
    (tmp_path / ".x.parquet.1a2b3c4d.scratch").write_text("")
    (tmp_path / ".keep").write_text("")
    (tmp_path / "x.parquet").write_text("")
    remove_scratch([str(tmp_path), str(tmp_path / "missing")])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".keep", "x.parquet"]


def test_content_identity_sees_a_change(root):
    def identity(*ranges):
        with open_input(f"{root}/a") as file:
            return ContentIdentity(f"{root}/a", file).of(ranges)

    put(f"{root}/a", b"one two")
    before = identity((0, 7))
    assert identity((0, 7)) == before
    put(f"{root}/a", b"one 2wo")
    assert identity((0, 7)) != before


def test_local_content_identity_is_of_the_range(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"same1 other")
    with open(path, "rb") as file:
        identity = ContentIdentity(str(path), file)
        first = identity.of([(0, 5)])
        assert identity.of([(0, 2), (2, 5)]) == first
        assert identity.of([(1, 6)]) != first


def test_arrow_errors_are_no_storage_faults():
    assert not is_storage_error(OSError("Corrupt snappy compressed data."))
    assert is_storage_error(FileNotFoundError("gone"))
    assert is_storage_error(OSError(28, "No space left on device"))


def test_brackets_and_colons_in_an_output_are_names(root):
    urls = [f"{root}/run [1]::b/{name}.json" for name in "ab"]
    make_folder(f"{root}/run [1]::b")
    for url in urls:
        publish_bytes(url, url[-6:].encode())
    assert read_all(urls) == [b"a.json", b"b.json"]
    assert list(names_in(f"{root}/run [1]::b", ".json")) == ["a", "b"]
    assert exists(urls[0])
    remove(urls[0])
    assert not exists(urls[0])


def test_a_relative_path_is_local_whatever_it_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("a::b") == f"{tmp_path}/a::b"
    assert absolute("s3::b") == f"{tmp_path}/s3::b"
    assert absolute("file:b") == f"{tmp_path}/file:b"
    assert absolute("a//b/../c/") == f"{tmp_path}/a/c"
    (tmp_path / "link").symlink_to("a::b")
    assert absolute("link/x") == f"{tmp_path}/a::b/x"


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("nosuchstore://x", ""),
        ("simplecache::memory://x", "Stores within stores"),
        ("zip://a::/b.zip", "Stores within stores"),
        ("missing://x", "pip install 'spanmarker-pipelines[missing]'"),
    ],
)
def test_unusable_urls_are_coded_errors(url, remedy, monkeypatch):
    monkeypatch.setitem(faults._EXTRAS, "missing", "missing")
    fsspec.register_implementation("missing", "no_such_package.Store", clobber=True)
    with pytest.raises(PipelineError) as caught:
        absolute(url)
    assert caught.value.code == "url.unusable"
    assert caught.value.values["url"] == url
    assert caught.value.values["reason"]
    assert remedy in str(caught.value)


def test_a_store_without_credentials_is_a_coded_error(monkeypatch):
    class NoCredentialsError(Exception):  # botocore's is no OSError either
        pass

    def fail(*_, **__):
        raise NoCredentialsError("Unable to locate credentials")

    for name in ("ls", "exists", "info", "makedirs", "put_file"):
        monkeypatch.setattr(fsspec.get_filesystem_class("memory"), name, fail)
    with pytest.raises(PipelineError, match=r"url.unusable.*unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        list(Pattern("memory://x/*.txt").find())
    with pytest.raises(PipelineError, match=r"url.unusable.*unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        list(Pattern("memory://x/a.txt").find())
    with pytest.raises(PipelineError, match=r"url.unusable.*unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        make_folder("memory://x/out")
    with pytest.raises(PipelineError, match=r"url.unusable.*unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        publish_bytes("memory://x/out", b"")


def test_options_are_json_or_strings_for_all_stores_or_one_kind():
    s3 = ['s3a.client_kwargs={"endpoint_url": "http://x"}', "s3.key=a=b", "s3.n="]
    use_options([*s3, "anon=true", "az.account_name=x"])
    assert option_names() == ["anon", "az.account_name", "s3.client_kwargs", "s3.key", "s3.n"]
    given = options_for("s3")
    assert given.pop("client_kwargs") == {"endpoint_url": "http://x"}
    assert given.pop("anon") is True
    assert (given.pop("key"), given.pop("n")) == ("a=b", "")
    assert options_for("s3a") == options_for("s3")
    assert options_for("abfs") == {"anon": True, "account_name": "x", "use_listings_cache": False}
    assert options_for("memory") == {"anon": True}


def test_options_add_to_the_defaults_that_they_replace_in_part(monkeypatch):
    use_options(['s3.config_kwargs={"read_timeout": 99}', "use_listings_cache=true"])
    assert options_for("s3")["config_kwargs"] == {
        "connect_timeout": 3,
        "read_timeout": 99,
        "retries": {"mode": "standard", "total_max_attempts": 1},
    }
    assert options_for("s3")["use_listings_cache"] is True
    use_options([])
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"connect_timeout": 7}, "key": "configured"})
    assert options_for("s3")["config_kwargs"]["connect_timeout"] == 7
    assert options_for("s3")["config_kwargs"]["retries"]["total_max_attempts"] == 1
    assert "key" not in options_for("s3")  # fsspec adds it by itself


@pytest.mark.parametrize("option", ["hunter2", "=hunter2", "s3.=hunter2", "nostore.key=hunter2", "a b=hunter2"])
def test_a_malformed_option_is_refused_without_its_value(option):
    with pytest.raises(PipelineError) as caught:
        use_options(["s3.key=fine", option])
    assert caught.value.code == "storage.bad_option"
    assert "hunter2" not in str(caught.value)
    assert option_names() == []


def test_options_reach_the_store(monkeypatch):
    seen = {}

    class Seen(fsspec.get_filesystem_class("memory")):
        protocol = "seen"
        cachable = False

        def __init__(self, *args, **options):
            seen.update(options)
            super().__init__(*args, **options)

    fsspec.register_implementation("seen", Seen, clobber=True)
    use_options(["seen.secret=hunter2", "s3.key=other"])
    resolve("seen://x")
    assert seen == {"secret": "hunter2"}


def test_a_url_that_pathlib_took_a_slash_from_is_refused():
    with pytest.raises(PipelineError, match=r"url.unusable.*s3://bucket/x as a string"):
        absolute(str(PurePosixPath("s3://bucket/x")))
    assert absolute("/s3:/x") == "/s3:/x"


def test_a_listing_is_sorted_in_bounded_memory(root, monkeypatch):
    monkeypatch.setattr(folders, "RUN", 3)
    names = ["a", "a b", "a!", "a-b", "a.c", "a.txt", "aé", "b", "z😀", "10", "9"]
    for name in names:
        put(f"{root}/x/{name}" + ("/below" if name in ("a-b", "a.c", "b") else ""))
    fs, path = resolve(f"{root}/x")
    found = list(listing(fs, path))
    assert [entry.path for entry in found] == [f"{path}/{name}" for name in sorted(names)]
    assert {entry.path[len(path) + 1 :] for entry in found if entry.kind == "directory"} == {"a-b", "a.c", "b"}
    assert sorted(found) == sorted(folders.entries(fs, path))
    assert list(listing(fs, f"{path}/none")) == []


class BotoError(Exception):
    """As botocore's, which are no OSErrors."""


BotoError.__module__ = "botocore.exceptions"


def boto_error(name, message="Connection was closed"):
    return type(name, (BotoError,), {"__module__": "botocore.exceptions"})(message)


class AioHttpError(OSError):
    """As aiohttp's, some of which are OSErrors too."""


AioHttpError.__module__, AioHttpError.__name__ = "aiohttp.client_exceptions", "ClientError"


class Failing(io.BytesIO):
    def __init__(self, error):
        super().__init__(b"PAR1" * 1000)
        self.error = error

    def read(self, *_):
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (boto_error("HTTPClientError"), StorageError),
        (boto_error("ConnectionError"), StorageError),
        (AioHttpError("Cannot connect"), StorageError),
        (OSError(errno.EINVAL, "400"), StorageError),
        (OSError("Forbidden"), StorageError),
        (TimeoutError("slow"), TimeoutError),
        (FileNotFoundError("x"), FileNotFoundError),
    ],
)
def test_what_a_store_raises_while_it_is_read_is_no_damage(error, kind, monkeypatch):
    """s3fs raises a plain OSError(EINVAL), Arrow's for damage, and botocore's own errors."""
    monkeypatch.setattr(faults, "PATIENCE", 0.0)
    put("memory://stumbles/x", b"0123456789" * 100_000)
    with open_input("memory://stumbles/x") as file:
        assert file.read(5) == b"01234"

        file.raw._file = Failing(error)
        with pytest.raises(kind) as caught:
            file.read()
        assert is_storage_error(caught.value)
        with pytest.raises(kind):  # through Arrow too
            pq.ParquetFile(file)


def test_a_reader_goes_on_after_a_fault_that_passes(monkeypatch):
    put("memory://stumbles/y", bytes(range(256)) * 8192)
    with open_input("memory://stumbles/y") as file:
        inner, calls = file.raw._file, []
        read = inner.read

        def stumble(size):
            calls.append(size)
            if len(calls) % 2:
                raise boto_error("HTTPClientError")
            return read(size)

        monkeypatch.setattr(faults.time, "sleep", lambda _: None)
        monkeypatch.setattr(inner, "read", stumble)
        assert file.read() == bytes(range(256)) * 8192
        assert len(calls) > 2


def test_patience_is_long_only_with_a_store_that_was_reached(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(faults.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(faults.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(faults, "_reached", set())
    fs, _ = resolve("memory://x")
    slow_down = OSError(errno.EBUSY, "SlowDown")

    def waited(error, fs=fs):
        def fail():
            raise error

        start = now[0]
        with pytest.raises(type(error)):
            faults.with_retries(fs, fail)
        return now[0] - start

    assert waited(slow_down, resolve("/x")[0]) == 0

    assert faults.FIRST_PATIENCE < waited(slow_down) < 20
    assert faults.with_retries(fs, lambda: 1) == 1
    assert faults.PATIENCE < waited(slow_down) < faults.PATIENCE + 10
    assert waited(OSError(errno.EINVAL, "400")) == waited(PermissionError("403")) == waited(ValueError("bug")) == 0


def test_uploads_that_can_not_be_aborted_are_listed_once():
    """By a store that answers an abort with a well done, and goes on listing the upload."""
    asked = []

    class Stubborn:
        def split_path(self, path):
            return "bucket", "out", None

        def call_s3(self, method, **where):
            asked.append((method, where.get("KeyMarker"), where.get("Key")))
            if method != "list_multipart_uploads":
                raise FileNotFoundError("NoSuchUpload")
            first = "KeyMarker" not in where
            more = {"NextKeyMarker": "out/a", "NextUploadIdMarker": "1"} if first else {}
            return {"Uploads": [{"Key": "out/a" if first else "out/b", "UploadId": "1"}], "IsTruncated": first, **more}

    _abort_uploads(Stubborn(), "bucket/out")
    listed, abort = "list_multipart_uploads", "abort_multipart_upload"
    assert asked == [(listed, None, None), (abort, None, "out/a"), (listed, "out/a", None), (abort, None, "out/b")]
