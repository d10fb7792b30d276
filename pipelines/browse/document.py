"""The page of a document: one part of its text with the entities in it."""

from collections.abc import Callable
from typing import Any

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.database import Queries
from pipelines.browse.error_pages import bad_request, not_found
from pipelines.browse.parts import MAX_ENTITIES, in_sentence, paragraphs, part_start, part_with, parts_of
from pipelines.browse.query import Row, RowPosition
from pipelines.browse.request import PageRequest, address
from pipelines.browse.sources import Sources, Text, agrees
from schemas import ANNOTATIONS, DOCUMENTS

#: Maximum seconds for reading the text from its source.
_SOURCE_SECONDS = 8.0


def document_values(
    request: PageRequest, catalogue: Catalogue, queries: Queries, sources: Sources, tone_of: Callable[[str], int]
) -> dict[str, Any]:
    """Return the template variables for the page of a document.

    Args:
        request: fields of the query string.
        catalogue: the finished shards.
        queries: queries of this page.
        sources: reader of document texts.
        tone_of: returns the colour of a label.

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
    fields = {"shard": shard, "hit": hit["row"]} if hit else {"shard": shard, "row": document["row"]}
    return {
        "document": document,
        "problem": text.problem,
        "hit": hit,
        "hit_sentence": _sentence(text.text, hit, catalogue, tone_of),
        "paragraphs": [] if text.text is None else paragraphs(text.text, start, end, entities, tone_of, hit),
        "entities": entities,
        "more": MAX_ENTITIES if more else 0,
        "start": start,
        "end": end,
        "part": number,
        "parts": count,
        "fields": fields,
        "previous": address("/document", **fields, part=number - 1) if number > 1 else "",
        "next": address("/document", **fields, part=number + 1) if number < count else "",
    }


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


def _sentence(text: str | None, hit: Row | None, catalogue: Catalogue, tone_of: Callable[[str], int]) -> Any:
    if text is None or hit is None:
        return None
    return in_sentence(text, hit, catalogue.language, tone_of(hit["label"]))
