import fsspec
import pytest

from pipelines.errors import PipelineError
from pipelines.storage import (
    ContentIdentity,
    absolute,
    find,
    is_storage_fault,
    names_in,
    open_input,
    publish,
    publish_bytes,
    read_all,
    remove_scratch,
)


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://test{tmp_path}"


def put(url, content=b"x"):
    fs, path = fsspec.core.url_to_fs(url)
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(path, content)


def found(pattern, root):
    return [path.removeprefix(absolute(root) + "/") for path, _ in find(pattern)]


def test_find_is_sorted_by_components_and_skips_dot_files(root):
    for name in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", ".hidden.txt", ".dot/x.txt", "a/y.md"):
        put(f"{root}/{name}")
    assert found(f"{root}/*.txt", root) == ["a.txt", "b.txt"]
    assert found(f"{root}/**/*.txt", root) == ["a/b/c.txt", "a/z.txt", "a.txt", "b.txt"]
    assert found(f"{root}/*/*.*", root) == ["a/y.md", "a/z.txt"]
    assert found(f"{root}/a.txt", root) == ["a.txt"]
    assert found(f"{root}/nothing/*.txt", root) == []


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
