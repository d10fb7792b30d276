"""The page of a document: one part of its text with the entities in it."""

from collections import Counter
from typing import Any

import numpy as np

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.error_pages import bad_request, not_found
from pipelines.browse.parts import MAX_ENTITIES, paragraphs, part_start, part_with, parts_of
from pipelines.browse.queries import Queries
from pipelines.browse.query import Row, RowPosition
from pipelines.browse.request import PageRequest, address
from pipelines.pages.labels import LabelTones
from pipelines.texts.sources import Sources, Text, agrees
from schemas import ANNOTATIONS, DOCUMENTS

#: Maximum seconds for reading the text from its source.
_SOURCE_SECONDS = 8.0


def document_values(
    request: PageRequest, catalogue: Catalogue, queries: Queries, sources: Sources, tones: LabelTones
) -> dict[str, Any]:
    """Return the template variables for the page of a document.

    Args:
        request: fields of the query string.
        catalogue: the finished shards.
        queries: queries of this page.
        sources: reader of document texts.
        tones: colours of the labels.

    Raises:
        PageError: the document or the part does not exist.
    """
    shard = request.shard(catalogue)
    hit, document = _asked_for(request, shard, queries)
    tagged = document["status"] == "tagged"
    text = _text(document, queries, sources) if tagged else Text(None)
    document_id = document["document_id"]

    def crossing(at: int) -> int | None:
        return queries.crossing(shard, document_id, at)

    count = parts_of(document["n_characters"])

    def start_of(number: int) -> int:
        return part_start(number, document["n_characters"], text.text, crossing)

    number = request.count("part")
    if number is None:
        number = 1 if hit is None else 1 + part_with(hit["char_start"], start_of, count)
    if not 1 <= number <= count:
        raise not_found(f"This document has {count:,} parts.")
    start, end = start_of(number - 1), start_of(number)
    entities = queries.entities(shard, document_id, start, end, MAX_ENTITIES + 1) if tagged else []
    more, entities = len(entities) > MAX_ENTITIES, entities[:MAX_ENTITIES]
    labels, label = Counter(row["label"] for row in entities), request.exactly("label")
    entities = [row for row in entities if label in ("", row["label"])]
    fields = {"shard": shard, "hit": hit["row"]} if hit else {"shard": shard, "row": document["row"]}
    before, after = _neighbours(catalogue, shard, document["row"])
    return {
        "headline": document_id or ("The record had no readable id" if document_id is None else "(empty id)"),
        "document": document,
        "before": before,
        "after": after,
        "of_source": address("/documents", source=document["source"]),
        "label": label,
        "labels": [
            (name, count, tones.of(name), address("/document", **fields, part=number, label=name))
            for name, count in labels.most_common()
        ],
        "all_labels": address("/document", **fields, part=number),
        "problem": text.problem,
        "hit": hit,
        "paragraphs": [] if text.text is None else paragraphs(text.text, start, end, entities, tones.of, hit),
        "entities": entities,
        "more": MAX_ENTITIES if more else 0,
        "start": start,
        "end": end,
        "part": number,
        "parts": count,
        "fields": fields,
        "previous": address("/document", **fields, label=label, part=number - 1) if number > 1 else "",
        "next": address("/document", **fields, label=label, part=number + 1) if number < count else "",
    }


def _neighbours(catalogue: Catalogue, shard: str, row: int) -> tuple[str, str]:
    """Return the addresses of the documents before and after a document; empty at the ends of the output."""
    rows, number = catalogue.rows[DOCUMENTS.name], catalogue.number_of(shard)
    assert number is not None

    def at(number: int, row: int) -> str:
        return address("/document", shard=catalogue.names[number], row=row)

    before = after = ""
    if row > 0:
        before = at(number, row - 1)
    elif len(full := np.flatnonzero(rows[:number])):
        before = at(int(full[-1]), int(rows[full[-1]]) - 1)
    if row + 1 < rows[number]:
        after = at(number, row + 1)
    elif len(full := np.flatnonzero(rows[number + 1 :])):
        after = at(number + 1 + int(full[0]), 0)
    return before, after


def _asked_for(request: PageRequest, shard: str, queries: Queries) -> tuple[Row | None, Row]:
    """Return the requested entity, if any, and its document or the requested document."""
    number, row = request.count("hit"), request.count("row")
    if (number is None) == (row is None):
        raise bad_request("The address must contain the row of the document or of an entity in it.")
    if number is None:
        assert row is not None
        document = queries.row(DOCUMENTS.name, RowPosition(shard, row))
        if document is None:
            raise not_found("This shard has no such document.")
        return None, document
    hit = queries.row(ANNOTATIONS.name, RowPosition(shard, number))
    if hit is None:
        raise not_found("This shard has no such entity.")
    owner = (shard, hit["document_id"])
    document = queries.documents_of([owner]).get(owner)
    if document is None:
        raise not_found("The documents table has no row for the document of this entity.")
    return hit, document


def _text(document: Row, queries: Queries, sources: Sources) -> Text:
    """Return the text of a document if it agrees with all of its entities."""
    text = sources.texts([document], _SOURCE_SECONDS)[0]
    if text.text is None or agrees(text.text, queries.surfaces(document["shard"], document["document_id"])):
        return text
    return Text(None, f"its source has changed since it was tagged: {document['source']}")
