"""Records with named values, which are JSON objects or rows of Parquet, in the forms of several tools.

| form | text or words | entities |
| --- | --- | --- |
| documents | `text` | `entities`: {start, end, label} or [start, end, label] in characters |
| sentences | `tokens` | `entities`: {start, end, label} in words |
| tags | `tokens` | `ner_tags`: one tag per word |
| doccano | `text` | `label` or `labels`: [start, end, label]; `entities`: {start_offset, end_offset, label} |
| prodigy | `text` | `spans`: {start, end, label} in characters |
| gliner | `tokenized_text` | `ner`: [first word, last word, label] |
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spanmarker_core.data.hf import TAGS, read_tags
from spanmarker_core.data.jsonl import check_keys, parse_entities
from spanmarker_core.data.records import (
    BadRecord,
    DocumentOrder,
    RecordProblem,
    Sentence,
    check_annotation,
    check_entities,
    check_words,
)
from spanmarker_core.errors import CoreError
from spanmarker_core.formats.document import AnnotatedDocument, checked_document, joined_documents
from spanmarker_core.formats.options import DEFAULT_ID, ReadOptions, Source
from spanmarker_core.text.tag_schemes import TAG_SCHEMES, scheme_called

#: Names of classes, for labels or tags that are numbers.
ClassNames = list[str] | None


def form_of(record: Any, options: ReadOptions) -> str | None:
    """Return the form of a record by its keys, or None if it has none of them.

    >>> form_of({"text": "Ada", "label": [[0, 3, "PER"]]}, ReadOptions())
    'doccano'

    Args:
        record: the record.
        options: names of columns.
    """
    if not isinstance(record, dict):
        return None
    if "tokenized_text" in record:
        return "gliner"
    if "tokens" in record and "spans" not in record:
        return "sentences" if "entities" in record and TAGS not in record else "tags"
    if options.text_column not in record:
        return None
    if "spans" in record:
        return "prodigy"
    if "label" in record or "labels" in record:
        return "doccano"
    entities = record.get("entities")
    if isinstance(entities, list) and any(isinstance(each, dict) and "start_offset" in each for each in entities):
        return "doccano"
    return "documents" if "entities" in record else None


def documents_of(
    records: Iterable[tuple[int, Any]],
    form: str,
    source: Source,
    options: ReadOptions,
    bad: Callable[[int, str], BadRecord] = BadRecord,
    names: ClassNames = None,
) -> Iterator[AnnotatedDocument | BadRecord]:
    """Yield the document of each record, or of consecutive records of one document.

    Args:
        records: (place, record or `BadRecord`) of each record.
        form: form of the records.
        source: their source.
        options: options of the reader.
        bad: makes the `BadRecord` of a place and a problem.
        names: names of classes, if tags are numbers.

    Raises:
        CoreError: `data.scheme_needed`, `call.unknown_option`.
    """
    order = DocumentOrder()
    scheme = scheme_called(options.scheme) if options.scheme is not None else None
    if form == "tags" and scheme not in TAG_SCHEMES:
        raise CoreError("data.scheme_needed", path=source.path, likely="", schemes=", ".join(TAG_SCHEMES))

    def parsed() -> Iterator[AnnotatedDocument | Sentence | BadRecord]:
        for number, (place, record) in enumerate(records):
            if isinstance(record, BadRecord):
                yield record
                continue
            if form == "prodigy" and isinstance(record, dict) and record.get("answer", "accept") != "accept":
                options.left_out["not_accepted"] += 1  # the annotator rejected or skipped the whole text
                continue
            try:
                yield _parsed(record, f"{source.name}-{number}")
            except RecordProblem as error:
                yield bad(place, str(error))

    def _parsed(record: Any, made_id: str) -> AnnotatedDocument | Sentence:
        if form == "sentences":
            check_keys(record, ("tokens", "entities"), "the record")
            words = check_words(record["tokens"])
            entities = parse_entities(record["entities"] or [])
            return check_entities(Sentence(*_sentence_ids(record, made_id, order), words, entities))
        if form == "tags":
            check_keys(record, ("tokens", TAGS), "the record")
            words = check_words(record["tokens"])
            tags = [_tag(tag, names) for tag in list_in(record[TAGS], TAGS)]
            if len(tags) != len(words):
                raise RecordProblem(f"it has {len(words)} tokens and {len(tags)} tags")
            return Sentence(*_sentence_ids(record, made_id, order), words, read_tags(tags, str(scheme)))
        if form == "gliner":
            check_keys(record, ("tokenized_text", "ner"), "the record")
            words = check_words(record["tokenized_text"])
            entities = [
                check_annotation(start, end + 1 if type(end) is int else end, label)
                for start, end, label in (_items(entity, 3) for entity in list_in(record["ner"], "ner"))
            ]
            distinct = sorted(set(entities))
            return check_entities(Sentence(made_id, 0, words, distinct))
        return _text_document(record, form, made_id, options)

    yield from joined_documents(parsed())


def _sentence_ids(record: dict[str, Any], made_id: str, order: DocumentOrder) -> tuple[str, int]:
    """Return the ids of a sentence; without `document_id` it is a document of its own."""
    if "document_id" not in record and "sentence_id" not in record:
        return made_id, 0
    check_keys(record, ("document_id", "sentence_id"), "the record")
    document_id = record["document_id"]
    return order.check(str(document_id) if type(document_id) is int else document_id, record["sentence_id"])


def document_id_in(places: Iterable[Any], options: ReadOptions) -> str | None:
    """Return the id of a document; None if it has none and need not have one.

    Args:
        places: objects that may have it, in this order; others are ignored.
        options: names of columns.

    Raises:
        RecordProblem: it is of the wrong type, or is missing although the user named its column.
    """
    key = options.id_column or DEFAULT_ID
    found = next((each[key] for each in places if isinstance(each, dict) and each.get(key) not in (None, "")), None)
    if found is not None and not isinstance(found, str) and type(found) is not int:
        raise RecordProblem(f"{key} {found!r} is neither a string nor a whole number")
    if found is None and options.id_column is not None:
        raise RecordProblem(f"the record has no {key}, the column of the ids (--id-column)")
    return None if found is None else str(found)


def _text_document(record: Any, form: str, made_id: str, options: ReadOptions) -> AnnotatedDocument:
    check_keys(record, (), "the record")
    check_keys(record, (options.text_column,), "the record")
    document_id = document_id_in([record, record.get("meta")], options) or made_id
    if form == "documents":
        check_keys(record, ("entities",), "the record")
        found = _named(record["entities"], "entities", "start", "end")
    elif form == "prodigy":
        found = _named(record.get("spans"), "spans", "start", "end")
    elif "label" in record or "labels" in record:
        labels = list_in(record.get("label", record.get("labels")), "label")
        found = [(*_items(entity, 3), None) for entity in labels]
    else:
        found = _named(record.get("entities"), "entities", "start_offset", "end_offset")
    return checked_document(document_id, record[options.text_column], found)


def _named(value: Any, what: str, start: str, end: str) -> list[tuple[Any, Any, Any, float | None]]:
    entities = []
    for index, entity in enumerate(list_in(value, what)):
        if isinstance(entity, list):
            entities.append((*_items(entity, 3), None))
            continue
        check_keys(entity, (start, end, "label"), f"entity {index}")
        score = entity.get("score")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise RecordProblem(f"entity {index}: score {score!r} is not a number")
        entities.append((entity[start], entity[end], entity["label"], score))
    return entities


def list_in(value: Any, what: str) -> list[Any]:
    """Return a list; null stands for an empty one.

    Args:
        value: the value that should be a list.
        what: name of the value, for the message.

    Raises:
        RecordProblem: it is neither.
    """
    if value is not None and not isinstance(value, list):
        raise RecordProblem(f"{what} is {type(value).__name__}, not a list")
    return value or []


def _items(value: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) != count:
        raise RecordProblem(f"{value!r} is not a list of {count} values, start, end and label")
    return tuple(value)


def _tag(tag: Any, names: ClassNames) -> str:
    if names is None and isinstance(tag, str):
        return tag
    if names is None:
        raise RecordProblem(
            f"tag {tag!r} is a number, and the file doesn't name the classes: save it as Parquet or by save_to_disk, "
            f"which keep the names of a ClassLabel, or write the tags as strings"
        )
    if type(tag) is not int or not 0 <= tag < len(names):
        raise RecordProblem(f"tag {tag!r} is not a number of one of the classes {names}")
    return names[tag]
