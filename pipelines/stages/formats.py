"""Formats of documents: the one list of what can be read, how it is named, cut and read.

A shard's format is the name of a format, and for compressed files a dot and the compression: `csv`, `jsonl.gz`. JSON
lines in UTF-16 have the format `jsonl.utf16`: like compressed files, they can't be read from the middle.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal

import pyarrow as pa

from pipelines.stages.arrow_rows import arrow_reader, arrow_rows
from pipelines.stages.csv_rows import csv_header, csv_rows
from pipelines.stages.lines import json_lines
from pipelines.stages.records import Reject
from pipelines.stages.row_groups import parquet_rows
from pipelines.stages.web_archive import archive_head, archive_records
from pipelines.task import Columns
from schemas.shards import Shard
from spanmarker_core.data.blocks import COMPRESSIONS, content, encoding_of, uncompressed_name, with_head
from spanmarker_core.data.json_values import is_json_value, json_head
from spanmarker_core.data.jsonl import LINE_ENDINGS

Rows = tuple[int, pa.RecordBatch]  # number of the first row, rows
Values = tuple[int, bytes | None, Any]  # place in the source, bytes of the record, values by key


@dataclass(frozen=True, slots=True)
class Format:
    """A format of documents.

    Attributes:
        title: name for messages.
        endings: endings of file names, without that of the compression; none if the content determines the format.
        cut: how a file becomes shards: by its "rows" or "lines"; the "whole" file, read as a stream, is one shard;
            "files": each file is a document, and a shard is a group of them.
        tables: reads a shard of a table: called with the shard and the paths of the columns.
        records: reads a shard of records: called with the shard and the columns. A format of texts has neither.
        compressed: whether files may be compressed.
    """

    title: str
    endings: tuple[str, ...]
    cut: Literal["rows", "lines", "whole", "files"]
    tables: Callable[[Shard, Iterable[str]], Iterator[Rows | Reject]] | None = None
    records: Callable[[Shard, Columns], Iterator[Values | Reject]] | None = None
    compressed: bool = True


def _json_records(shard: Shard, columns: Columns) -> Iterator[Values | Reject]:
    return json_lines(shard, columns.id)


def _csv_records(shard: Shard, columns: Columns) -> Iterator[Values | Reject]:
    return csv_rows(shard)


def _archive_records(shard: Shard, columns: Columns) -> Iterator[Values | Reject]:
    return archive_records(shard)


FORMATS = {
    "parquet": Format("Parquet", (".parquet",), "rows", tables=parquet_rows, compressed=False),
    "jsonl": Format("JSON lines", (*LINE_ENDINGS, ".json"), "lines", records=_json_records),
    "json": Format("JSON", (), "whole", records=_json_records),
    "csv": Format("CSV", (".csv",), "whole", records=_csv_records),
    "tsv": Format("TSV", (".tsv",), "whole", records=_csv_records),
    "arrow": Format("Arrow", (".arrow", ".feather"), "whole", tables=arrow_rows, compressed=False),
    "warc": Format("WARC", (".wet", ".warc"), "whole", records=_archive_records),
    "text": Format("text", (".txt", ".md"), "files"),
}

#: Endings of file names, without those of compressions.
ENDINGS = tuple(ending for form in FORMATS.values() for ending in form.endings)


def format_named(kind: str) -> Format:
    """Return the format of a shard or of a file.

    Args:
        kind: its name, with or without a compression.
    """
    return FORMATS[kind.partition(".")[0]]


def kind_of(path: str, given: str | None = None) -> str | None:
    """Return the format of a file, with its compression; None if its name has no known ending.

    Args:
        path: a path or URL.
        given: name of the format, whatever the name of the file; without a compression, the name's ending determines
            the compression.

    >>> kind_of("a/b.json.gz"), kind_of("a/b.doc"), kind_of("a/b.doc", "csv"), kind_of("b.GZ", "jsonl")
    ('jsonl.gz', None, 'csv', 'jsonl.gz')
    """
    if given is not None and "." in given:
        return given
    name, compression = uncompressed_name(path.lower())
    base = given or next((base for base, form in FORMATS.items() if name.endswith(form.endings)), None)
    if base is None or not compression:
        return base
    if not FORMATS[base].compressed:
        return given  # None if only the name says what it is
    return f"{base}.{compression}"


def is_format(name: str) -> bool:
    """Return whether a name is that of a format, with or without a compression.

    Args:
        name: the name.
    """
    base, dot, compression = name.partition(".")
    return base in FORMATS and (not dot or (FORMATS[base].compressed and compression in COMPRESSIONS))


@dataclass(frozen=True, slots=True)
class Examined:
    """Beginning of a file.

    Attributes:
        kind: the format that the content has.
        schema: schema of a table; None for other files.
        names: the columns of a table, the header of CSV, or the keys of the first JSON records; empty for web archives,
            whose records differ.
        records: values of the first records; of CSV one, with an empty value for each column.
    """

    kind: str
    schema: pa.Schema | None = None
    names: tuple[str, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()


def examined(file: IO[bytes], kind: str) -> Examined:
    """Return the format, columns and first records of a file.

    Args:
        file: the file, seekable; not Parquet.
        kind: its format as named.

    Raises:
        pa.ArrowException, OSError: an Arrow file is damaged, or the storage failed.
    """
    base, _, compression = kind.partition(".")
    if base == "arrow":
        schema = arrow_reader(file).schema
        return Examined(kind, schema, tuple(schema.names))
    if base in ("csv", "tsv"):
        header = csv_header(file, kind)
        return Examined(kind, None, tuple(header), (dict.fromkeys(header, ""),))
    if base == "text":
        return Examined(kind)
    start, _ = with_head(content(file, kind))
    if base == "warc":
        return Examined(kind, records=tuple(archive_head(start)))
    file.seek(0)
    if not compression and encoding_of(file.read(4)) is not None:
        kind = f"{base}.utf16"
    if is_json_value(start):
        kind = "json" + kind.removeprefix(base)
    records = json_head(start)
    return Examined(kind, None, tuple(dict.fromkeys(key for record in records for key in record)), tuple(records))
