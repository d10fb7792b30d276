"""Read: a shard -> bounded batches of documents, and a reject for every invalid record.

No record is dropped without a reject. A text is kept exactly as it is, without normalisation or trimming. The only
exception is a byte order mark at the start of a file, which is not part of its content.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import is_storage_error, join, open_input, read_range
from schemas.shards import Shard

#: Documents in memory between two stages.
INPUTS = pa.schema(
    [
        pa.field("document_id", pa.large_string(), nullable=False),
        pa.field("source", pa.large_string(), nullable=False),
        pa.field("source_row", pa.int64(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
    ]
)
#: Limits of a batch, in documents and in bytes of text. A single document may be larger.
MAX_BATCH_DOCUMENTS = 256
MAX_BATCH_BYTES = 256 << 10
#: Bytes of its record that a reject keeps.
RAW_BYTES = 4096
#: Largest size of a text, or of a line with its text, in bytes. A larger one is rejected without loading it: processing
#: a text takes many times its size, and a few kilobytes of compressed data can hold gigabytes.
MAX_RECORD_BYTES = 64 << 20
#: Ids kept to detect duplicates; only compressed files have more in one shard.
_MAX_IDS = 500_000
_BLOCK = 1 << 16
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that can't be tagged: a row of `rejects`, and `n_documents` rows of `documents`.

    Attributes:
        document_id: id of the document; None if it can't be read.
        source: the file or folder that the record was read from.
        source_row: where the record is in the source; None for a whole file.
        stage: the stage that rejected it.
        code: stable code of the reason.
        message: the reason, for the user.
        raw: first bytes of the record; None if nothing was read.
        n_characters: length of the text in code points; 0 if there is no text.
        n_documents: documents that the reject stands for; 0 if unknown, as for a damaged file; more than 1 for a range
            of lost rows.
    """

    document_id: str | None
    source: str
    source_row: int | None
    stage: str
    code: str
    message: str
    raw: bytes | None
    n_characters: int = 0
    n_documents: int = 1


@dataclass(slots=True)
class ReadBatch:
    """Documents and rejects that were read together.

    Attributes:
        documents: INPUTS rows, in the order of the source.
        rejects: rejects, in the order of the source.
    """

    documents: pa.RecordBatch
    rejects: list[Reject]


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a source: an id and a text, not checked yet and possibly of the wrong type.

    Attributes:
        source: the file that it was read from.
        source_row: where it is in the source: row (Parquet), byte offset (JSONL) or 0 (text file).
        document_id: the id.
        text: the text.
        raw: bytes of the record; None if they are not available.
    """

    source: str
    source_row: int
    document_id: Any
    text: Any
    raw: bytes | None


def read(shard: Shard, id_column: str, text_column: str) -> Iterator[ReadBatch]:
    """Yield the documents of a shard in bounded batches.

    Args:
        shard: the shard.
        id_column: column or key of the ids.
        text_column: column or key of the texts.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    return batched(read_records(shard, id_column, text_column))


