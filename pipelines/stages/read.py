"""Read: a shard -> bounded batches of documents, and a reject for every invalid record.

No record is dropped without a reject. A text is kept exactly as it is, without normalisation or trimming. The only
exception is a byte order mark at the start of a file, which is not part of its content.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stages.columns import table_records, values_record
from pipelines.stages.formats import Format, examined, format_named, kind_of
from pipelines.stages.kept_columns import KEPT, BadColumn, kept_of_values, kept_rows
from pipelines.stages.records import (
    MAX_BATCH_BYTES,
    MAX_BATCH_DOCUMENTS,
    MAX_RECORD_BYTES,
    RAW_BYTES,
    Record,
    Reject,
    clean,
    raw_head,
)
from pipelines.storage import join, open_input
from pipelines.task import Columns
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, content
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

#: Characters kept of a stated language; no name of one is as long.
_LANGUAGE_CHARACTERS = 100

#: Largest integer up to which all integers are floats, too. Tools store a column of integers and nulls as floats.
_EXACT = 1 << 53

#: Ids kept to detect duplicates; only compressed files have more in one shard.
_MAX_IDS = 500_000


@dataclass(slots=True)
class ReadBatch:
    """Documents and rejects that were read together.

    Attributes:
        documents: INPUTS rows, in the order of the source; if the job keeps columns, with the struct `kept`.
        rejects: rejects, in the order of the source.
    """

    documents: pa.RecordBatch
    rejects: list[Reject]


def read(shard: Shard, columns: Columns) -> Iterator[ReadBatch]:
    """Yield the documents of a shard in bounded batches.

    Args:
        shard: the shard.
        columns: the columns or keys to read.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    return batched(read_records(shard, columns), columns.kept)


def read_records(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    """Yield the records of a shard, in order.

    Args:
        shard: the shard.
        columns: the columns or keys to read.

    Raises:
        OSError: the storage failed. Faults of content become rejects.
    """
    if shard.format == "unreadable":
        return read_nothing(shard, n_records(shard) if shard.end > shard.start else 0)
    form = format_named(shard.format)
    if form.tables:
        found = _table(form, shard, columns)
    else:
        found = _records(form, shard, columns) if form.records else _texts(shard, columns)
    return _first(found, shard.limit) if shard.limit else found


def documents_in(item: Record | Reject) -> int:
    """Return the number of documents that an item of `read_records` stands for.

    Args:
        item: a record or a reject.
    """
    return item.n_documents if isinstance(item, Reject) else 1


def _first(items: Iterator[Record | Reject], limit: int) -> Iterator[Record | Reject]:
    """Yield the items up to a number of documents."""
    for item in items:
        if limit <= 0:
            return
        limit -= documents_in(item)
        yield item


def batched(records: Iterable[Record | Reject], kept: pa.Schema | None = None) -> Iterator[ReadBatch]:
    """Check records and yield them in bounded batches.

    Args:
        records: the records and rejects of a shard, in order.
        kept: the kept columns, if there are any.
    """
    batch = _Batch(kept)
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
            batch = _Batch(kept)
    if batch.rows or batch.rejects:
        yield batch.close()


@dataclass(slots=True)
class _Batch:
    schema: pa.Schema | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    n_bytes: int = 0

    def add(self, document: "Reject | tuple[Record, int]") -> None:
        if isinstance(document, Reject):
            self.rejects.append(document)
            return
        record, n_bytes = document
        self.kept.append(record.kept)
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
        documents = pa.RecordBatch.from_pylist(self.rows, schema=INPUTS)
        if self.schema:
            documents = documents.append_column(KEPT, kept_rows(self.kept, self.schema))
        return ReadBatch(documents, self.rejects)


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
    if isinstance(document_id, float) and document_id.is_integer() and abs(document_id) <= _EXACT:
        document_id = int(document_id)
    if isinstance(document_id, bool) or not isinstance(document_id, (str, int, bytes)):
        return reject("bad_id", f"the id is {_shown_type(document_id)}, not a string or an integer")
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
        return reject("too_large", f"the text exceeds the limit of {MAX_RECORD_BYTES:,} bytes")
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
    return replace(record, document_id=document_id, text=text, raw=None, language=language), len(encoded)


def _shown_type(value: Any) -> str:
    return f"the float {value}" if isinstance(value, float) else f"of type {type(value).__name__}"


def _stated_language(value: Any) -> str | None:
    """Return a stated language as text, or None for what can't be one."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return clean(value[:_LANGUAGE_CHARACTERS]) if isinstance(value, str) else None


def _unicode_code(error: UnicodeError) -> str:
    # Bytes that are not UTF-8, or a lone surrogate, which JSON can express and UTF-8 can't.
    return "invalid_utf8" if isinstance(error, UnicodeDecodeError) else "invalid_unicode"


def _table(form: Format, shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    assert form.tables is not None
    for rows in form.tables(shard, columns.read):
        if isinstance(rows, Reject):
            yield rows
        else:
            yield from table_records(shard.source, *rows, columns)


def _records(form: Format, shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    assert form.records is not None
    for item in form.records(shard, columns):
        yield item if isinstance(item, Reject) else values_record(shard.source, *item, columns)


def _texts(shard: Shard, columns: Columns) -> Iterator[Record | Reject]:
    for name in shard.files:
        path = join(shard.source, name)
        blocks: list[bytes] = []
        left = len(BOM) + MAX_RECORD_BYTES
        try:
            with open_input(path) as file:
                for block in content(file, shard.format):
                    blocks.append(block)
                    left -= len(block)
                    if left < 0:
                        break
        except DamagedFile as error:
            yield Reject(clean(name), clean(path), 0, "read", "damaged_file", str(error), raw_head(b"".join(blocks)))
        else:
            text = b"".join(blocks)
            try:
                yield Record(path, 0, name, text.removeprefix(BOM), text, kept=kept_of_values({}, path, columns))
            except BadColumn as error:
                yield Reject(clean(name), clean(path), 0, "read", error.code, str(error), raw_head(text))


def n_records(shard: Shard) -> int:
    """Return the number of records of a sound file; 0 if its name does not show its format.

    Args:
        shard: a shard of format `unreadable` whose file lacks the columns.

    Raises:
        OSError: the storage failed.
    """
    kind = kind_of(shard.source)
    if kind is None:
        return 0
    with open_input(shard.source) as file:
        if kind == "parquet":
            return pq.ParquetFile(file).metadata.num_rows
        found = examined(file, kind)
    form, whole = format_named(found.kind), replace(shard, format=found.kind)
    if form.tables is not None:
        parts = form.tables(whole, found.names[:1])
        return sum(part.n_documents if isinstance(part, Reject) else part[1].num_rows for part in parts)
    if form.records is None:
        return 0
    records = form.records(whole, Columns("", ""))
    return sum(record.n_documents if isinstance(record, Reject) else 1 for record in records)


def read_nothing(shard: Shard, n_documents: int = 0) -> Iterator[Reject]:
    """Yield the reject of a file that can't be opened in its format.

    Args:
        shard: a shard of format `unreadable`.
        n_documents: documents for which the reject stands; 0 if unknown.

    Raises:
        OSError: the storage failed.
    """
    raw = None
    if shard.content:  # otherwise it could not be opened
        with open_input(shard.source) as file:
            raw = file.read(RAW_BYTES)
    row = shard.start or None
    yield Reject(None, shard.source, row, "read", "unreadable_file", shard.reason, raw, n_documents=n_documents)
