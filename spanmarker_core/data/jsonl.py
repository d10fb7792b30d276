"""JSONL: one sentence a line, with its entities as word ranges.

    {"document_id": "d1", "sentence_id": 0, "tokens": ["Ada", "met", "Paris"],
     "entities": [{"start": 0, "end": 1, "label": "PER"}, {"start": 2, "end": 3, "label": "LOC"}]}

(on one line). `end` is exclusive. The sentences of a document stand together, in rising order.
Entities may nest or overlap. Other keys are passed over; blank lines are too.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from spanmarker_core.data.records import (
    DocumentOrder,
    RecordProblem,
    Sentence,
    check_distinct,
    check_span,
    check_words,
    read_lines,
)
from spanmarker_core.errors import CoreError

_KEYS = ("document_id", "sentence_id", "tokens", "entities")
_ENTITY_KEYS = ("start", "end", "label")


def read_jsonl(path: str | Path) -> Iterator[Sentence]:
    """Read a JSONL file sentence by sentence; the first fault raises `CoreError` data.bad_record."""
    path = Path(path)
    order = DocumentOrder()
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            yield _parse(text, order)
        except RecordProblem as error:
            raise CoreError("data.bad_record", path=path, line=line, problem=str(error)) from error


def _parse(text: str, order: DocumentOrder) -> Sentence:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise RecordProblem(f"it is not JSON ({error})") from error
    _check_keys(record, _KEYS, "the record")
    words = check_words(record["tokens"])
    if not isinstance(record["entities"], list):
        raise RecordProblem("entities is not a list")
    entities = []
    for index, entity in enumerate(record["entities"]):
        _check_keys(entity, _ENTITY_KEYS, f"entity {index}")
        try:
            entities.append(check_span(entity["start"], entity["end"], entity["label"], len(words)))
        except RecordProblem as error:
            raise RecordProblem(f"entity {index}: {error}") from error
    check_distinct(entities)
    document_id, sentence_id = order.check(record["document_id"], record["sentence_id"])
    return Sentence(document_id, sentence_id, words, entities)


def _check_keys(record: object, keys: tuple[str, ...], what: str) -> None:
    if not isinstance(record, dict):
        raise RecordProblem(f"{what} is {type(record).__name__}, not an object with {', '.join(keys)}")
    missing = [key for key in keys if key not in record]
    if missing:
        raise RecordProblem(f"{what} has no {', '.join(missing)}")
