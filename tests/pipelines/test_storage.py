import fsspec
import pytest

from pipelines import storage
from pipelines.errors import PipelineError
from pipelines.patterns import Pattern
from pipelines.storage import (
    ContentIdentity,
    absolute,
    exists,
    is_storage_fault,
    make_folder,
    names_in,
    open_input,
    publish,
    publish_bytes,
    read_all,
    remove,
    remove_scratch,
)


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
    with pytest.raises(PipelineError, match=r"output.not_writable.*Not a directory"):
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
    assert not is_storage_fault(OSError("Corrupt snappy compressed data."))
    assert is_storage_fault(FileNotFoundError("gone"))
    assert is_storage_fault(OSError(28, "No space left on device"))


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
    monkeypatch.setitem(storage._EXTRAS, "missing", "missing")
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

    for name in ("ls", "exists", "isfile", "makedirs", "put_file"):
        monkeypatch.setattr(fsspec.get_filesystem_class("memory"), name, fail)
    with pytest.raises(PipelineError, match=r"url.unusable.*Unable to locate credentials"):
        list(Pattern("memory://x/*.txt").find())
    with pytest.raises(PipelineError, match=r"url.unusable.*Unable to locate credentials"):
        list(Pattern("memory://x/a.txt").find())
    with pytest.raises(PipelineError, match=r"url.unusable.*Unable to locate credentials"):
        make_folder("memory://x/out")
    with pytest.raises(PipelineError, match=r"url.unusable.*Unable to locate credentials"):
        publish_bytes("memory://x/out", b"")
