"""The contents of the pages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pipelines.browse.catalogue import Catalogue, LiveCatalogue
from pipelines.browse.database import Database, retrying
from pipelines.browse.document import document_values
from pipelines.browse.download import MAX_ROWS, Download, group_download, row_download
from pipelines.browse.error_pages import PageError, not_found
from pipelines.browse.groups import GroupCache
from pipelines.browse.listing import Listing, fields_of
from pipelines.browse.parts import in_sentence
from pipelines.browse.query import Row, RowQuery
from pipelines.browse.request import PageRequest, address
from pipelines.pages import render
from pipelines.pages.cells import bar
from pipelines.pages.labels import LabelTones
from pipelines.texts.sources import Sources, Text, agrees
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS

#: Number of texts per page of entities, and of labels offered above the results.
_TEXTS, _FACETS = 50, 60
#: Maximum seconds for reading the sources of a page of entities.
_CONTEXT_SECONDS = 2.0

_GROUP_ORDERS = {
    "count": "most frequent first",
    "score-up": "lowest mean score first",
    "score-down": "highest mean score first",
    "text-up": "A to Z",
    "text-down": "Z to A",
}
_MENTION_ORDERS = {
    "stored": "as in the documents",
    "score-down": "highest score first",
    "score-up": "lowest score first",
    "text-up": "A to Z",
    "text-down": "Z to A",
}
_MATCHES = {"part": "contains", "whole": "equals", "exact": "equals, same case"}
_KINDS = {"csv": "CSV", "jsonl": "JSON lines"}
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of an output folder.

    Args:
        folder: path or URL of the output folder.
        live: catalogue of the finished shards.
        database: the tables.
        sources: reader of document texts.
    """

    folder: str
    live: LiveCatalogue
    database: Database
    sources: Sources
    groups: GroupCache = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", GroupCache(self.database))

    def page(self, path: str, query: str) -> bytes | Download:
        """Return the page at a path, or the file to download.

        Args:
            path: path of the URL.
            query: query string of the URL.

        Raises:
            PageError: the page cannot be shown.
        """
        pages: dict[str, Callable[[PageRequest], bytes | Download]] = {
            "/": self._entities,
            "/mentions": self._mentions,
            "/documents": self._documents,
            "/document": self._document,
            "/rejects": self._rejects,
            "/download": self._download,
        }
        if path not in pages:
            raise not_found("There is no such page.")
        return pages[path](PageRequest(query))

    def error_page(self, error: PageError) -> bytes:
        """Return the page that is shown instead of one that cannot be shown.

        Args:
            error: the reason.
        """
        return render("browse_error", title=error.title, forms=True, explanation=error.explanation, at="")

    def _entities(self, request: PageRequest) -> bytes:
        query = _entity_query(request, _GROUP_ORDERS, "count")
        number, everything = request.count("page") or 1, request.flag("count")

        def look(catalogue: Catalogue) -> bytes:
            found = self.groups.groups(catalogue, query, everything=everything)
            start = (number - 1) * _TEXTS
            texts = found.texts[start : start + _TEXTS]
            fields = _entity_fields(query, request, count="1" if everything else "")
            most = found.texts[0].count if found.texts and query.order == "count" else 0
            tones = _tones(catalogue)
            return self._rendered(
                "browse",
                "Entities",
                catalogue,
                **_form("/", query, request, _GROUP_ORDERS, fields),
                facets=_facets("/", found.by_label, fields, tones),
                texts=[
                    (
                        group,
                        [(label, count, tones.of(label)) for label, count in group.labels],
                        bar(group.count / most) if most else "",
                        address("/mentions", **{**fields, "q": group.text, "match": "exact", "sort": "", "count": ""}),
                    )
                    for group in texts
                ],
                found=found,
                shown=(start + 1, start + len(texts)),
                count_all=address("/", **{**fields, "count": 1}),
                mentions=address("/mentions", **{**fields, "sort": "", "count": ""}),
                previous=address("/", **fields, page=number - 1) if number > 1 else "",
                next=address("/", **fields, page=number + 1) if start + _TEXTS < len(found.texts) else "",
                downloads=_downloads("entities", fields),
            )

        return self._looked(look)

    def _mentions(self, request: PageRequest) -> bytes:
        query = _entity_query(request, _MENTION_ORDERS, "stored")

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = Listing.of(queries, catalogue, query, request)
            contexts = self._contexts(catalogue, listing.page.rows)
            fields = _entity_fields(query, request)
            counts = dict(listing.by_value) or catalogue.totals[ANNOTATIONS.name]
            counted = bool(listing.by_value) or not (query.text or query.least is not None or query.most is not None)
            return self._rendered(
                "browse_mentions",
                "Mentions",
                catalogue,
                **_form("/mentions", query, request, _MENTION_ORDERS, fields),
                listing=listing.values("/mentions", match=request.text("match"), sort=request.text("sort")),
                facets=_facets("/mentions", counts, fields, _tones(catalogue), counted=counted),
                rows=[
                    (row, context, address("/document", shard=row["shard"], hit=row["row"]) + "#hit")
                    for row, context in zip(listing.page.rows, contexts, strict=True)
                ],
                tone_of=_tones(catalogue).of,
                downloads=_downloads("mentions", fields),
            )

        return self._looked(look)

    def _documents(self, request: PageRequest) -> bytes:
        query = _document_query(request)

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = Listing.of(queries, catalogue, query, request)
            return self._rendered(
                "browse_documents",
                "Documents",
                catalogue,
                listing=listing.values("/documents", match=request.text("match")),
                rows=[(row, address("/document", shard=row["shard"], row=row["row"])) for row in listing.page.rows],
                statuses=catalogue.totals[DOCUMENTS.name].most_common(),
                matches=_MATCHES,
                match=request.text("match") or "part",
                downloads=_downloads("documents", fields_of(query, match=request.text("match"))),
            )

        return self._looked(look)

    def _rejects(self, request: PageRequest) -> bytes:
        query = RowQuery(REJECTS.name, request.searched("q"), value=request.exactly("code"))

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = Listing.of(queries, catalogue, query, request)
            return self._rendered(
                "browse_rejects",
                "Rejects",
                catalogue,
                listing=listing.values("/rejects"),
                rows=[(row, _head(row["raw"])) for row in listing.page.rows],
                codes=catalogue.totals[REJECTS.name].most_common(),
                downloads=_downloads("rejects", fields_of(query)),
            )

        return self._looked(look)

    def _document(self, request: PageRequest) -> bytes:
        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                values = document_values(request, catalogue, queries, self.sources, _tones(catalogue))
            return self._rendered("browse_document", "Document", catalogue, **values)

        return self._looked(look)

    def _download(self, request: PageRequest) -> Download:
        kind = request.one_of("as", _KINDS, "csv")
        what = request.one_of("what", dict.fromkeys(("entities", "mentions", "documents", "rejects"), ""), "entities")
        catalogue = self.live.now()
        if what == "entities":
            query = _entity_query(request, _GROUP_ORDERS, "count")
            return group_download(self.database, catalogue, query, kind)
        if what == "mentions":
            query = _entity_query(request, _MENTION_ORDERS, "stored")
        elif what == "documents":
            query = _document_query(request)
        else:
            query = RowQuery(REJECTS.name, request.searched("q"), value=request.exactly("code"))
        return row_download(self.database, catalogue, query, kind)

    def _contexts(self, catalogue: Catalogue, rows: list[Row]) -> list[Any]:
        """Return the sentence of each entity, or the reason why it cannot be shown."""
        owners = [(row["shard"], row["document_id"]) for row in rows]
        lost = "the documents table has no row for its document"
        try:
            # A separate time limit: rows are shown even if finding them took all the time.
            with self.database.session(_CONTEXT_SECONDS) as queries:
                documents = queries.documents_of(list(dict.fromkeys(owners)))
        except PageError as error:
            documents, lost = {}, f"its document was not looked up. {error.explanation}"
        known = list(documents)
        found = self.sources.texts([documents[owner] for owner in known], _CONTEXT_SECONDS)
        texts = dict(zip(known, found, strict=True))
        tones, language = _tones(catalogue), catalogue.language
        contexts: list[Any] = []
        for row, owner in zip(rows, owners, strict=True):
            text = texts.get(owner, Text(None, lost))
            if text.text is None:
                contexts.append((None, text.problem))
            elif not agrees(text.text, [(row["char_start"], row["char_end"], row["text"])]):
                contexts.append((None, f"its source has changed since it was tagged: {documents[owner]['source']}"))
            else:
                contexts.append((in_sentence(text.text, row, language, tones.of(row["label"])), ""))
        return contexts

    def _looked(self, look: Callable[[Catalogue], Result]) -> Result:
        found: Result = retrying(look, self.live.now, self.live.refresh)
        return found

    def _rendered(self, template: str, title: str, catalogue: Catalogue, **values: Any) -> bytes:
        headline = values.pop("headline", "")
        return render(
            template,
            title=title,
            headline=headline,
            forms=True,
            at=template,
            max_rows=MAX_ROWS,
            folder=self.folder,
            named=bool(self.sources.named),
            totals={table.name: catalogue.count(table.name) for table in (ANNOTATIONS, DOCUMENTS, REJECTS)},
            shards=len(catalogue.names),
            read_at=f"{catalogue.read_at:%H:%M:%S}",
            **values,
        )


