"""Texts of web archives: the conversion records of WET and WARC files."""

import io
from collections.abc import Iterator
from typing import Any

from pipelines.stages.blocks import DamagedFile, decompressed
from pipelines.stages.records import MAX_RECORD_BYTES, Reject, raw_head
from pipelines.storage import open_input
from schemas.shards import Shard


def archive_records(shard: Shard) -> Iterator[tuple[int, bytes | None, dict[str, Any]] | Reject]:
    """Yield (index, first bytes, values) for each conversion record; other records hold no plain text.

    Values are the record's headers, its id as `id` and its text, in bytes, as `text`.

    Args:
        shard: the shard, a whole file.

    Raises:
        OSError: the storage failed.
    """
    from warcio.archiveiterator import ArchiveIterator  # imported late, because few jobs need it
    from warcio.exceptions import ArchiveLoadFailed

    index = 0
    with open_input(shard.source) as file:
        stream = io.BufferedReader(_Blocks(decompressed(file, shard.format)))
        try:
            for record in ArchiveIterator(stream, no_record_parse=True):
                if record.rec_type != "conversion":
                    continue
                text = record.raw_stream.read(MAX_RECORD_BYTES + 1)
                headers = dict(record.rec_headers.headers)
                if len(text) < min(int(headers["Content-Length"]), MAX_RECORD_BYTES):
                    raise DamagedFile("the file ends within a record")
                yield index, raw_head(text), {**headers, "id": headers.get("WARC-Record-ID"), "text": text}
                index += 1
        except (DamagedFile, ArchiveLoadFailed, ValueError, KeyError) as error:
            message = f"nothing can be read from record {index:,} on: {error}"
            yield Reject(None, shard.source, index, "read", "damaged_file", message, None, n_documents=0)


class _Blocks(io.RawIOBase):
    """A file made of blocks.

    Args:
        blocks: the blocks.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and (block := next(self._blocks, None)) is not None:
            self._rest = block
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
