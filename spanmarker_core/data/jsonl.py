"""The JSONL reader: one sentence per line, with entities as word ranges.

    {"document_id": "d1", "sentence_id": 0, "tokens": ["Ada", "met", "Paris"],
     "entities": [{"start": 0, "end": 1, "label": "PER"}, {"start": 2, "end": 3, "label": "LOC"}]}

(on one line). `end` is exclusive. The sentences of a document are contiguous and in increasing order.
Entities may nest or overlap. Other keys and blank lines are ignored.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spanmarker_core.data.lines import read_lines
from spanmarker_core.data.records import (
    DocumentOrder,
    RecordProblem,
    Sentence,
    Span,
    check_annotation,
    check_entities,
    check_words,
)
from spanmarker_core.errors import CoreError

#: Endings of the names of files of JSON lines. `.json` files may hold lines as well.
LINE_ENDINGS = (".jsonl", ".ndjson")
SENTENCE_KEYS = ("document_id", "sentence_id", "tokens", "entities")
_ENTITY_KEYS = ("start", "end", "label")


def read_jsonl(path: str | Path) -> Iterator[Sentence]:
    """Read a JSONL file sentence by sentence.

    Args:
        path: the file.

    Raises:
        CoreError: `data.bad_record` at the first invalid line.
    """
    path = Path(path)
    order = DocumentOrder()
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            yield check_entities(sentence_of(parse_object(text), order))
        except RecordProblem as error:
            raise CoreError("data.bad_record", path=path, line=line, problem=str(error)) from error


def sentence_of(record: Any, order: DocumentOrder) -> Sentence:
    """Convert a record to a sentence, without checking its entities against its words.

    Args:
        record: the value of a line or row.
        order: check of the ids, shared by all records of a file.

    Raises:
        RecordProblem: the record is invalid in another way.
    """
    check_keys(record, SENTENCE_KEYS, "the record")
    words = check_words(record["tokens"])
    entities = parse_entities(record["entities"])
    document_id, sentence_id = order.check(record["document_id"], record["sentence_id"])
    return Sentence(document_id, sentence_id, words, entities)


def parse_object(text: str | bytes) -> Any:
    """Parse a line of JSON.

    Args:
        text: the line, as a string or in UTF-8.

    Raises:
        RecordProblem: it is not valid JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also for a number with thousands of digits
        raise RecordProblem(f"it is not JSON ({error})") from error


def parse_entities(values: object, arrays: bool = False) -> list[Span]:
    """Convert a list of {start, end, label} to entities; ranges may count words or characters.

    Args:
        values: the value to convert.
        arrays: whether an entity may also be [start, end, label], as in spaCy's training data.

    Raises:
        RecordProblem: it is not a list of valid entities.
    """
    if not isinstance(values, list):
        raise RecordProblem("entities is not a list")
    entities = []
    for index, entity in enumerate(values):
        if arrays and isinstance(entity, list) and len(entity) == len(_ENTITY_KEYS):
            entity = dict(zip(_ENTITY_KEYS, entity, strict=True))
        check_keys(entity, _ENTITY_KEYS, f"entity {index}")
        try:
            entities.append(check_annotation(entity["start"], entity["end"], entity["label"]))
        except RecordProblem as error:
            raise RecordProblem(f"entity {index}: {error}") from error
    return entities


def check_keys(record: object, keys: tuple[str, ...], what: str) -> None:
    """Check that a value is an object with the given keys.

    Args:
        record: the value to check.
        keys: the required keys; others are allowed.
        what: name of the value, for the message.

    Raises:
        RecordProblem: it is not an object, or a key is missing.
    """
    if not isinstance(record, dict):
        raise RecordProblem(f"{what} is {type(record).__name__}, not an object with {', '.join(keys)}")
    missing = [key for key in keys if key not in record]
    if missing:
        raise RecordProblem(f"{what} has no {', '.join(missing)}")
