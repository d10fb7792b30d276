"""Lines of plain and compressed files, in bounded memory; every byte is in one line or in one reject."""

import json
from collections.abc import Iterator
from typing import Any

from pipelines.stages.records import MAX_RECORD_BYTES, Reject, raw_head
from pipelines.storage import open_input, read_range
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, content
from spanmarker_core.data.json_values import json_elements
from spanmarker_core.data.lines import byte_lines


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
        blocks = read_range(file, shard.start, shard.end) if plain else content(file, shard.format)
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

    Of a shard of format `json`, yield (index, bytes, value) for each element; see `json_elements`.

    Args:
        shard: the shard, whose range is in bytes.
        id_column: key under which a line of invalid UTF-8 may name its document for the reject.

    Raises:
        OSError: the storage failed.
    """
    is_value = "json" in shard.format.split(".")
    for item in _raw_elements(shard) if is_value else raw_lines(shard):
        if isinstance(item, Reject):
            yield item
            continue
        position, raw = item
        document_id = None
        try:
            found: tuple[int, bytes, Any] | None = (position, raw, json.loads(raw.decode()))
        except (ValueError, RecursionError) as error:  # ValueError: also for a number with thousands of digits
            found, message, code = None, str(error), "broken_json"
            if isinstance(error, UnicodeDecodeError):
                code, document_id = "invalid_utf8", _id_of_damaged(raw, id_column)
        yield found or Reject(document_id, shard.source, position, "read", code, message, raw_head(raw))


def _raw_elements(shard: Shard) -> Iterator[tuple[int, bytes] | Reject]:
    index = 0
    with open_input(shard.source) as file:
        try:
            for element, n_bytes in json_elements(content(file, shard.format), MAX_RECORD_BYTES):
                if n_bytes > MAX_RECORD_BYTES:
                    message = f"the element has {n_bytes:,} bytes, but the limit is {MAX_RECORD_BYTES:,}"
                    yield Reject(None, shard.source, index, "read", "too_large", message, raw_head(element))
                else:
                    yield index, element
                index += 1
        except DamagedFile as error:
            message = f"cannot read anything from element {index:,} on: {error}"
            yield Reject(None, shard.source, index, "read", "damaged_file", message, None, n_documents=0)


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
