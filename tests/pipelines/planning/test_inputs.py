"""Inputs named as people name them: folders, hidden names, links, several paths."""

import gzip
import os

import fsspec
import pytest

from pipelines.errors import PipelineError
from pipelines.planning import plan
from pipelines.storage.globs import Pattern
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import documents, write_jsonl, write_parquet


def names(folder, *patterns, **options):
    """Names below a folder of the files in the shards."""
    found = shards(*patterns, **options)
    return [
        f"{shard.source}/{name}".rstrip("/").removeprefix(f"{folder}/")
        for shard in found
        for name in shard.files or [""]
    ]


@pytest.fixture
def tree(tmp_path):
    """A folder as other programs leave them."""
    for name in ("a.jsonl", "x.parquet/part-0.jsonl", "deep/er/b.jsonl", ".hidden/c.jsonl", "_temporary/d.jsonl"):
        write_jsonl(tmp_path / "in" / name, documents(2))
    write_parquet(tmp_path / "in" / "x.parquet" / "part-1.parquet", documents(2))
    for name in ("_SUCCESS", "x.parquet/_SUCCESS", "x.parquet/_metadata", ".a.jsonl.crc", "README.pdf", "_e.jsonl"):
        (tmp_path / "in" / name).write_text("no")
    (tmp_path / "in" / "deep" / "t.txt").write_text("text")
    (tmp_path / "in" / "deep" / "u.txt.gz").write_bytes(gzip.compress(b"text"))
    return tmp_path / "in"


BELOW = [
    "a.jsonl",
    "deep/er/b.jsonl",
    "deep/t.txt",
    "deep/u.txt.gz",
    "x.parquet/part-0.jsonl",
    "x.parquet/part-1.parquet",
]


def test_a_folder_is_all_files_of_known_formats_below_it(tree, monkeypatch):
    assert names(tree, tree) == BELOW
    assert names(tree, f"{tree}/") == BELOW
    monkeypatch.chdir(tree)
    assert names(tree, ".") == BELOW
    texts = [shard for shard in shards(tree) if shard.files]
    assert [(shard.source, shard.files, shard.format) for shard in texts] == [
        (str(tree), ("deep/t.txt",), "text"),
        (str(tree), ("deep/u.txt.gz",), "text.gz"),
    ]
    assert names(tree, tree / "x.parquet") == BELOW[4:]
    assert names(tree, tree / "*.parquet") == BELOW[4:]  # Spark's folders have the names of files
    assert names(tree, tree / "x.parquet" / "*") == BELOW[4:]


def test_names_that_begin_with_a_dot_or_an_underscore_match_only_if_spelled(tree):
    assert names(tree, tree / "**" / "*.jsonl") == ["a.jsonl", "deep/er/b.jsonl", "x.parquet/part-0.jsonl"]
    assert names(tree, tree / "_*.jsonl") == ["_e.jsonl"]
    assert names(tree, tree / "_*" / "*.jsonl") == ["_temporary/d.jsonl"]
    assert names(tree, tree / "**" / "_*.jsonl") == ["_e.jsonl"]
    assert names(tree, tree / ".hid*" / "**" / "*.jsonl") == [".hidden/c.jsonl"]
    assert names(tree, tree / "_temporary") == ["_temporary/d.jsonl"]
    write_jsonl(tree / "_temporary" / "_f.jsonl", documents(2))
    assert names(tree, tree / "_*" / "*") == ["_temporary/d.jsonl"]
    pattern = Pattern(f"{tree}/_*/*")
    assert pattern.names(f"{tree}/_temporary/d.jsonl")
    assert not pattern.names(f"{tree}/_temporary/_f.jsonl")


def test_what_a_shell_expands(tree):
    expanded = [tree / name for name in sorted(os.listdir(tree)) if not name.startswith(".") and name != "README.pdf"]
    assert tree / "_SUCCESS" in expanded
    write_jsonl(tree / "_e.jsonl", documents(2))
    assert names(tree, *expanded) == ["_e.jsonl", "_temporary/d.jsonl", *BELOW]
    with pytest.raises(PipelineError, match=r"input.unknown_format"):
        shards(tree / "_SUCCESS")
    with pytest.raises(PipelineError, match=r"(?s)input.unknown_format.*README.pdf"):
        shards(*expanded, tree / "README.pdf")


def test_a_pattern_that_matches_only_folders_names_them(tmp_path):
    for year in ("2024", "2025"):
        write_jsonl(tmp_path / f"year={year}" / "a.jsonl", documents(2))
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(PipelineError) as caught:
        shards(tmp_path / "*")
    assert caught.value.code == "input.only_folders"
    assert caught.value.values["folders"] == f"{tmp_path}/year=2024, {tmp_path}/year=2025"
    assert len(shards(caught.value.values["example"])) == len(shards(tmp_path)) == 2
    with pytest.raises(PipelineError, match=r"input.no_match"):
        shards(tmp_path / "*.csv")


def test_marker_files_of_other_tools_are_no_inputs(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", documents(2))
    names_ = (
        *("_committed_123", "_started_123", "_SUCCESS", "_metadata", "_common_metadata", "_delta_log/0.json"),
        *(
            "_temporary/0/b.jsonl",
            ".part-0.snappy.parquet.crc",
            "._SUCCESS.crc",
            ".hoodie/hoodie.properties",
            ".DS_Store",
        ),
        *("_spark_metadata/0", "_symlink_format_manifest/manifest", "$folder$", "a_$folder$", "deep_$folder$"),
    )
    for name in names_:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("{}")
    for pattern in (tmp_path, tmp_path / "*", tmp_path / "**"):
        assert names(tmp_path, pattern) == ["a.jsonl"]


def test_links_count_once_below_a_folder(tree):
    (tree / "again.jsonl").symlink_to("a.jsonl")
    (tree / "loop").symlink_to(".")
    (tree.parent / "other").symlink_to("in")
    assert names(tree, tree) == BELOW
    assert names(tree, tree.parent / "other", tree, tree / "a.jsonl") == BELOW


def test_a_folder_of_a_store():
    fs = fsspec.filesystem("memory")
    for name in ("a.jsonl", "b/c.jsonl.gz", "_SUCCESS", "b/_x.jsonl", "b/d.bin"):
        fs.pipe(f"/tree/{name}", b"" if name.endswith("gz") else b'{"id": 1, "text": "x"}\n')
    try:
        for spelling in ("memory://tree", "memory://tree/"):
            found = [shard.source for shard in shards(spelling)]
            assert found == ["memory:///tree/a.jsonl", "memory:///tree/b/c.jsonl.gz"]
    finally:
        fs.rm("/tree", recursive=True)


def test_a_folder_holds_no_output(tree):
    with pytest.raises(PipelineError, match=r"input.inside_output"):
        shards(tree, output=str(tree / "deep"))


def test_a_file_that_must_not_be_read_costs_itself(tmp_path, monkeypatch):
    bad, good = (write_jsonl(tmp_path / name, documents(2)) for name in ("a.jsonl", "b.jsonl"))
    ranges = plan.file_shards

    def refused(path, *args):
        if path == str(bad):
            raise PermissionError(13, "Permission denied", path)
        return ranges(path, *args)

    monkeypatch.setattr(plan, "file_shards", refused)
    assert [(shard.format, shard.content == "") for shard in shards(bad, good)] == [
        ("unreadable", True),
        ("jsonl", False),
    ]
    with pytest.raises(PipelineError, match=r"input.not_readable"):
        shards(bad)
