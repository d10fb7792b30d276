"""Bytes read from a Parquet file with one row group, against its size: `python -m benchmarks.row_groups [MEGABYTES]`.

The shards of the file are planned, read and checked for changes as in a run. The bytes are counted by the kernel for a
local file, and at the file of the store for an object.
"""

import sys
import tempfile
import time
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.memory import MemoryFile

from pipelines.planning.documents import plan_shards
from pipelines.planning.shard_sizes import ShardSizes
from pipelines.stages.read import read
from pipelines.storage.fingerprint import content_now
from pipelines.task import Columns

COLUMNS = Columns("id", "text")
_ROW_BYTES = 800


def write(path: Path, megabytes: int) -> None:
    """Write a file with one row group of texts that hardly compress.

    Args:
        path: the file.
        megabytes: its approximate size.
    """
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .", np.uint8)
    random = np.random.default_rng(1)
    texts = [letters[random.integers(0, 64, _ROW_BYTES)].tobytes().decode() for _ in range(megabytes * 1330)]
    table = pa.table({"id": pa.array(np.arange(len(texts)).astype(str)), "text": texts})
    pq.write_table(table, path, row_group_size=len(texts), compression="zstd")


def read_all(url: str) -> tuple[int, int]:
    """Read all shards of a file as a worker does, and return the numbers of shards and documents.

    Args:
        url: the file.
    """
    options = {"output": "/nowhere", "columns": COLUMNS, "shard_sizes": ShardSizes(4 << 20), "job_digest": "j"}
    shards = list(plan_shards([url], **options))
    documents = 0
    for shard in shards:
        documents += sum(len(batch.documents) for batch in read(shard, COLUMNS))
        assert content_now(shard, "id", "text") == shard.content
    return len(shards), documents


def _kernel_bytes() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


class _CountingFile(MemoryFile):
    n_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        _CountingFile.n_bytes += len(data)
        return data


def main() -> None:
    """Print a table of the bytes read."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.parquet"
        write(path, megabytes)
        size = path.stat().st_size
        time.sleep(2.5)  # A file that changed a moment ago is hashed for each shard.
        print("| where | file, MB | shards | read, MB | read / size | seconds |\n| --- | --- | --- | --- | --- | --- |")
        store = fsspec.filesystem("memory")
        store.store["/bench/one.parquet"] = _CountingFile(store, "/bench/one.parquet", path.read_bytes())
        for where, url in (("local", str(path)), ("store", "memory://bench/one.parquet")):
            before, start = _kernel_bytes(), time.monotonic()
            _CountingFile.n_bytes = 0
            shards, _ = read_all(url)
            n_bytes = _kernel_bytes() - before if where == "local" else _CountingFile.n_bytes
            seconds = time.monotonic() - start
            numbers = f"{size / 1e6:.0f} | {shards} | {n_bytes / 1e6:,.0f} | {n_bytes / size:.1f} | {seconds:.1f}"
            print(f"| {where} | {numbers} |")


if __name__ == "__main__":
    main()
