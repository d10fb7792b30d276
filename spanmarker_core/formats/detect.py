"""Recognises the format of a file by its name and its first record."""

from collections.abc import Callable
from typing import Any

from spanmarker_core.data.blocks import uncompressed_name
from spanmarker_core.data.jsonl import LINE_ENDINGS
from spanmarker_core.data.records import BadRecord
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.brat import CONFIGURATION
from spanmarker_core.formats.cas import TYPE_SYSTEM
from spanmarker_core.formats.folders import beside
from spanmarker_core.formats.json_files import JsonFile
from spanmarker_core.formats.options import ReadOptions, Source
from spanmarker_core.formats.records import form_of
from spanmarker_core.formats.registry import FORMATS

_JSON = (*LINE_ENDINGS, ".json")
#: Form of a record -> name of its format, where they differ.
_FORM_FORMATS = {"documents": "jsonl"}


def format_of(source: Source, options: ReadOptions | None = None) -> str:
    """Return the name of the format of a file.

    Args:
        source: the file.
        options: names of columns.

    Raises:
        CoreError: `format.unknown`.
    """
    name = uncompressed_name(source.path)[0].lower()
    if name.endswith(_JSON):
        return _of_record(source, _first_record(source), options or ReadOptions())
    if name.endswith(".txt") and _exists(source, beside(source.path, ".ann")):
        return "brat"
    for each in FORMATS.values():
        if name.endswith(tuple(ending for ending in each.endings if ending not in _JSON)):
            return each.name
    raise _unknown(source, "its name has no known ending")


def is_companion(path: str, exists: Callable[[str], bool]) -> bool:
    """Return whether a file belongs to another one that is read as a document: its text, or settings of the folder.

    >>> is_companion("in/d1.txt", {"in/d1.ann"}.__contains__), is_companion("in/d2.txt", {"in/d1.ann"}.__contains__)
    (True, False)

    Args:
        path: path of the file.
        exists: returns whether a file exists.
    """
    if path.rpartition("/")[2] in (CONFIGURATION, TYPE_SYSTEM):
        return True
    return uncompressed_name(path)[0].lower().endswith(".txt") and any(
        exists(beside(path, ending)) for ending in (".ann", ".jsonld")
    )


def _of_record(source: Source, record: Any, options: ReadOptions) -> str:
    if isinstance(record, BadRecord):
        raise _unknown(source, record.problem)
    if isinstance(record, dict):
        if "@context" in record and ("target" in record or "items" in record):
            return "web-annotations"
        if isinstance(record.get("data"), dict) or _is_minimal(record):
            return "label-studio"
    form = form_of(record, options)
    if form is None:
        keys = f"the keys {', '.join(map(str, record))[:200]}" if isinstance(record, dict) else f"{record!r:.60}"
        raise _unknown(source, f"its first record has {keys}")
    return _FORM_FORMATS.get(form, form)


def _first_record(source: Source) -> Any:
    with source.open(source.path) as file:
        for _, record in JsonFile(file):
            return record
    raise CoreError("data.empty", path=source.path)


def _is_minimal(record: dict[str, Any]) -> bool:
    """Return whether a record is a task of Label Studio's JSON-MIN, which need not have entities."""
    return {"annotation_id", "lead_time"} <= record.keys() or any(
        isinstance(value, list) and value and all(isinstance(each, dict) and "labels" in each for each in value)
        for value in record.values()
    )


def _exists(source: Source, path: str) -> bool:
    try:
        source.open(path).close()
    except OSError:
        return False
    return True


def _unknown(source: Source, reason: str) -> CoreError:
    return CoreError("format.unknown", path=source.path, reason=reason, formats=", ".join(FORMATS))