def read_records(shard: Shard, id_column: str, text_column: str) -> Iterator[Record | Reject]:
    """Yield the records of a shard, in order.

    Args:
        shard: the shard.
        id_column: column or key of the ids.
        text_column: column or key of the texts.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    return _READERS[shard.format](shard, id_column, text_column)


def batched(records: Iterable[Record | Reject]) -> Iterator[ReadBatch]:
    """Check records and yield them in bounded batches.

    Args:
        records: the records and rejects of a shard, in order.
    """
    batch = _Batch()
    seen: set[str] = set()
    for record in records:
        # Memory is bounded; the check over the whole output finds duplicates that this one misses. Within a batch
        # every duplicate is found, because the later stages identify documents by id.
        if len(seen) >= _MAX_IDS:
            seen = {row["document_id"] for row in batch.rows}
        document = record if isinstance(record, Reject) else check_record(record, seen)
        batch.add(document)
        if batch.full:
            yield batch.close()
            batch = _Batch()
    if batch.rows or batch.rejects:
        yield batch.close()


@dataclass(slots=True)
class _Batch:
    rows: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    n_bytes: int = 0

    def add(self, document: "Reject | tuple[Record, int]") -> None:
        if isinstance(document, Reject):
            self.rejects.append(document)
            return
        record, n_bytes = document
        self.rows.append(
            {
                "document_id": record.document_id,
                "source": clean(record.source),
                "source_row": record.source_row,
                "text": record.text,
            }
        )
        self.n_bytes += n_bytes

    @property
    def full(self) -> bool:
        return (
            self.n_bytes >= MAX_BATCH_BYTES
            or len(self.rows) >= MAX_BATCH_DOCUMENTS
            or len(self.rejects) >= MAX_BATCH_DOCUMENTS
        )

    def close(self) -> ReadBatch:
        return ReadBatch(pa.RecordBatch.from_pylist(self.rows, schema=INPUTS), self.rejects)


def check_record(record: Record, seen: set[str]) -> Reject | tuple[Record, int]:
    """Return the record with id and text as strings, and the size of the text in bytes; or the reject of the record.

    Args:
        record: the record.
        seen: ids of earlier documents; the record's id is added.
    """
    document_id, text, raw = record.document_id, record.text, record.raw
    readable_id: str | None = None
    n_characters = 0

    def reject(code: str, message: str) -> Reject:
        return Reject(readable_id, record.source, record.source_row, "read", code, message, _head(raw), n_characters)

    if document_id is None:
        return reject("null_id", "the id is null")
    if isinstance(document_id, bool) or not isinstance(document_id, (str, int, bytes)):
        return reject("bad_id", f"the id is {type(document_id).__name__}, not a string or an integer")
    try:
        document_id = document_id.decode() if isinstance(document_id, bytes) else str(document_id)
        document_id.encode()
    except UnicodeError as error:
        return reject(_unicode_code(error), f"the id: {error}")
    except ValueError as error:  # an integer of thousands of digits
        return reject("bad_id", str(error))
    readable_id = document_id
    if text is None:
        return reject("null_text", "the text is null")
    if not isinstance(text, (str, bytes)):
        return reject("not_text", f"the text is {type(text).__name__}, not a string")
    if isinstance(text, bytes) and len(text) > MAX_RECORD_BYTES:
        return reject("too_large", f"the text has over {MAX_RECORD_BYTES:,} bytes, which is the limit")
    try:
        text, encoded = (text.decode(), text) if isinstance(text, bytes) else (text, text.encode())
    except UnicodeError as error:
        return reject(_unicode_code(error), str(error))
    n_characters = len(text)
    if document_id in seen:
        raw = encoded if raw is None else raw
        return reject("duplicate_id", "an earlier document of this shard has the same id")
    seen.add(document_id)
    return Record(record.source, record.source_row, document_id, text, None), len(encoded)


def clean(text: str) -> str:
    """Return text that can be encoded as UTF-8.

    Args:
        text: any text. File names may contain bytes that are not UTF-8, which Python represents as lone surrogates.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _unicode_code(error: UnicodeError) -> str:
    # Bytes that are not UTF-8, or a lone surrogate, which JSON can express and UTF-8 can't.
    return "invalid_utf8" if isinstance(error, UnicodeDecodeError) else "invalid_unicode"


def _head(raw: bytes | None) -> bytes | None:
    return None if raw is None else bytes(raw[:RAW_BYTES])


# --- Parquet ---


def _read_parquet(shard: Shard, id_column: str, text_column: str) -> Iterator[Record | Reject]:
    for rows in parquet_rows(shard, [id_column, text_column]):
        if isinstance(rows, Reject):
            yield rows
            continue
        first, batch = rows
        ids, texts = _values(batch[id_column]), _values(batch[text_column])
        for place, (document_id, text) in enumerate(zip(ids, texts, strict=True), first):
            # A reject keeps the bytes of the text.
            yield Record(shard.source, place, document_id, text, text)


