"""Reads annotated sentences for training and evaluation from data in any format."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from spanmarker_core.data.blocks import damage_as_errors, opened, uncompressed_name
from spanmarker_core.data.conll import read_conll
from spanmarker_core.data.hf import TAGS, is_dataset_folder, read_dataset_folder
from spanmarker_core.data.jsonl import LINE_ENDINGS, SENTENCE_KEYS, read_jsonl
from spanmarker_core.data.nearby import suggest_file
from spanmarker_core.data.records import Sentence
from spanmarker_core.errors import CoreError, CoreWarning
from spanmarker_core.formats.detect import format_of
from spanmarker_core.formats.document import AnnotatedDocument
from spanmarker_core.formats.flatten import shown
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.registry import FORMATS, read_documents, scheme_needed
from spanmarker_core.formats.words import with_words, word_sentences
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, scheme_called

_TAGGED = ("conll", "conllu", "tags")
_FOLDER_ENDINGS = tuple(ending for each in FORMATS.values() if each.one_file_per_document for ending in each.endings)


def read_annotated(
    path: str | Path,
    scheme: str | None = None,
    *,
    token_column: int | str | None = None,
    tag_column: int | str | None = None,
    language: str = "en",
    splitter: str = "words.v1",
) -> Iterator[Sentence]:
    """Read annotated sentences one by one.

    Texts without sentences and words are split into both. Entities that do not begin and end with words of one sentence
    are left out, and a `CoreWarning` at the end says how many.

    Args:
        path: the data, a file or folder in one of the formats of docs/reference/formats.md. The name determines the
            format, or for JSON the keys of the first record.
        scheme: tag scheme, such as "IOB2" or "BIOES", in upper or lower case; not needed for data that hold spans.
        token_column: CoNLL: column of the words; see `read_conll`.
        tag_column: CoNLL: column of the tags.
        language: ISO 639 code of texts that have no sentences.
        splitter: word splitter of the model that will use the sentences.

    Raises:
        CoreError: at once, `call.unknown_option`, `data.not_found`, `data.unknown_format`, `data.scheme_needed`,
            `data.scheme_mismatch`, `data.bad_dataset`; while reading, `data.bad_record` or `data.bad_row` at the first
            bad record, `data.bad_dataset`, `data.not_split`, `data.empty`.
    """
    path = Path(path)
    scheme = scheme_called(scheme) if scheme is not None else None
    if not path.exists():
        raise CoreError("data.not_found", path=path, suggestion=suggest_file(path))
    options = ReadOptions(scheme=scheme, token_column=token_column, tag_column=tag_column)
    if path.is_dir():
        if is_dataset_folder(path):
            return _not_empty(path, read_dataset_folder(path, scheme))
        files = sorted(file for file in path.rglob("*") if uncompressed_name(file.name)[0].endswith(_FOLDER_ENDINGS))
        if not files:
            raise CoreError("data.unknown_format", path=path)
        _check_scheme(path, files[0].suffix, scheme)
        documents = (
            document for file in files for document in read_documents(_source(file), format_of(_source(file)), options)
        )
        return _not_empty(path, _sentences(path, documents, language, splitter))
    name = _format_of(path)
    if name == "conll":
        if scheme is None:
            raise scheme_needed(_source(path), name, options)
        return _not_empty(path, read_conll(path, scheme, token_column=token_column, tag_column=tag_column))
    if name == "jsonl.ids":
        _check_scheme(path, name, scheme)
        return _not_empty(path, read_jsonl(path))
    if name == "parquet":
        native, tags = _parquet_columns(path)
        if native and scheme in (None, "spans"):
            from spanmarker_core.data.parquet import read_parquet

            return _not_empty(path, read_parquet(path))
        name = "tags" if tags else name
    _check_scheme(path, name, scheme)
    found = "parquet" if path.suffix == ".parquet" else name
    return _not_empty(path, _sentences(path, read_documents(_source(path), found, options), language, splitter))


def _format_of(path: Path) -> str:
    """Return the name of the format of a file; "jsonl.ids" for sentences with ids, which have a reader of their own."""
    source = _source(path)
    is_lines = uncompressed_name(path.name)[0].lower().endswith(LINE_ENDINGS)
    try:
        with damage_as_errors(str(path)):
            name = format_of(source)
    except CoreError as error:
        if is_lines and error.code in ("format.unknown", "data.empty"):
            return "jsonl.ids"  # its reader describes the first record's problem
        if error.code == "format.unknown":
            raise CoreError("data.unknown_format", path=path) from error
        raise
    if name == "sentences" and is_lines:
        return "jsonl.ids" if _has_ids(path) else name
    return name


def _has_ids(path: Path) -> bool:
    with _open(str(path)) as file:
        first = next((line for line in file if line.strip()), b"")
    return any(f'"{key}"'.encode() in first for key in SENTENCE_KEYS[:2])


def _parquet_columns(path: Path) -> tuple[bool, bool]:
    """Return whether a file has the columns of sentences with ids, and whether it has tags."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return True, False  # its reader describes the problem
    return set(SENTENCE_KEYS) <= set(names) or not {"entities", TAGS} & set(names), TAGS in names


def _check_scheme(path: Path, name: str, scheme: str | None) -> None:
    if name == "tags" and scheme not in TAG_SCHEMES:
        raise scheme_needed(_source(path), "parquet" if path.suffix == ".parquet" else name, ReadOptions())
    if name not in _TAGGED and scheme in TAG_SCHEMES:
        raise CoreError("data.scheme_mismatch", path=path, holds="spans", scheme=scheme, schemes="spans, or none")


def _source(path: Path) -> Source:
    return Source(str(path), _open)


def _open(path: str) -> BinaryIO:
    return opened(open(path, "rb"), path)


def _sentences(path: Path, documents: Iterable[AnnotatedDocument], language: str, splitter: str) -> Iterator[Sentence]:
    total, left_out, example = 0, Counter[str](), ""
    with damage_as_errors(str(path)):
        for document in documents:
            if document.sentences is None and splitter != "words.v1":
                raise CoreError("data.not_split", path=path, splitter=splitter)
            document = with_words(document, language)
            sentences, problems = word_sentences(document)
            total += len(document.entities)
            for entity, reason in problems:
                left_out[reason] += 1
                example = example or shown(document, entity)
            yield from (sentence for sentence in sentences if sentence.words)
    if left_out:
        count = sum(left_out.values())
        warnings.warn(CoreWarning("data.left_out", path=path, count=count, total=total, example=example), stacklevel=2)


def _not_empty(path: Path, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    empty = True
    for sentence in sentences:
        empty = False
        yield sentence
    if empty:
        raise CoreError("data.empty", path=path)
