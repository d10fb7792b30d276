import gzip
import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages import read as reading
from pipelines.stages.read import read
from pipelines.task import Columns
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import documents, write_jsonl, write_parquet


def read_all(*patterns, **options):
    """Return {id: text} and [(source_row, code, id)] of all shards, in order."""
    texts, rejects = {}, []
    for shard in shards(*patterns, **options):
        for batch in read(shard, Columns("id", "text")):
            texts |= zip(batch.documents["document_id"].to_pylist(), batch.documents["text"].to_pylist(), strict=True)
            rejects += [(reject.source_row, reject.code, reject.document_id) for reject in batch.rejects]
    return texts, rejects


def expected(records):
    return {record["id"]: record["text"] for record in records}


@pytest.mark.parametrize("limit", [1, 200, 1 << 20])
@pytest.mark.parametrize("ending", ["jsonl", "parquet", "jsonl.gz", "jsonl.zst"])
def test_every_format_gives_each_document_once(tmp_path, ending, limit):
    records = documents(50)
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        write_parquet(path, records, row_group_size=15)
    else:
        content = write_jsonl(tmp_path / "plain", records).read_bytes()
        pack = {"jsonl": bytes, "jsonl.gz": gzip.compress, "jsonl.zst": zstandard.ZstdCompressor().compress}[ending]
        path.write_bytes(pack(content[:999]) + pack(content[999:]))  # gzip and zstd files may be joined end to end
    assert read_all(path, max_shard_bytes=limit) == (expected(records), [])


@given(texts=st.lists(st.text(max_size=30), max_size=12), limit=st.integers(1, 200), group=st.integers(1, 5))
def test_texts_come_exactly_as_they_are(tmp_path_factory, texts, limit, group):
    folder = tmp_path_factory.mktemp("read")
    records = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    write_jsonl(folder / "a.jsonl", records)
    assert read_all(folder / "a.jsonl", max_shard_bytes=limit) == (expected(records), [])
    if records:
        write_parquet(folder / "a.parquet", records, row_group_size=group)
        assert read_all(folder / "a.parquet", max_shard_bytes=limit) == (expected(records), [])


def test_faulty_json_records_are_rejected_with_offset_and_id(tmp_path):
    lines = [
        b'{"id": "good", "text": "one"}',
        b'{"id": "n", "text": null}',
        b'{"id": null, "text": "x"}',
        b'{"id": "m"}',
        b'{"text": "x"}',
        b'{"id": "cut", "te',
        b'["id", "text"]',
        b'{"id": "latin", "text": "caf\xe9"}',
        b'{"id": "number", "text": 7}',
        b'{"id": true, "text": "x"}',
        b'{"id": 1.5, "text": "x"}',
        b'{"id": "half", "text": "\\ud83d"}',
        b'{"id": "\\udc00", "text": "x"}',
        b'{"id": "good", "text": "two"}',
        b"   ",
        b"[" * 100_000,
        b'{"id": 7, "text": "seven"}',
        b'{"id": "nul", "text": "a\\u0000b"}',
    ]
    write_jsonl(tmp_path / "a.jsonl", lines)
    offsets = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    texts, rejects = read_all(tmp_path / "a.jsonl")
    assert texts == {"good": "one", "7": "seven", "nul": "a\x00b"}
    assert rejects == [
        (offsets[1], "null_text", "n"),
        (offsets[2], "null_id", None),
        (offsets[3], "missing_field", "m"),
        (offsets[4], "missing_field", None),
        (offsets[5], "broken_json", None),
        (offsets[6], "broken_json", None),
        (offsets[7], "invalid_utf8", "latin"),
        (offsets[8], "not_text", "number"),
        (offsets[9], "bad_id", None),
        (offsets[10], "bad_id", None),
        (offsets[11], "invalid_unicode", "half"),
        (offsets[12], "invalid_unicode", None),
        (offsets[13], "duplicate_id", "good"),
        (offsets[15], "broken_json", None),
    ]


def test_rejects_keep_the_head_of_the_record(tmp_path):
    line = b'{"id": "x", "text": null, "more": "' + b"y" * 10_000 + b'"}'
    write_jsonl(tmp_path / "a.jsonl", [b'{"id": "a", "text": ""}', line])
    (shard,) = shards(tmp_path / "a.jsonl")
    (batch,) = read(shard, Columns("id", "text"))
    assert batch.rejects[0].raw == line[:4096]
    assert batch.documents["text"].to_pylist() == [""]


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(
        b'\xef\xbb\xbf{"id": "1", "text": "x"}\r\n\r\n{"id": "2", "text": "\xef\xbb\xbfy"}\r\n'
    )
    assert read_all(tmp_path / "a.jsonl") == ({"1": "x", "2": "\ufeffy"}, [])
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbftext\r\n")
    assert read_all(tmp_path / "b.txt") == ({"b.txt": "text\r\n"}, [])


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_truncated_compressed_file_keeps_what_is_before_the_damage(tmp_path, ending):
    records = documents(4000)
    content = write_jsonl(tmp_path / "plain", records).read_bytes()
    packed = gzip.compress(content) if ending == "gz" else zstandard.ZstdCompressor().compress(content)
    path = tmp_path / f"a.jsonl.{ending}"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    texts, rejects = read_all(path)
    assert 0 < len(texts) < 4000
    assert texts.items() <= expected(records).items()
    assert [code for _, code, _ in rejects][-1] == "damaged_file"
    assert len(rejects) <= 2  # perhaps the line that was cut, too
    assert content.startswith(
        b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records[: len(texts)])
    )
    assert rejects[-1][0] >= sum(len(json.dumps(r, ensure_ascii=False).encode()) + 1 for r in records[: len(texts)])


