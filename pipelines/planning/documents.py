"""Planning of documents: inputs -> a saved plan of bounded shards.

Every later step reads the plan, so no engine decides how the work is divided.

How files are cut (`pipelines.stages.formats` lists the formats):

- Parquet: by rows; small row groups are kept whole, large ones are divided.
- JSON lines: byte ranges that end at a newline. Ranges are counted from the file's start, so appended lines
  leave earlier full ranges unchanged.
- Text files: each file is a document; its id is its path below the folder before the pattern's first wildcard
  ("docs/**/*.txt" gives "a/b.txt"), or below the folder that is the input. A shard is a group of files.
- All others can't be read from the middle: one shard per file, read as a stream.
- A file that can't be opened in its format, or lacks the columns that other files have, becomes a shard that will
  write one reject.

Each file is examined in an isolated process, so a file that crashes the library that reads it is also rejected.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from pipelines.planning.files import Range
from pipelines.planning.plan import InputData, plan
from pipelines.planning.ranges import Layout, check_columns, file_ranges
from pipelines.stages.columns import is_id, is_text
from pipelines.stages.formats import ENDINGS, kind_of
from pipelines.storage.fingerprint import field_at
from pipelines.task import Columns
from schemas.shards import Shard


def plan_shards(patterns: Iterable[str], form: str | None = None, **options: Any) -> Iterator[Shard]:
    """Yield the shards of all documents that match some patterns, sorted by path.

    Args:
        patterns: paths or URLs of files and folders, with wildcards; - is standard input.
        form: the format of all files; None goes by their names.
        options: the other arguments of `pipelines.planning.plan.plan`.

    Raises:
        PipelineError: `input.*`.
    """
    named = partial(kind_of, given=form)
    data = InputData(ENDINGS, named, "input.unknown_format", "input.bad_columns", document_ranges)
    return plan(data, patterns, **options)


def document_ranges(path: str, size: int, kind: str, columns: Columns, max_shard_bytes: int) -> Iterator[Range]:
    """Yield the ranges of a file that become shards. Runs in an isolated process.

    Args:
        path: the file.
        size: its size in bytes.
        kind: its format as named, with its compression.
        columns: columns or keys of ids and texts.
        max_shard_bytes: approximate size of a shard, in bytes.

    Raises:
        BadColumns: the file lacks a column or stores it with another type.
        Unreadable: the file is not sound.
        OSError: the storage failed.
    """

    def layout_of(names: list[str], schema: pa.Schema | None) -> Layout:
        fits = {columns.id: is_id, columns.text: is_text}
        if columns.language is not None:
            fits[columns.language] = is_text
        has_id = columns.id in names if schema is None else field_at(schema, columns.id) is not None
        if columns.make_ids and not has_id:
            del fits[columns.id]
        check_columns(names, schema, fits)
        return Layout(columns.read)

    nullable = tuple(column for column in (columns.id, columns.text, columns.language) if column is not None)
    return file_ranges(path, size, kind, columns.read, layout_of, max_shard_bytes, nullable)
