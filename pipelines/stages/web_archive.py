"""Texts of web archives: the conversion records of WET and WARC files."""

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pipelines.stages.records import MAX_RECORD_BYTES, Reject, raw_head
from pipelines.storage import open_input
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, as_file, decompressed

#: Records at the start of a file whose headers are examined.
_HEAD_RECORDS = 100


def archive_records(shard: Shard) -> Iterator[tuple[int, bytes | None, dict[str, Any]] | Reject]:
    """Yield (index, first bytes, values) for each conversion record; other records hold no plain text.

    Values are the record's headers, its id as `id` and its text, in bytes, as `text`.

    Args:
        shard: the shard, a whole file.

    Raises:
        OSError: the storage failed.
    """
    index = 0
    with open_input(shard.source) as file:
        try:
            for values in _conversions(decompressed(file, shard.format)):
                yield index, raw_head(values["text"]), values
                index += 1
        except DamagedFile as error:
            message = f"cannot read anything from record {index:,} on: {error}"
            yield Reject(None, shard.source, index, "read", "damaged_file", message, None, n_documents=0)


def archive_head(head: bytes) -> list[dict[str, Any]]:
    """Return the values of the first whole conversion records of a file.

    Args:
        head: beginning of the file.
    """
    found: list[dict[str, Any]] = []
    with contextlib.suppress(DamagedFile):
        found.extend(islice(_conversions(iter([head])), _HEAD_RECORDS))
    return found


def _conversions(blocks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the values of each conversion record.

    Raises:
        DamagedFile: the archive is damaged, or ends within a record.
    """
    from warcio.archiveiterator import ArchiveIterator  # imported late, because few jobs need it
    from warcio.exceptions import ArchiveLoadFailed

    try:
        for record in ArchiveIterator(as_file(blocks), no_record_parse=True):
            if record.rec_type != "conversion":
                continue
            text = record.raw_stream.read(MAX_RECORD_BYTES + 1)
            headers = dict(record.rec_headers.headers)
            if len(text) < min(int(headers["Content-Length"]), MAX_RECORD_BYTES):
                raise DamagedFile("the file ends within a record")
            yield {**headers, "id": headers.get("WARC-Record-ID"), "text": text}
    except (ArchiveLoadFailed, ValueError, KeyError) as error:
        raise DamagedFile(str(error)) from None
