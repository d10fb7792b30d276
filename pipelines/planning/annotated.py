"""Planning of annotated inputs: bounded shards that never divide a document. How files are cut:

- Documents, JSONL and Parquet: as `pipelines.planning.documents` cuts unannotated documents, by bytes and by rows.
- Sentences, JSONL: at a newline once the shard is large enough, and from there at the next line of another document.
- Sentences, Parquet: the same with rows.
- Files that can't be read from the middle are one shard each: compressed JSONL, CoNLL files, folders saved by
  `datasets`, and files in the formats of other tools (`spanmarker_core.formats`).

The keys or columns of a JSONL or Parquet file determine its form: sentences have `tokens`, documents have a text. Files
with other keys, such as those of annotation tools, or without ids, are read by `spanmarker_core.formats`.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.planning.documents import HEAD_BYTES, decompressed_head, is_string, keys_in, line_ranges, whole_line
from pipelines.planning.files import Range, file_shards, unreadable_shard
from pipelines.planning.inputs import BadColumns, Faults, input_files, refuse, refuse_nothing
from pipelines.planning.parquet import opened_parquet, parquet_ranges
from pipelines.stages.read_annotated import ENTITIES, columns_of, dataset_content, foreign_content, source_of
from pipelines.storage import ContentIdentity, exists, is_storage_error, open_input, resolve
from pipelines.storage.fingerprint import groups_in, parquet_content
from pipelines.storage.globs import patterns_of
from pipelines.storage.urls import is_local
from schemas.shards import Shard
from spanmarker_core.data import CONLL_SUFFIXES
from spanmarker_core.data.hf import dataset_records, is_dataset_folder
from spanmarker_core.data.jsonl import SENTENCE_KEYS
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.detect import format_of, is_companion
from spanmarker_core.formats.json_files import JsonFile
from spanmarker_core.formats.opening import decompressed
from spanmarker_core.formats.options import ReadOptions
from spanmarker_core.formats.registry import FORMATS
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, check_tag_scheme

#: File name ending -> kind of the file, part of a shard's format; see `pipelines.stages.read_annotated`.
KINDS = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".jsonl.zst": "jsonl.zst",
    **dict.fromkeys(CONLL_SUFFIXES, "conll"),
}

#: Formats of shards with tags; the others hold spans.
_TAGGED = ("sentences.conll", "sentences.dataset", "formats.tags", "formats.conll", "formats.conllu", "formats.parquet")


def plan_annotated(
    patterns: Iterable[str],
    *,
    output: str,
    id_column: str,
    text_column: str,
    scheme: str | None,
    max_shard_bytes: int,
    job: str,
    max_bytes: int = 0,
) -> Iterator[Shard]:
    """Yield the shards of all annotated data that match some patterns, sorted by path.

    A file that lacks columns becomes a shard of format `unreadable`, unless all files lack them.

    Args:
        patterns: paths or URLs with wildcards.
        output: the output folder, which must not hold inputs.
        id_column: column or key of the ids of documents.
        text_column: column or key of their texts.
        scheme: tag scheme; None for data without tags.
        max_shard_bytes: approximate size of a shard, in bytes.
        job: digest of the job identity, part of each shard's name.
        max_bytes: limit of the memory for examining a file, in bytes; 0 means no limit.

    Raises:
        PipelineError: `input.*`; faults of files are collected over all files before they are raised.
        CoreError: `data.scheme_needed`, or `data.scheme_mismatch`, also if no file uses the scheme.
    """
    known = patterns_of(list(patterns))
    faults: Faults = {"input.not_a_file": [], "input.not_annotated": [], "input.bad_annotated": []}
    found, fits, tagged = None, False, False
    inside = output.rstrip("/") + "/"
    for path, size, _ in input_files(known, inside, faults["input.not_a_file"], _is_dataset):
        found = found or path
        try:
            args = ((id_column, text_column), scheme, max_shard_bytes)
            for shard in file_shards(path, size, job, max_bytes, _ranges, *args):
                tagged = tagged or shard.format in _TAGGED
                fits = fits or shard.format != "unreadable"
                yield shard
        except BadColumns as error:
            faults["input.bad_annotated"].append(f"{path}: {error}")
            yield unreadable_shard(path, size, job, str(error))
        except _NotAnnotated:
            faults["input.not_annotated"].append(path)
        except OSError as error:
            raise PipelineError("input.not_readable", path=path, reason=error) from error
    if found is None:
        refuse_nothing(known, faults)
    if fits:
        del faults["input.bad_annotated"]
    endings = dict.fromkeys([*KINDS, *(ending for each in FORMATS.values() for ending in each.endings)])
    refuse(faults, endings, id_column, text_column)
    if scheme not in (None, "spans") and not tagged:
        raise CoreError("data.scheme_mismatch", path=found, holds="spans", scheme=scheme, schemes="spans, or none")


class _NotAnnotated(Exception):
    pass


def _is_dataset(folder: str) -> bool:
    fs, path = resolve(folder)
    return is_local(fs) and is_dataset_folder(Path(path))


def _ranges(
    path: str, size: int, columns: tuple[str, str], scheme: str | None, max_shard_bytes: int
) -> Iterator[Range]:
    """Yield the format and the range of each shard of a file or folder."""
    if _is_dataset(path):
        dataset_records(path, scheme)  # raises an error if the folder can't be read
        n_bytes = sum(file.stat().st_size for file in Path(path).iterdir())
        yield "sentences.dataset", 0, 0, n_bytes, dataset_content(path)
        return
    kind = next((kind for ending, kind in KINDS.items() if path.lower().endswith(ending)), None)
    if is_companion(path, exists):
        return
    if kind is None:
        yield _foreign(path, size, columns, scheme) or _raise(_NotAnnotated())
        return
    try:
        yield from _native_ranges(path, size, kind, columns, scheme, max_shard_bytes)
    except BadColumns as error:
        yield _foreign(path, size, columns, scheme) or _raise(error)


def _raise(error: Exception) -> Range:
    raise error


def _foreign(path: str, size: int, columns: tuple[str, str], scheme: str | None) -> Range | None:
    """Return the shard of a file in the format of another tool, or None if it has none."""
    options = ReadOptions(scheme, id_column=columns[0], text_column=columns[1])
    source = source_of(path)
    try:
        name = format_of(source, options)
        if name == "parquet":
            next(FORMATS[name].reader(source, options), None)  # finds out whether it has the columns
    except CoreError as error:
        if error.code == "data.scheme_needed":
            raise
        return None
    if name in ("jsonl", "sentences", "parquet") and not _lacks_only_ids(path, columns):
        return None
    if name in ("tags", "conll") and scheme not in TAG_SCHEMES:
        raise CoreError("data.scheme_needed", path=path, schemes=", ".join(TAG_SCHEMES))
    return f"formats.{name}", 0, size, size, foreign_content(path)


def _lacks_only_ids(path: str, columns: tuple[str, str]) -> bool:
    """Return whether a file of our own forms was refused only because it has no ids, which are optional.

    A column of ids that the user named must be there.
    """
    with open_input(path) as file:
        if path.lower().endswith(".parquet"):
            names = set(pq.read_schema(file).names)
        else:
            record = next(iter(JsonFile(decompressed(file, path))), (0, None))[1]
            names = set(record) if isinstance(record, dict) else set()
    ids, text = columns
    if "tokens" in names:
        return text not in names and not {"document_id", "sentence_id"} & names
    return ids == "id" and ids not in names


def _native_ranges(
    path: str, size: int, kind: str, columns: tuple[str, str], scheme: str | None, max_shard_bytes: int
) -> Iterator[Range]:
    """Yield the format and the range of each shard of a file in one of our own formats, or of a CoNLL file."""
    with open_input(path) as file:
        content = ContentIdentity(path, file)
        if kind == "parquet":
            parquet = opened_parquet(file, size, (*columns, *SENTENCE_KEYS, ENTITIES))
            form = _form_of_schema(parquet.schema_arrow, columns)
            for range_ in _parquet(parquet, content, form, columns, max_shard_bytes):
                yield f"{form}.parquet", *range_
        elif kind == "jsonl":
            form = _form(keys_in(file.read(HEAD_BYTES)), columns)
            cut = _document_ranges if form == "sentences" else line_ranges
            for start, end in cut(file, size, max_shard_bytes):
                yield f"{form}.jsonl", start, end, end - start, content.of([(start, end)])
        else:
            if kind == "conll":
                if scheme is None:
                    raise CoreError("data.scheme_needed", path=path, schemes=", ".join(TAG_SCHEMES))
                check_tag_scheme(scheme)
                form = "sentences"
            else:
                form = _form(keys_in(decompressed_head(file, kind)), columns)
            yield f"{form}.{kind}", 0, size, size, content.of([(0, size)])


def _form(names: Iterable[str], columns: tuple[str, str]) -> str:
    """Return the form of data with these keys or columns; data without records counts as documents.

    Raises:
        BadColumns: the form can't be determined, or columns are missing.
    """
    names = list(names)
    if not names:
        return "documents"
    forms = {"sentences": "tokens", "documents": columns[1]}
    possible = [form for form, column in forms.items() if column in names]
    if len(possible) != 1:
        both = " and ".join(repr(column) for column in forms.values())
        raise BadColumns(f"it has {'both' if possible else 'neither'} of {both}; it has {', '.join(names)}")
    if missing := [repr(column) for column in columns_of(possible[0], *columns) if column not in names]:
        raise BadColumns(f"no {', '.join(missing)}; it has {', '.join(names)}")
    return possible[0]


def _form_of_schema(schema: pa.Schema, columns: tuple[str, str]) -> str:
    """Return the form of a table, after checking the types of its columns."""
    form = _form(schema.names, columns)
    is_integer = pa.types.is_integer

    def is_list(kind: pa.DataType, fits: Any) -> bool:
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(kind) for test in lists) and fits(kind.value_type)

    def is_entity(kind: pa.DataType) -> bool:
        wanted = {"start": is_integer, "end": is_integer, "label": is_string}
        if not pa.types.is_struct(kind):
            return False
        found = {kind.field(number).name: kind.field(number).type for number in range(kind.num_fields)}
        return all(name in found and fits(found[name]) for name, fits in wanted.items())

    def is_id(kind: pa.DataType) -> bool:
        return is_string(kind) or is_integer(kind)

    tests: dict[str, Any] = {
        "documents": (is_id, is_string),
        "sentences": (is_id, is_integer, lambda kind: is_list(kind, is_string)),
    }
    named = columns_of(form, *columns)
    fits = (*tests[form], lambda kind: is_list(kind, is_entity))
    kinds = [schema.field(name).type if schema.names.count(name) == 1 else None for name in named]
    bad = [name for name, kind, test in zip(named, kinds, fits, strict=True) if kind is None or not test(kind)]
    if bad:
        raise BadColumns(", ".join(f"{name!r} is {schema.field(name).type}" for name in bad))
    return form


def _parquet(
    parquet: pq.ParquetFile, content: ContentIdentity, form: str, columns: tuple[str, str], max_shard_bytes: int
) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, bytes and content of ranges of rows that do not divide a document."""
    named = columns_of(form, *columns)
    ranges = parquet_ranges(parquet, content, named, max_shard_bytes)
    if form == "documents":
        yield from ranges
        return
    total, start = parquet.metadata.num_rows, 0
    for _, cut, n_bytes, _ in ranges:
        end = _next_document_row(parquet, cut) if cut < total else total
        if end > start or not total:
            groups = groups_in(parquet.metadata, start, end)
            yield start, end, n_bytes, parquet_content(parquet, content, named, groups)
        start = max(start, end)


