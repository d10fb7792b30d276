"""Read annotated data: a shard -> bounded batches of annotated documents, and a reject for every invalid record.

Formats of shards, in `Shard.format`: `FORM.KIND`, where FORM is `documents` (a text with ranges of its characters) or
`sentences` (words with ranges of words; the sentences of a document are next to each other) and KIND is `parquet` or
`jsonl`; `sentences.conll`; `sentences.dataset`, a folder saved by `datasets`; `formats.NAME`, a whole file in a format
of `spanmarker_core.formats`; `unreadable`. JSON lines and CoNLL may be compressed, as in `documents.jsonl.gz`.

An invalid record costs only itself: a document is kept without its invalid sentences. The alignment of ranges is not
checked here, so a record with a misaligned annotation is valid.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from pipelines.stages.align import GoldDocument
from pipelines.stages.lines import json_lines
from pipelines.stages.read import check_record, read_nothing
from pipelines.stages.records import MAX_BATCH_BYTES, MAX_BATCH_DOCUMENTS, Record, Reject, raw_head
from pipelines.stages.row_groups import parquet_rows
from pipelines.storage import exists, open_input, resolve
from pipelines.storage.fingerprint import content_now, text_content
from pipelines.storage.urls import is_local
from pipelines.task import AnnotatedTask, Columns
from schemas.shards import Shard
from spanmarker_core.data.blocks import DamagedFile, damage_as_errors, decompressed, opened, uncompressed_name
from spanmarker_core.data.conll import conll_records
from spanmarker_core.data.hf import dataset_records, is_dataset_folder
from spanmarker_core.data.jsonl import SENTENCE_KEYS, parse_entities, sentence_of
from spanmarker_core.data.records import BadRecord, DocumentOrder, RecordProblem, Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument
from spanmarker_core.formats.folders import beside
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import FORMATS, Reader
from spanmarker_core.formats.words import word_sentences

ENTITIES = "entities"

#: (place in the source, bytes of the record or None, values of the record)
_Values = tuple[int, bytes | None, Any]
_Placed = tuple[int, Sentence]


@dataclass(slots=True)
class AnnotatedBatch:
    """Documents and rejects that were read together.

    Attributes:
        documents: documents, in the order of the source.
        rejects: rejects, in the order of the source.
    """

    documents: list[GoldDocument] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def columns_of(form: str, columns: Columns) -> tuple[str, ...]:
    """Return the columns that data of a form must have.

    Args:
        form: "documents" or "sentences".
        columns: columns or keys of ids and texts of documents.
    """
    return SENTENCE_KEYS if form == "sentences" else (columns.id, columns.text, ENTITIES)


def iterate(shard: Shard, read: Callable[..., Iterator[Any]], *args: Any) -> Iterator[Any]:
    """Return the iterator `read(shard, *args)`. `CarefulAttempt.records` does the same in an isolated process.

    Args:
        shard: the shard.
        read: a function of this module that reads a shard.
        args: its further arguments.
    """
    return read(shard, *args)


def read_annotated(
    shard: Shard, task: AnnotatedTask, records: Callable[..., Iterator[Any]] = iterate
) -> Iterator[AnnotatedBatch]:
    """Yield the documents of a shard in bounded batches; a document is never divided.

    Args:
        shard: the shard.
        task: the shard task, which names the columns and the tag scheme.
        records: reads the records: `iterate`, or `CarefulAttempt.records`.

    Raises:
        OSError: the storage failed.
    """
    batch, n_bytes = AnnotatedBatch(), 0
    for item in _documents(shard, task, records):
        if isinstance(item, Reject):
            batch.rejects.append(item)
        else:
            batch.documents.append(item)
            n_bytes += len(item.text)
        count = max(len(batch.documents), len(batch.rejects))
        if n_bytes >= MAX_BATCH_BYTES or count >= MAX_BATCH_DOCUMENTS:
            yield batch
            batch, n_bytes = AnnotatedBatch(), 0
    if batch.documents or batch.rejects:
        yield batch


def content_of(shard: Shard, columns: Columns) -> str:
    """Return the current identity of the content in a shard's range; `Shard.content` is the planned one.

    Args:
        shard: the shard.
        columns: columns or keys of ids and texts of documents.

    Raises:
        OSError: the storage failed.
    """
    form, _, kind = shard.format.partition(".")
    if kind == "dataset":
        return dataset_content(shard.source)
    if form == "formats":
        return foreign_content(shard.source)
    return content_now(replace(shard, format=kind), *columns_of(form, columns))


def dataset_content(folder: str) -> str:
    """Return the identity of a folder saved by `datasets`.

    Args:
        folder: a local path.
    """
    return text_content(os.path.join(folder, name) for name in sorted(os.listdir(folder)))


def foreign_content(path: str) -> str:
    """Return the identity of a file in the format of another tool, and of the file that holds its text.

    Args:
        path: a path or URL.
    """
    text = beside(path, ".txt")
    has_text = uncompressed_name(path)[0].lower().endswith((".ann", ".jsonld")) and exists(text)
    return text_content([path, *([text] if has_text else [])])


def source_of(path: str) -> Source:
    """Return a file for a reader of `spanmarker_core.formats`.

    Args:
        path: a path or URL.
    """
    name = path.rpartition("/")[2]
    return Source(path, open_content, name.partition(".")[0] or name)


def open_content(path: str) -> BinaryIO:
    """Open a file for reading, decompressed if its name says that it is compressed.

    Args:
        path: a path or URL.

    Raises:
        OSError: the storage failed.
    """
    return opened(open_input(path), path)


def is_dataset(folder: str) -> bool:
    """Return whether a folder was saved by `datasets`, which is read from this machine only.

    Args:
        folder: a path or URL.
    """
    fs, path = resolve(folder)
    return is_local(fs) and is_dataset_folder(Path(path))


def _documents(
    shard: Shard, task: AnnotatedTask, records: Callable[..., Iterator[Any]]
) -> Iterator[GoldDocument | Reject]:
    form, _, kind = shard.format.partition(".")
    if not kind:
        yield from read_nothing(shard)
    elif form == "formats":
        yield from records(shard, _foreign, task)
    elif form == "documents":
        seen: set[str] = set()
        for item in records(shard, _values, columns_of(form, task.columns)):
            yield item if isinstance(item, Reject) else _document(shard.source, item, task, seen)
    else:
        if kind == "dataset" or kind.startswith("conll"):
            sentences = records(shard, _dataset if kind == "dataset" else _conll, task)
        else:
            sentences = _sentences(shard, records(shard, _values, SENTENCE_KEYS))
        yield from _joined(shard.source, sentences)


def _values(shard: Shard, columns: tuple[str, ...]) -> Iterator[_Values | Reject]:
    """Yield the values of each record of a JSONL or Parquet shard; the reject of a record counts as one document."""
    kind = shard.format.partition(".")[2]
    shard = replace(shard, format=kind)
    if kind == "parquet":
        for rows in parquet_rows(shard, list(columns)):
            yield from [rows] if isinstance(rows, Reject) else _rows(shard.source, *rows)
        return
    yield from json_lines(shard)


def _rows(source: str, first: int, rows: pa.RecordBatch) -> Iterator[_Values | Reject]:
    for place in range(len(rows)):
        try:
            values = rows.slice(place, 1).to_pylist()[0]
        except UnicodeDecodeError as error:
            yield _reject(source, first + place, "invalid_utf8", str(error), None, 1)
            continue
        values[ENTITIES] = values[ENTITIES] or []  # null stands for no entities
        yield first + place, None, values


def _document(source: str, item: _Values, task: AnnotatedTask, seen: set[str]) -> GoldDocument | Reject:
    place, raw, values = item
    if not isinstance(values, dict):
        return _reject(source, place, "broken_json", f"it is a {type(values).__name__}, not an object", raw, 1)
    if missing := [column for column in columns_of("documents", task.columns) if column not in values]:
        return _reject(source, place, "missing_field", f"the record has no {', '.join(missing)}", raw, 1)
    document_id, text = values[task.columns.id], values[task.columns.text]
    checked = check_record(Record(source, place, document_id, text, raw), seen)
    if isinstance(checked, Reject):
        return checked
    record, _ = checked
    try:
        entities = parse_entities(values[ENTITIES], arrays=True)
        return GoldDocument(record.document_id, source, place, record.text, entities)
    except RecordProblem as error:
        rejected = _reject(source, place, "bad_annotation", str(error), raw, 1)
        return replace(rejected, document_id=record.document_id, n_characters=len(record.text))


def _foreign(shard: Shard, task: AnnotatedTask) -> Iterator[GoldDocument | Reject]:
    """Yield the documents of a file in the format of another tool. Texts are split again, as those to tag will be."""
    name, seen = shard.format.partition(".")[2], set[str]()
    id_column = None if task.columns.make_ids else task.columns.id
    options = ReadOptions(task.scheme, task.token_column, task.tag_column, id_column, task.columns.text, "longest")
    of_words = FORMATS[name].needs_words or name == "parquet"
    try:
        for place, document in enumerate(_undamaged(shard.source, FORMATS[name].reader, options)):
            if isinstance(document, BadRecord):
                # A bad sentence does not cost its document.
                n_documents = 0 if FORMATS[name].needs_words else 1
                yield _reject(shard.source, document.place, "bad_annotation", document.problem, None, n_documents)
                continue
            checked = check_record(Record(shard.source, place, document.document_id, document.text, None), seen)
            if isinstance(checked, Reject):
                yield checked
            elif of_words and document.sentences is not None:
                sentences, _ = word_sentences(document)
                rows = [place] * len(sentences)
                text = "\n".join(" ".join(sentence.words) for sentence in sentences)
                yield GoldDocument(document.document_id, shard.source, place, text, [], sentences, rows)
            else:
                entities = [Span(each.char_start, each.char_end, each.label) for each in document.entities]
                yield GoldDocument(document.document_id, shard.source, place, document.text, entities)
        if count := options.left_out["discontinuous"]:
            message = f"entities of several parts can't be learned, and {count:,} were left out"
            yield _reject(shard.source, 0, "discontinuous", message, None)
    except CoreError as error:
        yield _reject(shard.source, 0, "damaged_file", str(error), None)


def _undamaged(path: str, read: Reader, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    with damage_as_errors(path):
        yield from read(source_of(path), options)


def _sentences(shard: Shard, records: Iterable[_Values | Reject]) -> Iterator[_Placed | Reject]:
    kind, order = shard.format.partition(".")[2], DocumentOrder()
    for item in records:
        if isinstance(item, Reject):
            yield replace(item, n_documents=0)
            continue
        place, raw, values = item
        try:
            if kind == "parquet" and type(values["document_id"]) is int:  # some data sets number their documents
                values["document_id"] = str(values["document_id"])
            yield place, sentence_of(values, order)
        except RecordProblem as error:
            yield _reject(shard.source, place, "bad_sentence", str(error), raw)


def _conll(shard: Shard, task: AnnotatedTask) -> Iterator[_Placed | Reject]:
    with open_input(shard.source) as file:
        lines = decompressed(file, shard.format)
        line = 0
        try:
            for line, record in conll_records(lines, str(task.scheme), task.token_column, task.tag_column):
                yield _placed(shard.source, line, record)
        except DamagedFile as error:
            message = f"cannot read anything after the sentence at line {line:,}: {error}"
            yield _reject(shard.source, line, "damaged_file", message, None)


def _dataset(shard: Shard, task: AnnotatedTask) -> Iterator[_Placed | Reject]:
    for row, record in enumerate(dataset_records(Path(shard.source), task.scheme)):
        yield _placed(shard.source, row, record)


def _placed(source: str, place: int, record: Sentence | BadRecord) -> _Placed | Reject:
    if isinstance(record, BadRecord):
        return _reject(source, record.place, "bad_sentence", record.problem, None)
    return place, record


def _joined(source: str, records: Iterator[_Placed | Reject]) -> Iterator[GoldDocument | Reject]:
    """Yield documents made of consecutive sentences, and rejects in between."""
    held: list[Reject] = []

    def good() -> Iterator[_Placed]:
        for item in records:
            if isinstance(item, Reject):
                held.append(item)
            else:
                yield item

    for document_id, members in groupby(good(), key=lambda item: item[1].document_id):
        places, sentences = zip(*members, strict=True)
        text = "\n".join(" ".join(sentence.words) for sentence in sentences)
        yield from held
        held.clear()
        yield GoldDocument(document_id, source, places[0], text, [], list(sentences), list(places))
    yield from held


def _reject(source: str, place: int, code: str, message: str, raw: bytes | None, n_documents: int = 0) -> Reject:
    return Reject(None, source, place, "read", code, message, raw_head(raw), n_documents=n_documents)
