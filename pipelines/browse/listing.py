"""A page of rows with the links to the others, for the pages that list rows."""

from dataclasses import dataclass
from typing import Any

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.queries import Queries
from pipelines.browse.query import Page, RowQuery
from pipelines.browse.request import PageRequest, address, format_position
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS

#: Number of rows per page.
PAGE_ROWS = 25
#: The field of the query string for the label, status or code.
VALUE_FIELDS = {ANNOTATIONS.name: "label", DOCUMENTS.name: "status", REJECTS.name: "code"}


@dataclass(frozen=True, slots=True)
class Listing:
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
    def of(cls, queries: Queries, catalogue: Catalogue, query: RowQuery, request: PageRequest) -> "Listing":
        """Return the requested page of rows.

        Args:
            queries: queries of the page.
            catalogue: the finished shards.
            query: the rows to select.
            request: fields of the query string.
        """
        after = request.position("after", catalogue)
        page = queries.page(catalogue, query, after, PAGE_ROWS)
        known = not query.text and not query.source and query.least is None and query.most is None
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
        """Return the variables of the templates.

        Args:
            path: path of the page.
            more: fields of the form that select no rows.
        """
        query, after = self.query, self.page.after
        name = VALUE_FIELDS[query.table]
        fields = fields_of(query, **more)
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


def fields_of(query: RowQuery, **more: object) -> dict[str, Any]:
    """Return the fields of the query string that select the rows of a query.

    Args:
        query: the rows to select.
        more: further fields.
    """
    named = {"q": query.text, VALUE_FIELDS[query.table]: query.value, "least": query.least, "most": query.most}
    return {**named, "source": query.source, **more}
