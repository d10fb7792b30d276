"""The contents of the pages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pipelines.browse.catalogue import Catalogue, LiveCatalogue
from pipelines.browse.database import Database, Queries, retrying
from pipelines.browse.document import document_values
from pipelines.browse.error_pages import PageError, not_found
from pipelines.browse.parts import in_sentence
from pipelines.browse.query import Page, Row, RowQuery
from pipelines.browse.request import PageRequest, address, format_position
from pipelines.browse.sources import Sources, Text, agrees
from pipelines.pages import render
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS

#: Number of rows per page.
TAG_TABLES = 25
#: Maximum seconds for reading the sources of a page of entities.
_CONTEXT_SECONDS = 2.0

_ENTITY_ORDERS = {
    "stored": "as stored",
    "score-down": "highest score first",
    "score-up": "lowest score first",
    "text-up": "A to Z",
    "text-down": "Z to A",
}
_MATCHES = {"part": "contains", "whole": "equals"}
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of an output folder.

    Args:
        folder: path of the output folder.
        live: catalogue of the finished shards.
        database: the tables.
        sources: reader of document texts.
    """

    folder: str
    live: LiveCatalogue
    database: Database
    sources: Sources

    def page(self, path: str, query: str) -> bytes:
        """Return the page at a path.

        Args:
            path: path of the URL.
            query: query string of the URL.

        Raises:
            PageError: the page cannot be shown.
        """
        pages: dict[str, Callable[[PageRequest], bytes]] = {
            "/": self._entities,
            "/documents": self._documents,
            "/document": self._document,
            "/rejects": self._rejects,
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
        query = RowQuery(
            ANNOTATIONS.name,
            request.searched("q"),
            request.one_of("match", _MATCHES, "part") == "whole",
            request.exactly("label"),
            request.share("least"),
            request.share("most"),
            request.one_of("sort", _ENTITY_ORDERS, "stored"),
        )

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = _Listing.of(queries, catalogue, query, request)
            contexts = self._contexts(catalogue, listing.page.rows)
            labels = catalogue.totals[ANNOTATIONS.name].most_common()
            return self._rendered(
                "browse",
                "Entities",
                catalogue,
                listing=listing.values("/", match=request.text("match"), sort=request.text("sort")),
                rows=[
                    (row, context, address("/document", shard=row["shard"], hit=row["row"]) + "#hit")
                    for row, context in zip(listing.page.rows, contexts, strict=True)
                ],
                labels=[(label, count, address("/", label=label)) for label, count in labels],
                matches=_MATCHES,
                orders=_ENTITY_ORDERS,
                match=request.text("match") or "part",
                sort=query.order,
            )

        return self._looked(look)

    def _documents(self, request: PageRequest) -> bytes:
        query = RowQuery(
            DOCUMENTS.name,
            request.searched("q"),
            request.one_of("match", _MATCHES, "part") == "whole",
            request.exactly("status"),
        )

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = _Listing.of(queries, catalogue, query, request)
            return self._rendered(
                "browse_documents",
                "Documents",
                catalogue,
                listing=listing.values("/documents", match=request.text("match")),
                rows=[(row, address("/document", shard=row["shard"], row=row["row"])) for row in listing.page.rows],
                statuses=catalogue.totals[DOCUMENTS.name].most_common(),
                matches=_MATCHES,
                match=request.text("match") or "part",
            )

        return self._looked(look)

    def _rejects(self, request: PageRequest) -> bytes:
        query = RowQuery(REJECTS.name, request.searched("q"), value=request.exactly("code"))

        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                listing = _Listing.of(queries, catalogue, query, request)
            codes = catalogue.totals[REJECTS.name].most_common()
            return self._rendered(
                "browse_rejects",
                "Rejects",
                catalogue,
                listing=listing.values("/rejects"),
                rows=[(row, _head(row["raw"])) for row in listing.page.rows],
                codes=[(code, count, address("/rejects", code=code)) for code, count in codes],
            )

        return self._looked(look)

    def _document(self, request: PageRequest) -> bytes:
        def look(catalogue: Catalogue) -> bytes:
            with self.database.session() as queries:
                values = document_values(request, catalogue, queries, self.sources, _tones(catalogue))
            return self._rendered("browse_document", "Document", catalogue, **values)

        return self._looked(look)

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
        tone_of, language = _tones(catalogue), catalogue.language
        contexts: list[Any] = []
        for row, owner in zip(rows, owners, strict=True):
            text = texts.get(owner, Text(None, lost))
            if text.text is None:
                contexts.append((None, text.problem))
            elif not agrees(text.text, [(row["char_start"], row["char_end"], row["text"])]):
                contexts.append((None, f"its source has changed since it was tagged: {documents[owner]['source']}"))
            else:
                contexts.append((in_sentence(text.text, row, language, tone_of(row["label"])), ""))
        return contexts

    def _looked(self, look: Callable[[Catalogue], Result]) -> Result:
        found: Result = retrying(look, self.live.now, self.live.refresh)
        return found

    def _rendered(self, template: str, title: str, catalogue: Catalogue, **values: Any) -> bytes:
        return render(
            template,
            title=title,
            forms=True,
            at=template,
            folder=self.folder,
            named=bool(self.sources.named),
            totals={table.name: catalogue.count(table.name) for table in (ANNOTATIONS, DOCUMENTS, REJECTS)},
            shards=len(catalogue.names),
            read_at=f"{catalogue.read_at:%H:%M:%S}",
            **values,
        )


@dataclass(frozen=True, slots=True)
class _Listing:
    """A page of rows, and the counts over all selected rows.

    Attributes:
        query: the rows to select.
        page: the rows of the page.
        looked_through: number of shards searched and of all shards, for an incomplete page.
        count: number of selected rows, if known.
        counted_all: whether the count is complete.
        by_value: number of rows by label, status or code.
        first: whether this is the first page.
    """

    query: RowQuery
    page: Page
    looked_through: tuple[int, int]
    count: int | None
    counted_all: bool
    by_value: list[tuple[str, int]]
    first: bool

    @classmethod
    def of(cls, queries: Queries, catalogue: Catalogue, query: RowQuery, request: PageRequest) -> "_Listing":
        after = request.position("after", catalogue)
        page = queries.page(catalogue, query, after, TAG_TABLES)
        known = not query.text and query.least is None and query.most is None
        count, whole, by_value = None, True, list[tuple[str, int]]()
        if known or request.flag("count"):
            counts = queries.counts(catalogue, query)
            count, whole = counts.by_value.total(), counts.whole
            by_value = [] if known else counts.by_value.most_common()
        elif page.after is None and after is None:
            count = len(page.rows)
        done = catalogue.number_of(page.after.shard) if page.after is not None else None
        return cls(query, page, (done or 0, len(catalogue.names)), count, whole, by_value, after is None)

    def values(self, path: str, **more: object) -> dict[str, Any]:
        """Return the variables of the templates; `more` are fields of the form that do not select rows."""
        query, after = self.query, self.page.after
        name = {ANNOTATIONS.name: "label", DOCUMENTS.name: "status", REJECTS.name: "code"}[query.table]
        fields = {"q": query.text, name: query.value, "least": query.least, "most": query.most, **more}
        return {
            "fields": fields,
            "next": address(path, **fields, after=format_position(after)) if after is not None else "",
            "begin": "" if self.first else address(path, **fields),
            "count_all": address(path, **fields, count=1) if self.count is None else "",
            "whole": self.page.whole,
            "looked_through": self.looked_through,
            "count": self.count,
            "counted_all": self.counted_all,
            "by_value": [(value, count, address(path, **{**fields, name: value})) for value, count in self.by_value],
            "narrowed": any(value not in (None, "") for value in fields.values()),
            "all_rows": path,
        }


def _tones(catalogue: Catalogue) -> Callable[[str], int]:
    """Return a function that gives a label its colour; the most frequent labels have different colours."""
    places = {label: place for place, (label, _) in enumerate(catalogue.totals[ANNOTATIONS.name].most_common())}
    return lambda label: places.get(label, 0) % 6


def _head(raw: bytes | None) -> str:
    """Return the first bytes of a record as text; bytes that are not UTF-8 are escaped."""
    return "" if raw is None else raw.decode("utf-8", "backslashreplace")
