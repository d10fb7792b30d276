"""Detection of documents with the same id in different shards, in bounded memory.

Within a shard, the reader rejects the second document with an id. Across shards no worker sees both, so both are
tagged, and the report shows their number. Ids are hashed into partitions on local scratch disk by their first bits,
and each partition is small enough to sort in memory.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import numpy as np

from pipelines.output.layout import table_path
from pipelines.report.tables import table_batches
from schemas import DOCUMENTS

_PARTITIONS = 64  # with a billion documents a partition has 250 MB (16 bytes per document)
_SHOWN = 10


def duplicate_ids(output: str, shards: Callable[[], Iterable[str]]) -> tuple[int, list[str]]:
    """Return the number of documents whose id occurs in an earlier shard, and some of these ids.

    Args:
        output: the output folder.
        shards: returns the names of finished shards; called a second time if there are duplicates.
    """
    with ExitStack() as stack:
        parts = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(_PARTITIONS)]
        for _, hashes in _hashes(output, shards()):
            for number in np.unique(hashes[:, 0] % _PARTITIONS):
                parts[number].write(hashes[hashes[:, 0] % _PARTITIONS == number].tobytes())
        extra = 0
        repeated: set[bytes] = set()
        for part in parts:
            part.seek(0)
            values = np.frombuffer(part.read(), np.dtype("V16"))
            unique, counts = np.unique(values, return_counts=True)
            extra += len(values) - len(unique)
            for value in unique[counts > 1][: _SHOWN - len(repeated)]:
                repeated.add(value.tobytes())
    return extra, _examples(output, shards(), repeated) if repeated else []


def _examples(output: str, shards: Iterable[str], repeated: set[bytes]) -> list[str]:
    found: dict[bytes, str] = {}
    for ids, hashes in _hashes(output, shards):
        for document_id, value in zip(ids, hashes, strict=True):
            if value.tobytes() in repeated:
                found[value.tobytes()] = document_id
        if len(found) == len(repeated):
            break
    return sorted(found.values())


def _hashes(output: str, shards: Iterable[str]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield ids and their hashes, uint8 [n, 16], of documents that were not rejected."""
    for shard in shards:
        for batch in table_batches(table_path(output, DOCUMENTS.name, shard), ["document_id", "status"]):
            kept = [
                document_id
                for document_id, status in zip(*(column.to_pylist() for column in batch.columns), strict=True)
                if status != "rejected"
            ]
            digests = b"".join(hashlib.blake2b(name.encode(), digest_size=16).digest() for name in kept)
            yield kept, np.frombuffer(digests, np.uint8).reshape(-1, 16)
