"""Annotated data: sentences of words with their entities, read strictly from common file formats."""

from collections.abc import Iterator
from pathlib import Path

from spanmarker_core.data.conll import read_conll
from spanmarker_core.data.hf import is_dataset_folder, read_dataset_folder
from spanmarker_core.data.jsonl import read_jsonl
from spanmarker_core.data.records import Sentence, Span
from spanmarker_core.errors import CoreError
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, scheme_called

__all__ = ["Sentence", "Span", "read_annotated", "read_conll", "read_dataset_folder", "read_jsonl"]

CONLL_SUFFIXES = (".conll", ".iob", ".bio", ".txt")


def read_annotated(path: str | Path, scheme: str | None = None) -> Iterator[Sentence]:
    """Read annotated sentences one by one from a JSONL, Parquet or CoNLL file or a `datasets` folder.

    Args:
        path: the data. The name determines the reader: `.jsonl`; `.parquet`; `.conll`, `.iob`, `.bio`, `.txt` (the
            first column is the token, the last one the tag); or a folder saved by `save_to_disk`.
        scheme: tag scheme, such as "IOB2" or "BIOES", in upper or lower case; not needed for data that hold spans.

    Raises:
        CoreError: at once, `call.unknown_option`, `data.not_found`, `data.unknown_format`, `data.scheme_needed`,
            `data.scheme_mismatch`, `data.bad_dataset`; while reading, `data.bad_record` or `data.bad_row` at the first
            bad record, `data.bad_dataset` (Parquet), `data.empty`.
    """
    path = Path(path)
    scheme = scheme_called(scheme) if scheme is not None else None
    if not path.exists():
        raise CoreError("data.not_found", path=path)
    if path.is_dir():
        if not is_dataset_folder(path):
            raise CoreError("data.unknown_format", path=path)
        return _not_empty(path, read_dataset_folder(path, scheme))
    if path.suffix in (".jsonl", ".parquet"):
        if scheme not in (None, "spans"):
            raise CoreError("data.scheme_mismatch", path=path, holds="spans", scheme=scheme, schemes="spans, or none")
        if path.suffix == ".jsonl":
            return _not_empty(path, read_jsonl(path))
        from spanmarker_core.data.parquet import read_parquet  # imports pyarrow, which only Parquet files need

        return _not_empty(path, read_parquet(path))
    if path.suffix in CONLL_SUFFIXES:
        if scheme is None:
            raise CoreError("data.scheme_needed", path=path, schemes=", ".join(TAG_SCHEMES))
        return _not_empty(path, read_conll(path, scheme))
    raise CoreError("data.unknown_format", path=path)


def _not_empty(path: Path, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    empty = True
    for sentence in sentences:
        empty = False
        yield sentence
    if empty:
        raise CoreError("data.empty", path=path)
