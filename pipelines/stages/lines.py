"""Lines of plain and compressed files, in bounded memory; every byte is in one line or in one reject."""

import json
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from pipelines.stages.records import MAX_RECORD_BYTES, Reject, raw_head
from pipelines.storage import is_storage_error, open_input, read_range
from schemas.shards import Shard
from spanmarker_core.data.lines import byte_lines

#: Bytes read or decompressed at once.
BLOCK_BYTES = 1 << 16


def raw_lines(shard: Shard) -> Iterator[tuple[int, bytes] | Reject]:
    """Yield (byte offset, line) for each non-blank line; of a compressed file, up to the first damage.

    Every byte of the range is in one line or in one reject. A line over `MAX_RECORD_BYTES` is a reject, and so is the
    part after the last readable line.

    Args:
        shard: the shard, whose range is in bytes.

    Raises:
        OSError: the storage failed.
    """
    plain = shard.format == "jsonl"
    position = shard.start if plain else 0  # byte offset of the next line
    with open_input(shard.source) as file:
        blocks = read_range(file, shard.start, shard.end) if plain else decompressed(file, shard.format)
        try:
            for offset, line, n_bytes in byte_lines(blocks, position, MAX_RECORD_BYTES):
                position = offset + n_bytes
                if n_bytes > MAX_RECORD_BYTES + 1:
                    message = f"the line has {n_bytes:,} bytes, but the limit is {MAX_RECORD_BYTES:,}"
                    yield Reject(None, shard.source, offset, "read", "too_large", message, raw_head(line))
                elif line.strip():
                    yield offset, line
        except DamagedFile as error:
            message = f"cannot read anything after byte {position:,} (uncompressed): {error}"
            yield Reject(None, shard.source, position, "read", "damaged_file", message, None, n_documents=0)
    if plain and position < shard.end:
        message = f"cannot read bytes {position:,} to {shard.end - 1:,}: the file ends before them"
        yield Reject(None, shard.source, position, "read", "damaged_file", message, None, n_documents=0)


def json_lines(shard: Shard, id_column: str | None = None) -> Iterator[tuple[int, bytes, Any] | Reject]:
    """Yield (byte offset, line, value) for each non-blank line of JSON, and the reject of any other; see `raw_lines`.

    Args:
        shard: the shard, whose range is in bytes.
        id_column: key under which a line of invalid UTF-8 may name its document for the reject.

    Raises:
        OSError: the storage failed.
    """
    for item in raw_lines(shard):
        if isinstance(item, Reject):
            yield item
            continue
        position, line = item
        document_id = None
        try:
            found: tuple[int, bytes, Any] | None = (position, line, json.loads(line.decode()))
        except (ValueError, RecursionError) as error:  # ValueError: also for a number with thousands of digits
            found, message, code = None, str(error), "broken_json"
            if isinstance(error, UnicodeDecodeError):
                code, document_id = "invalid_utf8", _id_of_damaged(line, id_column)
        yield found or Reject(document_id, shard.source, position, "read", code, message, raw_head(line))


def shown_id(document_id: Any) -> str | None:
    """Return the id of a rejected record as it is shown; None for values that can't be ids.

    Args:
        document_id: the value of the id column.
    """
    return str(document_id) if type(document_id) in (str, int) and str(document_id).isprintable() else None


def _id_of_damaged(line: bytes, id_column: str | None) -> str | None:
    """Return the id in a line of invalid UTF-8, if it can be determined."""
    try:
        return shown_id(json.loads(line.decode(errors="replace"))[id_column])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


class DamagedFile(Exception):
    """Compressed data is damaged or truncated."""


def decompressed(file: IO[bytes], kind: str) -> Iterator[bytes]:
    """Yield the content of one or more compressed streams, concatenated, in bounded blocks.

    Args:
        file: the compressed file, seekable.
        kind: its format, jsonl.gz or jsonl.zst.

    Raises:
        DamagedFile: the data is damaged, ends in the middle of a stream, or is missing.
        OSError: the storage failed.
    """
    if not file.read(1):
        raise DamagedFile("the file is empty")
    file.seek(0)
    stream = pa.CompressedInputStream(pa.PythonFile(_LeftOpen(file), mode="r"), _COMPRESSIONS[kind])
    while True:
        try:
            block = stream.read(BLOCK_BYTES)
        except (pa.ArrowException, OSError) as error:
            if is_storage_error(error):
                raise
            raise DamagedFile(str(error)) from None
        if not block:
            return
        yield block


class _LeftOpen:
    """A file that Arrow does not close when it has finished."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.read = file.read

    def close(self) -> None:
        """Leave the file open for its owner."""


_COMPRESSIONS = {"jsonl.gz": "gzip", "jsonl.zst": "zstd"}
