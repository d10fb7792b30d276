"""Texts come back as they were read, whatever they were read from, or not at all."""

import bz2
import gzip
import json
import lzma
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages.read import read
from pipelines.task import Columns
from pipelines.texts import sources as module
from pipelines.texts.sources import Sources, agrees
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import documents, write_jsonl, write_parquet

KINDS = [
    "jsonl",
    "ndjson",
    "json",
    "jsonl.gz",
    "json.gz",
    "jsonl.zst",
    "ndjson.bz2",
    "jsonl.xz",
    "parquet",
    "txt",
    "md",
]
_PACK = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress, "bz2": bz2.compress, "xz": lzma.compress}


def write(folder, kind, records, bom=b""):
    """Write records in a format; return the patterns of the files."""
    if kind in ("txt", "md"):
        for record in records:
            (folder / f"{record['id']}.{kind}").write_bytes(bom + record["text"].encode())
        return folder / f"*.{kind}"
    path = folder / f"a.{kind}"
    if kind == "parquet":
        write_parquet(path, records, row_group_size=4)
    else:
        content = bom + write_jsonl(folder / "plain", records).read_bytes()
        path.write_bytes(_PACK.get(kind.rpartition(".")[2], bytes)(content))
    return path


def rows_of(*patterns, **options):
    """Return the rows of `documents` that reading gives, with their texts."""
    found = []
    for shard in shards(*patterns, **options):
        for batch in read(shard, Columns("id", "text")):
            for row in batch.documents.to_pylist():
                text = row.pop("text")
                found.append((row | {"shard": shard.name, "n_characters": len(text)}, text))
    return found


def back(rows, seconds=60.0, **options):
    return Sources("/nowhere", "id", "text", ["/"]).texts([row for row, _ in rows], seconds, **options)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_its_texts_back(tmp_path, kind, bom):
    records = [each for each in documents(23) if each["text"] or kind not in ("txt", "md")]
    records[3]["text"] = "\ufeff\r\n\u2028\x00 \U0001f600" + records[3]["text"]
    rows = rows_of(write(tmp_path, kind, records, bom if kind != "parquet" else b""), max_shard_bytes=300)
    assert len(rows) == len(records)
    random.Random(1).shuffle(rows)
    assert [found.text for found in back(rows)] == [text for _, text in rows]
    assert [found.text for found in back(rows[5:6])] == [rows[5][1]]  # alone, from the middle


def test_compressed_texts_come_back(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("é 😀".encode()))
    (tmp_path / "b.txt").write_bytes("é".encode("utf-16"))
    assert [found.text for found in back(rows_of(tmp_path))] == ["é 😀", "é"]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", b"id,text\n1,x\n", "CSV"),
        ("a.tsv.gz", gzip.compress(b"id\ttext\n1\tx\n", mtime=0), "TSV"),
        ("a.json", b'[{"id": 1, "text": "x"}]', "a JSON array"),
        ("a.jsonl.gz", gzip.compress(b'[{"id": 1, "text": "x"}]', mtime=0), "a JSON array"),
        ("a.jsonl", '{"id": 1, "text": "x"}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_the_reason_is_told_where_a_source_is_not_read(tmp_path, name, content, kind):
    (tmp_path / name).write_bytes(content)
    (found,) = back(rows_of(tmp_path / name))
    assert (found.text, found.problem) == (None, f"cannot read {kind} from the middle: {tmp_path}/{name}")


@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=8),
    kind=st.sampled_from(["jsonl", "jsonl.gz", "parquet"]),
    block=st.integers(1, 40),
)
def test_lines_come_back_wherever_blocks_end(tmp_path_factory, texts, kind, block):
    folder = tmp_path_factory.mktemp("blocks")
    rows = rows_of(write(folder, kind, [{"id": n, "text": text} for n, text in enumerate(texts)]))

    def small(file, kind):
        content = b"".join(real(file, kind))
        yield from (content[at : at + block] for at in range(0, len(content), block))

    real = module.content
    module.content = small
    try:
        assert [found.text for found in back(rows)] == texts
    finally:
        module.content = real


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_is_gone_is_told(tmp_path, kind):
    pattern = write(tmp_path, kind, documents(2))
    rows = rows_of(pattern)
    for path in tmp_path.iterdir():
        path.unlink()
    for found in back(rows):
        assert found.text is None
        assert "no longer exists" in found.problem


CHANGES = ["longer", "shorter", "empty", "garbage", "cut", "moved", "other id"]
#: The id of a text file is its name, so another id is another file.
CHANGED = [(kind, change) for kind in KINDS for change in CHANGES if kind not in ("txt", "md") or change != "other id"]