def parquet_rows(shard: Shard, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of a shard as (number of the first row, rows). Damage in one row group leaves the others readable.

    Args:
        shard: the shard, whose range is in rows.
        columns: names of the columns to read.

    Raises:
        OSError: the storage failed.
    """
    with open_input(shard.source) as file:
        parquet = pq.ParquetFile(file, buffer_size=_BLOCK, pre_buffer=False, page_checksum_verification=True)
        group_start = 0
        for group in range(parquet.num_row_groups):
            metadata = parquet.metadata.row_group(group)
            start = max(shard.start, group_start)
            end = min(shard.end, group_start + metadata.num_rows)
            if start < end:
                row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
                rows = min(MAX_BATCH_DOCUMENTS, max(1, MAX_BATCH_BYTES // row_bytes))
                batches = parquet.iter_batches(rows, row_groups=[group], columns=columns)
                yield from _group_rows(shard, batches, group_start, start, end)
            group_start += metadata.num_rows


def _group_rows(
    shard: Shard, batches: Iterator[pa.RecordBatch], row: int, start: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows [start, end) of a row group whose first row is `row`; missing rows become one reject.

    The footer gives the number of rows. Where a page header is damaged, the data has fewer: the reader then ends
    early and raises nothing.
    """
    reason = "the data end before them"
    try:
        for batch in batches:
            if row + len(batch) > start:
                first = max(0, start - row)
                yield row + first, batch.slice(first, min(end - row, len(batch)) - first)
            row += len(batch)
            if row >= end:
                return
    except (pa.ArrowException, OSError) as error:
        if is_storage_error(error):
            raise
        reason = str(error)
    row = max(row, start)
    message = f"rows {row} to {end - 1} can't be read: {reason}"
    yield Reject(None, shard.source, row, "read", "unreadable_rows", message, None, n_documents=end - row)


def _values(column: pa.Array) -> list[Any]:
    """Return the values; strings as bytes, because strings in a Parquet file may be invalid UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_string()).cast(pa.large_binary())
    return column.to_pylist()


# --- JSONL ---


def _read_jsonl(shard: Shard, id_column: str, text_column: str) -> Iterator[Record | Reject]:
    return _json_records(shard.source, raw_lines(shard), id_column, text_column)


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
            for offset, line, n_bytes in _lines(blocks, position):
                position = offset + n_bytes
                line = line.removeprefix(_BOM) if offset == 0 else line
                if n_bytes > MAX_RECORD_BYTES + 1:
                    message = f"the line has {n_bytes:,} bytes, and the limit is {MAX_RECORD_BYTES:,}"
                    yield Reject(None, shard.source, offset, "read", "too_large", message, _head(line))
                elif line.strip():
                    yield offset, line
        except DamagedFile as error:
            message = f"nothing can be read from byte {position:,} (uncompressed) on: {error}"
            yield Reject(None, shard.source, position, "read", "damaged_file", message, None, n_documents=0)
    if plain and position < shard.end:
        message = f"bytes {position:,} to {shard.end - 1:,} can't be read: the file ends before them"
        yield Reject(None, shard.source, position, "read", "damaged_file", message, None, n_documents=0)


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
            block = stream.read(_BLOCK)
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


def _lines(blocks: Iterable[bytes], position: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield (byte offset, line without its newline, bytes with it) from blocks of bytes that begin at `position`.

    Of a line over `MAX_RECORD_BYTES` only the beginning is kept and yielded.

    >>> list(_lines([b"a\\nb", b"c\\n", b"d"], 10))
    [(10, b'a', 2), (12, b'bc', 3), (15, b'd', 1)]
    """
    parts: list[bytes] = []
    n_bytes = 0  # of the line so far
    for block in blocks:
        *ended, rest = block.split(b"\n")
        for line in ended:
            n_bytes += len(line) + 1
            yield position, b"".join([*parts, line]), n_bytes
            position += n_bytes
            parts, n_bytes = [], 0
        n_bytes += len(rest)
        if n_bytes <= MAX_RECORD_BYTES:
            parts.append(rest)
        else:
            parts = [b"".join(parts)[:RAW_BYTES] or rest[:RAW_BYTES]]
    if n_bytes:
        yield position, b"".join(parts), n_bytes


def _json_records(
    source: str, lines: Iterable[tuple[int, bytes] | Reject], id_column: str, text_column: str
) -> Iterator[Record | Reject]:
    for item in lines:
        if isinstance(item, Reject):
            yield item
            continue
        position, line = item
        document_id = None
        try:
            code, message = "invalid_utf8", ""
            text = line.decode()
            code = "broken_json"
            values = json.loads(text)
            if isinstance(values, dict):
                document_id = values.get(id_column)
                if missing := [repr(column) for column in (id_column, text_column) if column not in values]:
                    code, message = "missing_field", f"the record has no {', '.join(missing)}"
                else:
                    yield Record(source, position, document_id, values[text_column], line)
                    continue
            else:
                message = f"the line is a JSON {type(values).__name__}, not an object"
        except UnicodeDecodeError as error:
            message, document_id = str(error), _id_of_damaged(line, id_column)
        except (ValueError, RecursionError) as error:
            message = str(error)
        known = str(document_id) if type(document_id) in (str, int) and str(document_id).isprintable() else None
        yield Reject(known, source, position, "read", code, message, _head(line))


def _id_of_damaged(line: bytes, id_column: str) -> Any:
    """Return the id in a line of invalid UTF-8, if it can be determined."""
    try:
        return json.loads(line.decode(errors="replace"))[id_column]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


# --- text files and unreadable files ---


def _read_text(shard: Shard, id_column: str, text_column: str) -> Iterator[Record | Reject]:
    for name in shard.files:
        path = join(shard.source, name)
        with open_input(path) as file:
            content = file.read(len(_BOM) + MAX_RECORD_BYTES + 1)
        yield Record(path, 0, name, content.removeprefix(_BOM), content)


def _read_unreadable(shard: Shard, id_column: str, text_column: str) -> Iterator[Record | Reject]:
    return read_nothing(shard)


def read_nothing(shard: Shard) -> Iterator[Reject]:
    """Yield the reject of a file that can't be opened in its format.

    Args:
        shard: a shard of format `unreadable`.

    Raises:
        OSError: the storage failed.
    """
    with open_input(shard.source) as file:
        raw = file.read(RAW_BYTES)
    row = shard.start or None
    yield Reject(None, shard.source, row, "read", "unreadable_file", shard.reason, raw, n_documents=0)


_READERS: dict[str, Callable[[Shard, str, str], Iterator[Record | Reject]]] = {
    "parquet": _read_parquet,
    "jsonl": _read_jsonl,
    "jsonl.gz": _read_jsonl,
    "jsonl.zst": _read_jsonl,
    "text": _read_text,
    "unreadable": _read_unreadable,
}
