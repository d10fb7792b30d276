"""Shards of one large row group: the same rows in any order, and the file's bytes about once."""

import os

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile

from pipelines.stages import row_groups
from pipelines.stages.read import read
from pipelines.storage import ContentIdentity
from pipelines.storage.fingerprint import content_now
from pipelines.task import Columns
from tests.pipelines.planning.test_documents import shards
from tests.support.jobs import write_parquet

COLUMNS = Columns("id", "text")
RECORDS = [{"id": number, "text": os.urandom(400).hex()} for number in range(2000)]
OPTIONS = {"row_group_size": 2000, "compression": "none", "use_dictionary": False, "data_page_size": 20_000}


def texts_of(shard) -> dict[str, str]:
    found = {}
    for batch in read(shard, COLUMNS):
        found |= zip(batch.documents["document_id"].to_pylist(), batch.documents["text"].to_pylist(), strict=True)
    return found


def expected(shard) -> dict[str, str]:
    return {str(record["id"]): record["text"] for record in RECORDS[shard.start : shard.end]}


@pytest.fixture
def path(tmp_path):
    return write_parquet(tmp_path / "a.parquet", RECORDS, **OPTIONS)


class CountingFile(MemoryFile):
    n_bytes = 0

    def read(self, size=-1):
        data = super().read(size)
        CountingFile.n_bytes += len(data)
        return data


def test_a_store_is_read_about_once(path, monkeypatch):
    store = fsspec.filesystem("memory")
    content = path.read_bytes()
    monkeypatch.setitem(store.store, "/counted/a.parquet", CountingFile(store, "/counted/a.parquet", content))
    found = shards("memory://counted/a.parquet", max_shard_bytes=100_000)
    assert len(found) > 10
    CountingFile.n_bytes = 0
    for shard in found:
        assert texts_of(shard) == expected(shard)
    assert len(content) * 0.9 < CountingFile.n_bytes < len(content) * 1.3
    assert row_groups._left is None  # the last shard closes the file


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [3, 2, 1, 0], [1, 1, 2, 2]])
def test_rows_do_not_depend_on_the_order_of_shards(path, order):
    found = shards(path, max_shard_bytes=400_000)
    for place in order:
        assert texts_of(found[place]) == expected(found[place])


def test_a_shard_that_was_given_up_is_read_again(path):
    first, second, *_ = shards(path, max_shard_bytes=400_000)
    reading = read(first, COLUMNS)
    next(reading)
    reading.close()
    assert texts_of(first) == expected(first)
    assert texts_of(second) == expected(second)


def test_a_changed_file_is_not_read_on(path):
    first, *_ = shards(path, max_shard_bytes=400_000)
    texts_of(first)
    write_parquet(path, [record | {"text": f"new {record['id']}"} for record in RECORDS], row_group_size=2000)
    second = shards(path, max_shard_bytes=10_000)[1]
    assert texts_of(second) == {
        str(record["id"]): f"new {record['id']}" for record in RECORDS[second.start : second.end]
    }


def test_a_file_is_hashed_once_unless_it_changes(path, monkeypatch):
    os.utime(path, (1, 1))  # Its change time is that of this moment, so nothing is known yet.
    found = shards(path, max_shard_bytes=400_000)
    hashed = []
    real = ContentIdentity.of
    monkeypatch.setattr(ContentIdentity, "of", lambda self, ranges: hashed.append(1) or real(self, ranges))
    for shard in found:
        assert content_now(shard, "id", "text") == shard.content
    assert len(hashed) == len(found)
    hashed.clear()
    monkeypatch.setattr("pipelines.storage.fingerprint._SETTLED_NS", -1)
    for shard in found:
        assert content_now(shard, "id", "text") == shard.content
    assert len(hashed) == 1
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert content_now(found[0], "id", "text") != found[0].content
