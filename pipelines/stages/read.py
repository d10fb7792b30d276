"""Read: a shard -> bounded batches of documents, and a reject for every invalid record.

No record is dropped without a reject. A text is kept exactly as it is, without normalisation or trimming. The only
exception is a byte order mark at the start of a file, which is not part of its content.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stages.lines import BLOCK_BYTES, json_lines, shown_id
from pipelines.stages.records import MAX_RECORD_BYTES, RAW_BYTES, Record, Reject, clean, raw_head
from pipelines.storage import is_storage_error, join, open_input
from pipelines.task import Columns
from schemas.shards import Shard
from spanmarker_core.data.lines import BOM

#: Documents in memory between two stages.
INPUTS = pa.schema(
    [
        pa.field("document_id", pa.large_string(), nullable=False),
        pa.field("source", pa.large_string(), nullable=False),
        pa.field("source_row", pa.int64(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        # As the record states it, then as `pipelines.stages.languages` finds it.
        pa.field("language", pa.string()),
        pa.field("language_from", pa.string()),
    ]
)

#: Limits of a batch, in documents and in bytes of text. A single document may be larger.
MAX_BATCH_DOCUMENTS = 256

MAX_BATCH_BYTES = 256 << 10

#: Characters kept of a stated language; no name of one is as long.
_LANGUAGE_CHARACTERS = 100

#: Ids kept to detect duplicates; only compressed files have more in one shard.
_MAX_IDS = 500_000


@dataclass(slots=True)
class ReadBatch:
    """Documents and rejects that were read together.

    Attributes:
        documents: INPUTS rows, in the order of the source.
        rejects: rejects, in the order of the source.
    """

    documents: pa.RecordBatch
    rejects: list[Reject]


def read(shard: Shard, columns: Columns) -> Iterator[ReadBatch]:
    """Yield the documents of a shard in bounded batches.

    Args:
        shard: the shard.
        columns: columns or keys of ids and texts.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    return batched(read_records(shard, columns))


def read_records(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    """Yield the records of a shard, in order.

    Args:
        shard: the shard.
        columns: columns or keys of ids and texts.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    return _READERS[shard.format](shard, columns)


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
                "language": record.language,
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
        return Reject(readable_id, record.source, record.source_row, "read", code, message, raw_head(raw), n_characters)

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
    language = _stated_language(record.language)
    return Record(record.source, record.source_row, document_id, text, None, language), len(encoded)


def _stated_language(value: Any) -> str | None:
    """Return a stated language as text, or None for what can't be one."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return clean(value[:_LANGUAGE_CHARACTERS]) if isinstance(value, str) else None


def _unicode_code(error: UnicodeError) -> str:
    # Bytes that are not UTF-8, or a lone surrogate, which JSON can express and UTF-8 can't.
    return "invalid_utf8" if isinstance(error, UnicodeDecodeError) else "invalid_unicode"


def _read_parquet(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    for rows in parquet_rows(shard, list(columns.names)):
        if isinstance(rows, Reject):
            yield rows
            continue
        first, batch = rows
        values = [_values(batch[column]) for column in columns.names]
        for place, (document_id, text, *language) in enumerate(zip(*values, strict=True), first):
            # A reject keeps the bytes of the text.
            yield Record(shard.source, place, document_id, text, text, *language)


def parquet_rows(shard: Shard, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch] | Reject]:
    """Yield the rows of a shard as (number of the first row, rows). Damage in one row group leaves the others readable.

    Args:
        shard: the shard, whose range is in rows.
        columns: names of the columns to read.

    Raises:
        OSError: the storage failed.
    """
    with open_input(shard.source) as file:
        parquet = pq.ParquetFile(file, buffer_size=BLOCK_BYTES, pre_buffer=False, page_checksum_verification=True)
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


def _read_jsonl(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    for item in json_lines(shard, columns.id):
        if isinstance(item, Reject):
            yield item
            continue
        position, line, values = item
        if not isinstance(values, dict):
            document_id, code = None, "broken_json"
            message = f"the line is a JSON {type(values).__name__}, not an object"
        elif missing := [repr(column) for column in (columns.id, columns.text) if column not in values]:
            document_id, code = shown_id(values.get(columns.id)), "missing_field"
            message = f"the record has no {', '.join(missing)}"
        else:
            language = values.get(columns.language)  # No key is None.
            yield Record(shard.source, position, values[columns.id], values[columns.text], line, language)
            continue
        yield Reject(document_id, shard.source, position, "read", code, message, raw_head(line))


def _read_text(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    for name in shard.files:
        path = join(shard.source, name)
        with open_input(path) as file:
            content = file.read(len(BOM) + MAX_RECORD_BYTES + 1)
        yield Record(path, 0, name, content.removeprefix(BOM), content)


def _read_unreadable(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
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


_READERS: dict[str, Callable[[Shard, Columns], Iterator[Record | Reject]]] = {
    "parquet": _read_parquet,
    "jsonl": _read_jsonl,
    "jsonl.gz": _read_jsonl,
    "jsonl.zst": _read_jsonl,
    "text": _read_text,
    "unreadable": _read_unreadable,
}