def _next_document_row(parquet: pq.ParquetFile, row: int) -> int:
    """Return the first row after `row` that belongs to another document, or the number of rows."""
    first_of_group, document_id = 0, None
    for group in range(parquet.num_row_groups):
        n_rows = parquet.metadata.row_group(group).num_rows
        if first_of_group + n_rows > row:
            ids = _document_ids(parquet, group)
            for place in range(max(0, row - first_of_group), n_rows):
                document_id = ids[place] if document_id is None else document_id
                if ids[place] is not None and ids[place] != document_id:
                    return first_of_group + place
        first_of_group += n_rows
    return first_of_group


def _document_ids(parquet: pq.ParquetFile, group: int) -> list[Any]:
    """Return the ids in a row group; if it can't be read, Nones, so that the shard extends beyond it."""
    try:
        ids = parquet.read_row_group(group, columns=["document_id"])["document_id"].to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and is_storage_error(error):
            raise
        ids = []
    n_rows = parquet.metadata.row_group(group).num_rows
    return ids if len(ids) == n_rows else [None] * n_rows


def _document_ranges(file: IO[bytes], size: int, max_shard_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield byte ranges of at least `max_shard_bytes` that end where another document begins or the file ends."""
    start = 0
    while start < size:
        end = min(start + max_shard_bytes, size)
        if end < size:
            end = _next_document(file, whole_line(file, end))
        yield start, end
        start = end


def _next_document(file: IO[bytes], position: int) -> int:
    """Return the byte at which the first line of another document than that at `position` begins, or the file's end."""
    document_id = None
    file.seek(position)
    while line := file.readline():
        try:
            found = json.loads(line)["document_id"]
        except (ValueError, RecursionError, KeyError, TypeError):
            found = None  # an invalid record stays with the previous document
        document_id = found if document_id is None else document_id
        if found is not None and found != document_id:
            break
        position += len(line)
    return position
