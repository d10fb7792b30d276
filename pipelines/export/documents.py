"""The documents of a shard: texts read from the source again, joined with the rows of the output by position."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pipelines.errors import PipelineError
from pipelines.export.output import TaggedOutput
from pipelines.stages.read import ReadBatch, read
from pipelines.storage import join, local_kind, resolve
from pipelines.storage.fingerprint import content_now
from pipelines.storage.urls import is_local
from pipelines.task import Columns
from schemas import ANNOTATIONS, DOCUMENTS, Table
from schemas.shards import Shard

_DOCUMENT = [
    *("document_id", "source", "source_row", "status", "language"),
    *("n_characters", "n_sentences", "n_words", "n_entities"),
]
_ENTITY = [
    *("document_id", "sentence_id", "entity_id", "label", "score", "text"),
    *("char_start", "char_end", "word_start", "word_end"),
]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaggedDocument:
    """A document of an output.

    Attributes:
        row: its row of `documents`.
        text: its text; None if it was rejected.
        entities: its rows of `annotations`.
    """

    row: Row
    text: str | None
    entities: list[Row]


def check_source(shard: Shard, columns: Columns) -> None:
    """Check that the source of a shard is the one that was tagged.

    Args:
        shard: the shard.
        columns: columns of the inputs.

    Raises:
        PipelineError: `export.source_gone`, `export.source_changed`, `storage.failed`.
    """
    try:
        for path in [join(shard.source, name) for name in shard.files] or [shard.source]:
            fs, local = resolve(path)
            if is_local(fs) and local_kind(local)[0] != "file":
                raise FileNotFoundError(path)  # Opening a pipe would block.
        same = content_now(shard, *columns.read) == shard.content
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PipelineError("export.source_gone", source=shard.source) from error
    except OSError as error:
        raise PipelineError("storage.failed", reason=error) from error
    if not same:
        raise PipelineError("export.source_changed", source=shard.source)


def tagged_documents(output: TaggedOutput, shard: Shard, columns: Columns) -> Iterator[TaggedDocument]:
    """Yield the documents of a shard in the order of the source, the rejected ones of a batch before the others.

    The same readers as in the run give the same records, so each batch read belongs to the next rows of `documents`
    and `annotations`. Memory holds one batch.

    Args:
        output: the output.
        shard: the shard.
        columns: columns of the inputs.

    Raises:
        PipelineError: `export.mismatch` if the texts do not agree with the rows; `output.not_readable`,
            `storage.failed`.
    """
    documents, annotations = (_rows(output, *what, shard) for what in ((DOCUMENTS, _DOCUMENT), (ANNOTATIONS, _ENTITY)))
    try:
        for batch in read(shard, columns):
            yield from _joined(batch, documents, annotations, shard)
    except OSError as error:
        raise PipelineError("storage.failed", reason=error) from error
    if next(documents, None) is not None or next(annotations, None) is not None:
        raise _mismatch(shard, "it has fewer documents")


def _rows(output: TaggedOutput, table: Table, columns: list[str], shard: Shard) -> Iterator[Row]:
    for rows in output.rows(table, shard.name, columns):
        yield from rows.to_pylist()


def _joined(
    batch: ReadBatch, documents: Iterator[Row], annotations: Iterator[Row], shard: Shard
) -> Iterator[TaggedDocument]:
    read_rows = batch.documents.to_pylist()
    index_of = {(row["source"], row["source_row"]): index for index, row in enumerate(read_rows)}
    rows: dict[int, Row] = {}
    # The rows of a batch are sorted with its rejects between them, so only the number of rows is known.
    for row in islice(documents, len(read_rows) + sum(reject.n_documents for reject in batch.rejects)):
        index = index_of.get((row["source"], row["source_row"]))
        if index is not None:
            rows[index] = row
        if row["status"] == "rejected":
            yield TaggedDocument(row, None, [])
        elif index is None:
            raise _mismatch(shard, f"document {_shown(row)} is not where it was")
    if len(rows) < len(read_rows):
        raise _mismatch(shard, "it has more documents")
    entities: dict[str, list[Row]] = {row["document_id"]: [] for row in read_rows}
    for entity in islice(annotations, sum(row["n_entities"] for row in rows.values())):
        if entity["document_id"] not in entities:
            raise _mismatch(shard, f"it has no document {_shown(entity)} there")
        entities[entity["document_id"]].append(entity)
    for index, read_row in enumerate(read_rows):
        row, text = rows[index], read_row["text"]
        if row["status"] != "rejected":
            found = entities[read_row["document_id"]]
            _check(row, read_row, found, shard)
            yield TaggedDocument(row, text, found)


def _check(row: Row, read_row: Row, entities: list[Row], shard: Shard) -> None:
    text = read_row["text"]
    if (row["document_id"], row["n_characters"]) != (read_row["document_id"], len(text)):
        raise _mismatch(shard, f"document {_shown(row)} has another id or length")
    if row["n_entities"] != len(entities):
        raise _mismatch(shard, f"document {_shown(row)} has {len(entities)} entities instead of {row['n_entities']}")
    for entity in entities:
        start, end = entity["char_start"], entity["char_end"]
        if not 0 <= start < end <= len(text) or text[start:end] != entity["text"]:
            expected = repr(entity["text"][:60])
            raise _mismatch(shard, f"characters {start} to {end} of document {_shown(row)} are not {expected}")


def _shown(row: Row) -> str:
    return repr(str(row["document_id"])[:100])


def _mismatch(shard: Shard, reason: str) -> PipelineError:
    return PipelineError("export.mismatch", source=shard.source, shard=shard.name, reason=reason)