@pytest.mark.parametrize(("kind", "change"), CHANGED)
def test_a_source_that_has_changed_is_never_shown_as_the_old_one(tmp_path, kind, change):
    records = documents(9)
    pattern = write(tmp_path, kind, records)
    rows = [(row, text) for row, text in rows_of(pattern) if text]
    paths = sorted(path for path in tmp_path.iterdir() if path.name != "plain")
    if change in ("longer", "shorter", "other id"):
        for record in records:
            record["text"] = record["text"] + "!" if change == "longer" else record["text"][:-1]
        if change == "other id":
            records = [each | {"id": "x" + each["id"][1:]} for each in documents(9)]
        write(tmp_path, kind, records)
    for path in paths:
        content = path.read_bytes()
        if change == "empty":
            path.write_bytes(b"")
        elif change == "garbage":
            path.write_bytes(random.Random(2).randbytes(len(content)))
        elif change == "cut":
            path.write_bytes(content[: len(content) // 3])
        elif change == "moved":
            path.write_bytes(b"\n" + content)
    for (_, text), found in zip(rows, back(rows), strict=True):
        if change == "cut" and kind not in ("parquet", "txt", "md"):
            assert found.text in (None, text)  # The first lines are still there.
        else:
            assert found.text is None
            assert found.problem


def test_texts_are_read_only_from_files_of_known_formats(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root")
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    row = {"document_id": "secret", "source": str(secret), "source_row": 0, "n_characters": 4, "shard": "s"}
    found = back([(row, ""), (row | {"source": str(pipe)}, ""), (row | {"source": str(tmp_path)}, "")])
    assert [each.text for each in found] == [None, None, None]


def test_what_a_table_does_not_place_is_not_looked_for(tmp_path):
    (tmp_path / "a.txt").write_text("root")
    row = {"document_id": "a", "source": str(tmp_path / "a.txt"), "source_row": 0, "n_characters": 4, "shard": "s"}
    found = back([(row | {"source_row": None}, ""), (row | {"n_characters": 10**9}, ""), (row, "")])
    assert [each.text for each in found] == [None, None, "root"]
    assert "longer than 50,000,000" in found[1].problem


def test_reading_ends_when_the_time_is_over(tmp_path):
    for kind in ("jsonl", "jsonl.gz", "parquet"):
        rows = rows_of(write(tmp_path, kind, documents(9)))
        for found in back(rows, seconds=-1.0):
            assert found.text is None
            assert "time limit" in found.problem


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BESIDE", 1000)
    for kind in ("jsonl", "jsonl.gz"):
        pattern = write(tmp_path, kind, [{"id": "a", "text": "ab"}])
        rows = rows_of(pattern)
        content = b'{"id": "a", "text": "ab", "more": "' + b"x" * 200_000 + b'"}'
        pattern.write_bytes(_PACK.get(kind.rpartition(".")[2], bytes)(content))
        assert back(rows)[0].text is None


def test_parquet_strings_of_all_kinds_come_back(tmp_path):
    texts = ["Ann", "é" * 5, "Ann"]
    for number, kind in enumerate([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]):
        path = tmp_path / f"{number}.parquet"
        table = pa.table({"id": pa.array([1, 2, 3]), "text": pa.array(texts).cast(kind)})
        pq.write_table(table, path, row_group_size=2)
        rows = rows_of(path)
        assert [found.text for found in back(rows)] == texts


def test_a_file_whose_name_is_no_unicode_is_found(tmp_path):
    from pipelines.stages.records import clean
    from tests.support.browsed_output import add_shard, annotation, begin

    source = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")
    with open(source, "w") as file:
        file.write(json.dumps({"id": "a", "text": "Ann"}) + "\n")
    begin(tmp_path / "out")
    shard = add_shard(tmp_path / "out", "a", [annotation("a", 0, 3, "Ann")], source=source)
    row = {"document_id": "a", "source": clean(source), "source_row": 0, "n_characters": 3, "shard": shard}
    assert Sources(str(tmp_path / "out"), "id", "text", [str(tmp_path)]).texts([row], 9)[0].text == "Ann"


def test_some_texts_are_remembered_and_not_all(tmp_path, monkeypatch):
    rows = rows_of(write(tmp_path, "jsonl", documents(9)))
    sources = Sources("/nowhere", "id", "text", ["/"])
    assert all(found.text is not None for found in sources.texts([row for row, _ in rows], 9))
    (tmp_path / "a.jsonl").unlink()
    assert [found.text for found in sources.texts([row for row, _ in rows], 9)] == [text for _, text in rows]
    monkeypatch.setattr(module, "_KEPT_CHARACTERS", 60)
    sources = Sources("/nowhere", "id", "text", ["/"])
    write(tmp_path, "jsonl", documents(9))
    sources.texts([row for row, _ in rows], 9)
    assert sum(map(len, sources._kept.values())) <= 60


@pytest.mark.parametrize(
    "surfaces",
    [[(0, 3, "Bob")], [(7, 12, "York")], [(-4, 0, "York")], [(3, 3, "")], [(0, 3, "Ann"), (100, 104, "York")]],
)
def test_an_entity_that_does_not_stand_where_it_says_is_seen(surfaces):
    assert not agrees("Ann in York", surfaces)
