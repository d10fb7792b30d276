"""W3C web annotations: a text in `NAME.txt`, and an annotation page (JSON-LD) about it in `NAME.jsonld`.

Each entity is an annotation with the label as its tag, and a position and a quote as its selectors. Positions count
code points, as the standard (Web Annotation Data Model, 4.2.5) requires.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from spanmarker_core.data.blocks import uncompressed_name
from spanmarker_core.data.jsonl import check_keys, parse_object
from spanmarker_core.data.records import BadRecord, RecordProblem
from spanmarker_core.formats.brat import DISCONTINUOUS_REMEDY, read_text
from spanmarker_core.formats.document import AnnotatedDocument, AnnotatedEntity, BadRow, checked_document
from spanmarker_core.formats.folders import FileNames, Opener, beside, document_id_of
from spanmarker_core.formats.options import ReadOptions, Source, WriteOptions
from spanmarker_core.formats.records import list_in

_CONTEXT = "http://www.w3.org/ns/anno.jsonld"
#: Characters that the name of a file in the same folder cannot have.
_NOT_IN_NAMES = frozenset("/\\\0")
#: Characters before and after an entity by which it can be found again if the text changes.
_AROUND = 32


def read_web_annotations(source: Source, options: ReadOptions) -> Iterator[AnnotatedDocument | BadRecord]:
    """Read one document: an annotation page, a list of annotations, or one annotation.

    Args:
        source: the `.jsonld` file; its text is the target of the annotations, in the same folder.
        options: options of the reader; an annotation of several ranges has several parts.

    Raises:
        CoreError: `data.not_found`, `data.bad_record`.
    """
    try:
        items = _items(parse_object(read_text(source, source.path).removeprefix("\ufeff")))
        annotations = [_annotation(item, number) for number, item in enumerate(items)]
        targets = {target for target, _ in annotations}
        if len(targets) > 1:
            raise RecordProblem(f"its annotations are about {len(targets)} texts: write one file per text")
        target = next(iter(targets), None)
        if target is not None and _NOT_IN_NAMES & set(target):
            raise RecordProblem(f"its text {target!r} is not a file in its folder")
        folder, compression = source.path[: source.path.rfind("/") + 1], uncompressed_name(source.path)[1]
        named = folder + (target or "") + (compression and f".{compression}")
        text = read_text(source, named if target else beside(source.path, ".txt"))
        entities = []
        for number, (_, (ranges, label)) in enumerate(annotations):
            if len(ranges) == 1:
                entities.append((*ranges[0], label, None))
            elif options.flatten == "refuse":
                raise RecordProblem(f"annotation {number} has {len(ranges)} ranges. {DISCONTINUOUS_REMEDY}")
            else:
                options.left_out["discontinuous"] += 1
        yield checked_document(document_id_of(source), text, entities)
    except RecordProblem as error:
        yield BadRow(0, str(error))


def _items(page: Any) -> list[Any]:
    """Return the annotations of a page, of a collection with its first page, of a list, or the only one."""
    if isinstance(page, dict) and "items" not in page and "first" in page:
        page = page["first"]
        check_keys(page, ("items",), "the first page")
    if isinstance(page, dict):
        page = page.get("items", [page])
    return list_in(page, "the annotations")


def _annotation(item: Any, number: int) -> tuple[str | None, tuple[list[tuple[Any, Any]], Any]]:
    """Return the source of an annotation, and its ranges and label."""
    check_keys(item, ("body", "target"), f"annotation {number}")
    bodies = item["body"] if isinstance(item["body"], list) else [item["body"]]
    values = [body.get("value") if isinstance(body, dict) else body for body in bodies]
    values = [value for value in values if isinstance(value, str)]
    if len(values) != 1:
        raise RecordProblem(f"annotation {number} has {len(values)} values in its body, and a label is one")
    targets = item["target"] if isinstance(item["target"], list) else [item["target"]]
    ranges, source = [], None
    for target in targets:
        check_keys(target, ("selector",), f"the target of annotation {number}")
        found = target.get("source", source)
        source = found.get("id") if isinstance(found, dict) else found
        selectors = target["selector"] if isinstance(target["selector"], list) else [target["selector"]]
        positions = [
            each for each in selectors if isinstance(each, dict) and each.get("type") == "TextPositionSelector"
        ]
        if not positions:
            raise RecordProblem(f"annotation {number} has no TextPositionSelector")
        for position in positions:
            check_keys(position, ("start", "end"), f"the selector of annotation {number}")
            ranges.append((position["start"], position["end"]))
    return unquote(source) if isinstance(source, str) else None, (ranges, values[0])


def write_web_annotations(documents: Iterable[AnnotatedDocument], open: Opener, options: WriteOptions) -> None:
    """Write a text and an annotation page per document.

    Args:
        documents: the documents.
        open: opens a file of the output.
        options: not used.
    """
    names = FileNames()
    for document in documents:
        name = names.of(document.document_id)
        page = {
            "@context": _CONTEXT,
            "id": f"{quote(name)}.jsonld",
            "type": "AnnotationPage",
            "items": [
                _annotation_of(document.text, entity, quote(name), number)
                for number, entity in enumerate(document.entities)
            ],
        }
        for ending, content in ((".txt", document.text), (".jsonld", json.dumps(page, ensure_ascii=False, indent=1))):
            with open(name + ending) as file:
                file.write(content.encode())


def _annotation_of(text: str, entity: AnnotatedEntity, name: str, number: int) -> dict[str, Any]:
    start, end = entity.char_start, entity.char_end
    return {
        "id": f"{name}.jsonld#{number}",
        "type": "Annotation",
        "motivation": "tagging",
        "body": {"type": "TextualBody", "purpose": "tagging", "value": entity.label},
        "target": {
            "source": f"{name}.txt",
            "selector": [
                {"type": "TextPositionSelector", "start": start, "end": end},
                {
                    "type": "TextQuoteSelector",
                    "exact": text[start:end],
                    "prefix": text[max(0, start - _AROUND) : start],
                    "suffix": text[end : end + _AROUND],
                },
            ],
        },
    }
