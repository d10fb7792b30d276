"""Label Studio's JSON: an array of tasks with a text and labelled regions, as its export and import use it.

Offsets count code points: the interface converts from JavaScript's units since version 1.5, and its exporters cut
Python strings. Entities with scores are predictions, others are annotations; a task with an annotation, even an empty
one, counts as done, so a document in which a model found nothing has an empty prediction. The id of a document is
`document_id` of the data, because JSON-MIN puts the number of the task in the place of `id`.
"""

from collections.abc import Iterable, Iterator
from typing import IO, Any

from spanmarker_core.data.jsonl import check_keys
from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.formats.document import AnnotatedDocument, checked_document
from spanmarker_core.formats.json_files import JsonFile, write_array
from spanmarker_core.formats.options import DEFAULT_TEXT, ReadOptions, Source, WriteOptions
from spanmarker_core.formats.records import document_id_in, list_in

_ID = "document_id"
_Entity = tuple[Any, Any, Any, float | None]


def read_label_studio(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read tasks: of a full export the first annotation that was not cancelled, or else the first prediction.

    Args:
        source: the file, an array or one task per line; of the export JSON or JSON-MIN.
        options: options of the reader.
    """
    with source.open(source.path) as file:
        tasks = JsonFile(file)
        for number, (place, task) in enumerate(tasks):
            if isinstance(task, BadRecord):
                yield task
                continue
            try:
                yield _document(task, f"{source.name}-{number}", options)
            except RecordProblem as error:
                yield tasks.bad(place, str(error))


def _document(task: Any, made_id: str, options: ReadOptions) -> AnnotatedDocument:
    check_keys(task, (), "the task")
    data = task.get("data", task)
    check_keys(data, (), "data")
    key = options.text_column
    if "data" in task and key not in data and key == DEFAULT_TEXT:
        strings = [name for name, value in data.items() if isinstance(value, str) and name != _ID]
        key = strings[0] if len(strings) == 1 else key
    check_keys(data, (key,), "the task")
    if options.id_column is None and isinstance(data.get(_ID), str):
        document_id = data[_ID]
    else:
        document_id = document_id_in([data, task], options) or made_id
    entities = list(_regions(_result(task))) if "data" in task else list(_minimal(task))
    return checked_document(document_id, data[key], entities)


def _result(task: dict[str, Any]) -> list[Any]:
    for kind in ("annotations", "completions", "predictions"):
        for each in list_in(task.get(kind), kind):
            check_keys(each, ("result",), kind)
            if not each.get("was_cancelled"):
                return list_in(each["result"], "result")
    return []


def _regions(result: list[Any]) -> Iterator[_Entity]:
    for index, region in enumerate(result):
        check_keys(region, ("type",), f"region {index}")
        value = region.get("value")
        if region["type"] == "hypertextlabels" or (isinstance(value, dict) and "startOffset" in value):
            raise RecordProblem(f"region {index} is of HTML, whose offsets are not those of a text")
        if region["type"] == "labels":
            yield from _labels(value, index, region.get("score"))


def _minimal(task: dict[str, Any]) -> Iterator[_Entity]:
    """Yield the entities of a task in JSON-MIN, where the name of the labels is free."""
    for regions in task.values():
        if isinstance(regions, list):
            for index, value in enumerate(regions):
                if isinstance(value, dict) and "labels" in value:
                    yield from _labels(value, index, None)


def _labels(value: Any, index: int, score: Any) -> Iterator[_Entity]:
    check_keys(value, ("start", "end"), f"the value of region {index}")
    for label in list_in(value.get("labels"), f"labels of region {index}"):
        yield value["start"], value["end"], label, score if isinstance(score, float | int) else None


def write_label_studio(documents: Iterable[AnnotatedDocument], file: IO[bytes], options: WriteOptions) -> None:
    """Write tasks for a labelling configuration with `<Text name="text" value="$text"/>` and `<Labels name="label">`.

    Args:
        documents: the documents.
        file: receives the array.
        options: options of the writer.
    """
    tasks = (_task(number, document, options.predicted) for number, document in enumerate(documents, start=1))
    write_array(tasks, file)


def _task(number: int, document: AnnotatedDocument, predicted: bool) -> dict[str, Any]:
    predicted = predicted or any(entity.score is not None for entity in document.entities)
    result = [
        {
            "id": f"e{index}",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "value": {
                "start": entity.char_start,
                "end": entity.char_end,
                "text": document.text[entity.char_start : entity.char_end],
                "labels": [entity.label],
            },
            **({} if entity.score is None else {"score": entity.score}),
        }
        for index, entity in enumerate(document.entities)
    ]
    return {
        "id": number,
        "data": {_ID: document.document_id, "text": document.text},
        "predictions" if predicted else "annotations": [{"result": result}],
    }