def test_not_a_gzip_file_at_all(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"plain text")
    assert read_all(tmp_path / "a.jsonl.gz") == ({}, [(0, "damaged_file", None)])


def test_text_file_of_other_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("café".encode())
    assert read_all(tmp_path / "*.txt") == ({"b.txt": "café"}, [(0, "invalid_utf8", "a.txt")])


def test_parquet_types_nulls_and_invalid_utf8(tmp_path):
    # Arrow writes what it is given, so a Parquet "string" may hold any bytes.
    texts = pa.Array.from_buffers(pa.string(), 4, pa.array([b"ok", None, b"\xff\xfe", b"z"], pa.binary()).buffers())
    table = pa.table({"id": pa.array([1, 2, 3, None], pa.int64()), "text": texts})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_all(tmp_path / "a.parquet") == (
        {"1": "ok"},
        [(1, "null_text", "2"), (2, "invalid_utf8", "3"), (3, "null_id", None)],
    )


def test_dictionary_and_view_columns(tmp_path):
    table = pa.table(
        {
            "id": pa.array(["a", "b"]).dictionary_encode(),
            "text": pa.array(["x", "x"]).cast(pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_all(tmp_path / "a.parquet") == ({"a": "x", "b": "x"}, [])


def test_damaged_row_group_costs_only_its_own_rows(tmp_path):
    records = [{"id": str(n), "text": "".join(random.Random(n).choices("abcdef", k=500))} for n in range(30)]
    path = write_parquet(tmp_path / "a.parquet", records, row_group_size=10, write_page_checksum=True)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(1)
    content = bytearray(path.read_bytes())
    content[chunk.dictionary_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    texts, rejects = read_all(path)
    assert list(texts) == [str(n) for n in (*range(10), *range(20, 30))]
    assert [(row, code) for row, code, _ in rejects] == [(10, "unreadable_rows")]
    (shard,) = shards(path)
    assert [r.n_documents for batch in read(shard, Columns("id", "text")) for r in batch.rejects] == [10]


def test_batches_are_bounded_and_one_large_document_is_fine(tmp_path):
    records = [{"id": str(n), "text": "y" * (10_000_000 if n == 3 else 100_000)} for n in range(12)]
    for path in (write_jsonl(tmp_path / "a.jsonl", records), write_parquet(tmp_path / "a.parquet", records)):
        (shard,) = shards(path, max_shard_bytes=1 << 30)
        sizes = [sum(map(len, batch.documents["text"].to_pylist())) for batch in read(shard, Columns("id", "text"))]
        assert sum(sizes) == 11 * 100_000 + 10_000_000
        assert sum(size > reading.MAX_BATCH_BYTES + 100_000 for size in sizes) == 1


def test_source_row_finds_the_record_again(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", documents(30))
    content = path.read_bytes()
    for shard in shards(path, max_shard_bytes=400):
        for batch in read(shard, Columns("id", "text")):
            for row in batch.documents.to_pylist():
                line = content[row["source_row"] :].split(b"\n", 1)[0]
                assert json.loads(line)["id"] == row["document_id"]


def test_ids_are_unique_within_a_batch_also_when_old_ones_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MAX_IDS", 3)
    ids = ["a", "b", "c", "a", "d", "b", "e"]
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"id": name, "text": name * 2} for name in ids])
    (shard,) = shards(path)
    (batch,) = read(shard, Columns("id", "text"))
    assert batch.documents["document_id"].to_pylist() == ["a", "b", "c", "d", "e"]
    assert [(reject.code, reject.document_id) for reject in batch.rejects] == [
        ("duplicate_id", "a"),
        ("duplicate_id", "b"),
    ]
    monkeypatch.setattr(reading, "MAX_BATCH_DOCUMENTS", 3)  # in the next batch, a and b are no longer remembered
    assert [batch.documents["document_id"].to_pylist() for batch in read(shard, Columns("id", "text"))] == [
        ["a", "b", "c"],
        ["a", "d", "b"],
        ["e"],
    ]


def test_a_file_name_that_is_not_utf8_is_stored_in_escapes(tmp_path):
    name = os.fsdecode(b"caf\xe9.jsonl")
    write_jsonl(tmp_path / name, [{"id": "1", "text": "x"}])
    (shard,) = shards(tmp_path / "*.jsonl")
    (batch,) = read(shard, Columns("id", "text"))
    assert batch.documents["source"].to_pylist() == [f"{tmp_path}/caf\\udce9.jsonl"]
