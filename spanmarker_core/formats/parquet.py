"""Parquet files of documents, of sentences, or of tokens and `ner_tags` as `datasets` writes them."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spanmarker_core.data.blocks import is_storage_error
from spanmarker_core.data.hf import TAGS
from spanmarker_core.data.records import BadRecord
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, BadRow
from spanmarker_core.formats.options import DEFAULT_ID, ReadOptions, Source
from spanmarker_core.formats.records import documents_of

_BATCH_ROWS = 256


def read_parquet(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read a Parquet file row by row. Names of a ClassLabel come from the metadata that `datasets` writes.

    Args:
        source: the file.
        options: options of the reader.

    Raises:
        CoreError: `data.bad_dataset`, `data.scheme_needed`.
        OSError: the storage failed.
    """
    try:
        with source.open(source.path) as opened, pq.ParquetFile(opened) as file:
            schema = file.schema_arrow
            form = _form(source.path, schema, options)
            needed = {"tokens", TAGS, "entities", "document_id", "sentence_id"}
            needed |= {options.id_column or DEFAULT_ID, options.text_column}
            columns = [name for name in schema.names if name in needed]
            names = _class_names(schema) if form == "tags" else None
            rows = enumerate(
                row for batch in file.iter_batches(_BATCH_ROWS, columns=columns) for row in batch.to_pylist()
            )
            yield from documents_of(rows, form, source, options, BadRow, names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_storage_error(error):
            raise
        raise CoreError("data.bad_dataset", path=source.path, problem=f"it can't be read ({error})") from error


def _form(path: str, schema: pa.Schema, options: ReadOptions) -> str:
    names = schema.names
    if "tokens" in names and TAGS in names and options.scheme != "spans":
        return "tags"
    if "entities" in names and ("tokens" in names or options.text_column in names):
        return "sentences" if "tokens" in names else "documents"
    problem = f"it has neither tokens with {TAGS} or entities, nor {options.text_column} with entities, only {names}"
    raise CoreError("data.bad_dataset", path=path, problem=problem)


def _class_names(schema: pa.Schema) -> list[str] | None:
    """Return the names of the classes of `ner_tags`, or None if the file doesn't have them."""
    try:
        feature: Any = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][TAGS]
        feature = feature[0] if isinstance(feature, list) else feature["feature"]
        names = feature.get("names")
    except (KeyError, ValueError, TypeError, IndexError, AttributeError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None
