"""Folders of Hugging Face `datasets`, as `save_to_disk` writes them: tokens and `ner_tags`, a ClassLabel."""

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

from spanmarker_core.data.hf import dataset_records
from spanmarker_core.data.records import BadRecord, RecordProblem, Sentence, check_entities
from spanmarker_core.formats.conll import tags_of
from spanmarker_core.formats.document import AnnotatedDocument, BadRow, joined_documents
from spanmarker_core.formats.folders import Opener
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.words import word_sentences
from spanmarker_core.text.tag_schemes import OUTSIDE, check_tag_scheme

_DATA = "data-00000-of-00001.arrow"
_BATCH_ROWS = 1000
_SCHEMA = pa.schema(
    {"document_id": pa.string(), "sentence_id": pa.int32(), "tokens": pa.list_(pa.string())}
    | {"ner_tags": pa.list_(pa.int64())}
)


def read_dataset(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read a folder row by row; rows of one document, if the folder names documents, are joined.

    Args:
        source: a local folder.
        options: names the scheme.

    Raises:
        CoreError: see `dataset_records`.
    """

    def checked() -> Iterator[Sentence | BadRecord]:
        for row, record in enumerate(dataset_records(Path(source.path), options.scheme)):
            try:
                yield BadRow(row, record.problem) if isinstance(record, BadRecord) else check_entities(record)
            except RecordProblem as error:
                yield BadRow(row, str(error))

    yield from joined_documents(checked())


def write_dataset(documents: Iterable[AnnotatedDocument], open: Opener, options: WriteOptions) -> None:
    """Write a folder for `datasets.load_from_disk`, with one row per sentence.

    Args:
        documents: documents with sentences and flat entities.
        open: opens a file of the output.
        options: names the scheme.

    Raises:
        CoreError: `call.unknown_option`, `format.adjacent`.
    """
    scheme = check_tag_scheme(options.scheme)
    classes = {OUTSIDE: 0}  # in order of appearance, so that rows can be written before all are known
    with open(_DATA) as file, pa.ipc.new_stream(file, _SCHEMA) as stream:
        rows: list[dict[str, Any]] = []
        digest = blake2b(digest_size=8)
        for document in documents:
            for sentence in word_sentences(document)[0]:
                tags = tags_of(sentence, scheme)
                numbers = [classes.setdefault(tag, len(classes)) for tag in tags]
                ids = {"document_id": sentence.document_id, "sentence_id": sentence.sentence_id}
                rows.append({**ids, "tokens": sentence.words, "ner_tags": numbers})
                digest.update(json.dumps([*rows[-1].values(), tags]).encode())
                if len(rows) == _BATCH_ROWS:
                    stream.write_batch(pa.RecordBatch.from_pylist(rows, _SCHEMA))
                    rows = []
        if rows:
            stream.write_batch(pa.RecordBatch.from_pylist(rows, _SCHEMA))
    text = {"dtype": "string", "_type": "Value"}
    features = {
        "document_id": text,
        "sentence_id": {"dtype": "int32", "_type": "Value"},
        "tokens": {"feature": text, "_type": "Sequence"},
        "ner_tags": {"feature": {"names": list(classes), "_type": "ClassLabel"}, "_type": "Sequence"},
    }
    state: dict[str, Any] = {
        "_data_files": [{"filename": _DATA}],
        "_fingerprint": digest.hexdigest(),  # `datasets` names cached results by it
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, value in (("dataset_info.json", {"features": features}), ("state.json", state)):
        with open(name) as file:
            file.write(json.dumps(value, ensure_ascii=False).encode())
