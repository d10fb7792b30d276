import os

import pytest

from pipelines.storage import absolute
from pipelines.storage.globs import Pattern
from tests.pipelines.storage.test_storage import put


def found(pattern, root):
    return [match.path.removeprefix(absolute(str(root)) + "/") for match in Pattern(pattern).find()]


def test_find_is_sorted_by_components_and_skips_dot_files(root):
    for name in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", ".hidden.txt", ".dot/x.txt", "a/y.md"):
        put(f"{root}/{name}")
    assert found(f"{root}/*.txt", root) == ["a.txt", "b.txt"]
    assert found(f"{root}/**/*.txt", root) == ["a/b/c.txt", "a/z.txt", "a.txt", "b.txt"]
    assert found(f"{root}/*/*.*", root) == ["a/y.md", "a/z.txt"]
    assert found(f"{root}/a.txt", root) == ["a.txt"]
    assert found(f"{root}/nothing/*.txt", root) == []


def test_a_name_with_brackets_is_taken_literally_if_it_is_there(root):
    put(f"{root}/x [final].jsonl")
    put(f"{root}/x f.jsonl")
    assert found(f"{root}/x [final].jsonl", root) == ["x [final].jsonl"]
    assert found(f"{root}/x [f].jsonl", root) == ["x f.jsonl"]
    assert found(f"{root}/x [[]*.jsonl", root) == ["x [final].jsonl"]


def test_the_folder_of_a_pattern_may_be_a_link_to_a_name_with_brackets(tmp_path):
    put(f"{tmp_path}/real [1]/a.txt")
    (tmp_path / "link").symlink_to("real [1]")
    assert found(f"{tmp_path}/link/*.txt", tmp_path) == ["real [1]/a.txt"]


@pytest.mark.parametrize("pattern", ["*/*.txt", "**/*.txt"])
def test_links_to_folders_are_followed_and_loops_end(tmp_path, pattern):
    put(f"{tmp_path}/out of it/b.txt")
    put(f"{tmp_path}/in/a/a.txt")
    (tmp_path / "in" / "b").symlink_to("../out of it")
    (tmp_path / "in" / "a" / "loop").symlink_to("..")
    (tmp_path / "out of it" / "loop").symlink_to(".")
    matches = list(Pattern(f"{tmp_path}/in/{pattern}").find())
    assert {match.path.removeprefix(f"{tmp_path}/in/") for match in matches} == {"a/a.txt", "b/b.txt"}
    assert {match.real for match in matches} == {f"{tmp_path}/in/a/a.txt", f"{tmp_path}/out of it/b.txt"}


def test_names_says_what_find_yields(tmp_path):
    for name in ("a.txt", ".b.txt", "c/d.txt", "c/.e/f.txt", "g.md"):
        put(f"{tmp_path}/{name}")
    files = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    for pattern in ("*.txt", "**/*.txt", "c/*", "a.txt", "*/*"):
        known = Pattern(f"{tmp_path}/{pattern}")
        assert {path for path in files if known.names(path)} == {
            match.path for match in known.find() if match.kind == "file"
        }
