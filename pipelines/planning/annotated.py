"""Planning of annotated inputs: bounded shards that never divide a document. How files are cut:

- Documents, JSONL and Parquet: as `pipelines.planning.documents` cuts unannotated documents, by bytes and by rows.
- Sentences, JSONL: at a newline once the shard is large enough, and from there at the next line of another document.
- Sentences, Parquet: the same with rows.
- Files that can't be read from the middle are one shard each: compressed JSONL, CoNLL files, folders saved by
  `datasets`, and files in the formats of other tools (`spanmarker_core.formats`).

The keys or columns of a JSONL or Parquet file determine its form: sentences have `tokens`, documents have a text. Files
with other keys, such as those of annotation tools, or without ids, are read by `spanmarker_core.formats`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.planning.files import Range
from pipelines.planning.inputs import BadColumns
from pipelines.planning.plan import InputData, plan
from pipelines.planning.ranges import Layout, check_columns, file_ranges, is_string
from pipelines.stages.read_annotated import (
    ENTITIES,
    columns_of,
    dataset_content,
    foreign_content,
    is_dataset,
    open_content,
    source_of,
)
from pipelines.storage import ContentIdentity, exists, open_input
from pipelines.task import Columns
from schemas.shards import Shard
from spanmarker_core.data.blocks import COMPRESSIONS, damage_as_errors
from spanmarker_core.data.hf import dataset_records
from spanmarker_core.data.jsonl import LINE_ENDINGS, SENTENCE_KEYS
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.detect import format_of, is_companion
from spanmarker_core.formats.json_files import JsonFile
from spanmarker_core.formats.options import ReadOptions
from spanmarker_core.formats.registry import FORMATS, scheme_needed
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, check_tag_scheme

#: Endings of compressed files, and none.
_PACKED = ("", *(f".{compression}" for compression in COMPRESSIONS))

#: File name ending -> kind of our own files and of CoNLL, part of a shard's format; see
#: `pipelines.stages.read_annotated`.
_OUR_KINDS = {
    ".parquet": "parquet",
    **{f"{ending}{packed}": f"jsonl{packed}" for ending in LINE_ENDINGS for packed in _PACKED},
    **{f"{ending}{packed}": f"conll{packed}" for ending in FORMATS["conll"].endings for packed in _PACKED},
}

_OTHER_ENDINGS = [
    *(ending for each in FORMATS.values() for ending in each.endings),
    *_PACKED[1:],
]
#: File name ending -> kind of any annotated file.
KINDS = _OUR_KINDS | {ending: "other" for ending in _OTHER_ENDINGS if ending not in _OUR_KINDS}

#: Formats of shards with tags; the others hold spans.
_TAGGED = ("sentences.dataset", "formats.tags", "formats.conllu", "formats.parquet")

#: Formats of files whose form is one of our own.
_OUR_FORMS = ("formats.jsonl", "formats.sentences", "formats.parquet")


def plan_annotated(patterns: Iterable[str], *, scheme: str | None, **options: Any) -> Iterator[Shard]:
    """Yield the shards of all annotated data that match some patterns, sorted by path.

    Args:
        patterns: paths or URLs with wildcards.
        scheme: tag scheme; None for data without tags.
        options: the other arguments of `pipelines.planning.plan.plan`.

    Raises:
        PipelineError: `input.*`.
        CoreError: `data.scheme_needed`, or `data.scheme_mismatch`, also if no file uses the scheme.
    """
    first, tagged = None, False
    for shard in plan(_ANNOTATED, patterns, scheme, **options):
        first = first or shard.source
        tagged = tagged or shard.format in _TAGGED or shard.format.startswith("sentences.conll")
        yield shard
    if scheme not in (None, "spans") and not tagged:
        raise CoreError("data.scheme_mismatch", path=first, holds="spans", scheme=scheme, schemes="spans, or none")


def _kind_of(path: str) -> str | None:
    return next((kind for ending, kind in KINDS.items() if path.lower().endswith(ending)), None)


def _is_part(path: str) -> bool:
    return is_companion(path, exists)


def _ranges(
    path: str, size: int, kind: str, columns: Columns, max_shard_bytes: int, scheme: str | None
) -> Iterator[Range]:
    """Yield the ranges of a file or folder that become shards. Runs in an isolated process."""

    def layout_of(names: list[str], schema: pa.Schema | None) -> Layout:
        form = _form(names, columns.text)
        needed = columns_of(form, columns)
        check_columns(names, schema, dict(zip(needed, _TYPES[form], strict=True)))
        return Layout(needed, f"{form}.", "document_id" if form == "sentences" else None)

    if kind == "folder":
        dataset_records(path, scheme)  # raises an error if the folder can't be read
        n_bytes = sum(file.stat().st_size for file in Path(path).iterdir())
        yield "sentences.dataset", 0, 0, n_bytes, dataset_content(path)
    elif kind.startswith("conll"):
        if scheme is None:
            raise scheme_needed(source_of(path), "conll", ReadOptions())
        check_tag_scheme(scheme)
        with open_input(path) as file:
            yield f"sentences.{kind}", 0, size, size, ContentIdentity(path, file).of([(0, size)])
    elif kind == "other":
        yield _foreign(path, size, columns, scheme)
    else:
        possible = (columns.id, columns.text, *SENTENCE_KEYS, ENTITIES)
        try:
            yield from file_ranges(path, size, kind, possible, layout_of, max_shard_bytes)
        except BadColumns:
            foreign = None
            with suppress(BadColumns):
                foreign = _foreign(path, size, columns, scheme)
            if foreign is None or (foreign[0] in _OUR_FORMS and not _lacks_only_ids(path, columns)):
                raise
            yield foreign


def _foreign(path: str, size: int, columns: Columns, scheme: str | None) -> Range:
    """Return the range of a file in the format of another tool, which is all of it.

    Raises:
        BadColumns: its format is unknown.
        CoreError: `data.scheme_needed`.
    """
    options = ReadOptions(scheme, id_column=None if columns.make_ids else columns.id, text_column=columns.text)
    source = source_of(path)
    try:
        with damage_as_errors(path):
            name = format_of(source, options)
        if name == "parquet":
            next(FORMATS[name].reader(source, options), None)  # finds out whether it has the columns
    except CoreError as error:
        if error.code == "data.scheme_needed":
            raise scheme_needed(source, name, options) from None
        raise BadColumns(str(error.values.get("reason", error))) from error
    if name == "tags" and scheme not in TAG_SCHEMES:
        raise scheme_needed(source, name, options)
    return f"formats.{name}", 0, size, size, foreign_content(path)


def _lacks_only_ids(path: str, columns: Columns) -> bool:
    """Return whether a file of our own forms was refused only because it has no ids, which are optional.

    A column of ids that the user named must be there.
    """
    with open_content(path) as file:
        if path.lower().endswith(".parquet"):
            names = set(pq.read_schema(file).names)
        else:
            record = next(iter(JsonFile(file)), (0, None))[1]
            names = set(record) if isinstance(record, dict) else set()
    if "tokens" in names:
        return columns.text not in names and not {"document_id", "sentence_id"} & names
    return columns.id == "id" and columns.id not in names


def _form(names: list[str], text_column: str) -> str:
    """Return the form of data with these keys or columns; data without records counts as documents.

    Raises:
        BadColumns: the form can't be determined.
    """
    if not names:
        return "documents"
    forms = {"sentences": "tokens", "documents": text_column}
    possible = [form for form, column in forms.items() if column in names]
    if len(possible) != 1:
        both = " and ".join(repr(column) for column in forms.values())
        raise BadColumns(f"it has {'both' if possible else 'neither'} of {both}; its columns are {', '.join(names)}")
    return possible[0]


def _is_list(kind: pa.DataType, fits: Callable[[pa.DataType], bool]) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in lists) and fits(kind.value_type)


def _is_entity(kind: pa.DataType) -> bool:
    fits = {"start": pa.types.is_integer, "end": pa.types.is_integer, "label": is_string}
    if not pa.types.is_struct(kind):
        return False
    fields = {kind.field(number).name: kind.field(number).type for number in range(kind.num_fields)}
    return all(name in fields and is_right(fields[name]) for name, is_right in fits.items())


def _is_id(kind: pa.DataType) -> bool:
    return is_string(kind) or pa.types.is_integer(kind)


def _are_words(kind: pa.DataType) -> bool:
    return _is_list(kind, is_string)


def _are_entities(kind: pa.DataType) -> bool:
    return _is_list(kind, _is_entity)


#: Checks of the types of `columns_of`, by form.
_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "documents": (_is_id, is_string, _are_entities),
    "sentences": (_is_id, pa.types.is_integer, _are_words, _are_entities),
}

_ANNOTATED = InputData(
    tuple(KINDS), _kind_of, "input.not_annotated", "input.bad_annotated", _ranges, is_dataset, _is_part
)