def _entity_query(request: PageRequest, orders: dict[str, str], order: str) -> RowQuery:
    match = request.one_of("match", _MATCHES, "part")
    return RowQuery(
        ANNOTATIONS.name,
        request.searched("q"),
        match == "whole",
        request.exactly("label"),
        request.share("least"),
        request.share("most"),
        request.one_of("sort", orders, order),
        match == "exact",
    )


def _document_query(request: PageRequest) -> RowQuery:
    match = request.one_of("match", _MATCHES, "part")
    return RowQuery(
        DOCUMENTS.name,
        request.searched("q"),
        match == "whole",
        request.exactly("status"),
        exact=match == "exact",
        source=request.exactly("source"),
    )


def _entity_fields(query: RowQuery, request: PageRequest, **more: object) -> dict[str, Any]:
    return fields_of(query, match=request.text("match"), sort=request.text("sort"), **more)


def _form(
    path: str, query: RowQuery, request: PageRequest, orders: dict[str, str], fields: dict[str, Any]
) -> dict[str, Any]:
    """Return the variables of the form of entities."""
    return {
        "fields": fields,
        "all_labels": address(path, **{**fields, "label": ""}),
        "matches": _MATCHES,
        "match": request.text("match") or "part",
        "orders": orders,
        "sort": query.order,
        # Unfolded only if they change the results: the form sends the defaults too.
        "more_filters": query.least is not None
        or query.most is not None
        or (request.text("match") or "part") != "part"
        or query.order != next(iter(orders)),
    }


def _facets(
    path: str, counts: Mapping[str, int], fields: dict[str, Any], tones: LabelTones, *, counted: bool = True
) -> list[tuple[str, int | None, int, str]]:
    """Return (label, number of entities, colour, link) of the labels to narrow a search to."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_FACETS]
    first = {**fields, "count": fields.get("count", "")}
    return [
        (label, count if counted else None, tones.of(label), address(path, **{**first, "label": label}))
        for label, count in ordered
    ]


def _downloads(what: str, fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, link) of the formats that the rows of a page can be saved in."""
    selected = {name: value for name, value in fields.items() if name != "count"}
    return [(name, address("/download", what=what, **{"as": kind}, **selected)) for kind, name in _KINDS.items()]


def _tones(catalogue: Catalogue) -> LabelTones:
    """Return the colours of the labels; the most frequent ones have different colours."""
    return LabelTones(catalogue.totals[ANNOTATIONS.name])


def _head(raw: bytes | None) -> str:
    """Return the first bytes of a record as text; bytes that are not UTF-8 are escaped."""
    return "" if raw is None else raw.decode("utf-8", "backslashreplace")
