"""Selection of rows, and the shards that may contain them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.browse.catalogue import Catalogue
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS

#: The rows of a list of files, given as the first parameter of a statement.
FILES = "read_parquet(?, filename = true, file_row_number = true, hive_partitioning = false)"
#: Limits of the shards queried together, in rows and files: in the first step, and after doubling with each step.
_FIRST_ROWS, _MOST_ROWS = 200_000, 4_000_000
_FIRST_FILES, _MOST_FILES = 16, 1024

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowPosition:
    """The position of a row in a table.

    Attributes:
        shard: name of the shard.
        row: number of the row in the shard's file; -1 is the position before the first row.
    """

    shard: str
    row: int


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The rows of a table to select, and their order.

    Attributes:
        table: annotations, documents or rejects.
        text: text to search for, ignoring case, in the entity text, or in the id of documents and rejects; empty: any.
        whole: whether the text must match completely.
        value: label, status or code; empty: any.
        least: minimum score, inclusive, as float32; None: no limit.
        most: maximum score, inclusive, as float32; None: no limit.
        order: a key of ORDERS; for groups of entities, of `groups.ORDERS`.
        exact: whether the text must match completely, including case.
        source: source of documents, exactly; empty: any.
    """

    table: str
    text: str = ""
    whole: bool = False
    value: str = ""
    least: float | None = None
    most: float | None = None
    order: str = "stored"
    exact: bool = False
    source: str = ""

    def without_value(self) -> "RowQuery":
        """Return the query for any label, status or code."""
        return replace(self, value="")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of selected rows.

    Attributes:
        rows: the rows, with the table's columns, `shard` and `row`.
        after: position after which the next page starts; None if there is none. On an incomplete page, the
            position up to which shards were searched.
        whole: whether the page is complete; false if the time limit was exceeded before enough rows were found.
    """

    rows: list[Row]
    after: RowPosition | None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of selected rows.

    Attributes:
        by_value: number of rows by label, status or code.
        whole: whether the counts are complete; false if the time limit was exceeded.
    """

    by_value: Counter[str]
    whole: bool


#: Order -> sort key, its SQL type, and whether the order is descending. Ties are in stored order.
ORDERS: dict[str, tuple[str, str, bool] | None] = {
    "stored": None,
    "score-down": ("score", "FLOAT", True),
    "score-up": ("score", "FLOAT", False),
    "text-up": ("lower(text)", "VARCHAR", False),
    "text-down": ("lower(text)", "VARCHAR", True),
}
#: The searched column and the column for counting of each table.
TEXTS = {ANNOTATIONS.name: "text", DOCUMENTS.name: "document_id", REJECTS.name: "document_id"}
VALUES = {ANNOTATIONS.name: "label", DOCUMENTS.name: "status", REJECTS.name: "code"}


def condition(query: RowQuery) -> tuple[str, list[Any]]:
    """Return the SQL condition for the selected rows, with its parameters.

    Args:
        query: the rows to select.
    """
    conditions, parameters = ["true"], list[Any]()

    def add(condition: str, value: object) -> None:
        conditions.append(condition)
        parameters.append(value)

    if query.value:
        add(f"{VALUES[query.table]} = ?", query.value)
    if query.text:
        text = TEXTS[query.table]
        whole = f"{text} = ?" if query.exact else f"lower({text}) = lower(?)"
        add(whole if query.whole or query.exact else f"contains(lower({text}), lower(?))", query.text)
    if query.source:
        add("source = ?", query.source)
    # Scores are float32: the bound 0.9 must include a score stored as 0.9.
    if query.least is not None:
        add("score >= ?::FLOAT", query.least)
    if query.most is not None:
        add("score <= ?::FLOAT", query.most)
    return " AND ".join(conditions), parameters


def growing(catalogue: Catalogue, query: RowQuery, after: RowPosition | None) -> Iterator[np.ndarray]:
    """Yield growing groups of numbers of the shards that may contain selected rows, in order.

    The shard of `after` comes first, in its own group.

    Args:
        catalogue: the finished shards.
        query: the rows to select.
        after: position after which rows are needed; None starts at the beginning.
    """
    rows = catalogue.rows[query.table]
    having = catalogue.having[query.table]
    shards = having.get(query.value, np.empty(0, np.int32)) if query.value else np.flatnonzero(rows)
    if after is not None:
        first = catalogue.number_of(after.shard)
        assert first is not None
        shards = shards[shards >= first]
        if len(shards) and shards[0] == first:
            yield shards[:1]
            shards = shards[1:]
    ends = np.cumsum(rows[shards])
    most_rows, most_files, start = _FIRST_ROWS, _FIRST_FILES, 0
    while start < len(shards):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + most_rows, side="right"))
        end = min(max(end, start + 1), start + most_files, len(shards))
        yield shards[start:end]
        start = end
        most_rows, most_files = min(2 * most_rows, _MOST_ROWS), min(2 * most_files, _MOST_FILES)


def position_of(row: Row) -> RowPosition:
    """Return the position of a row.

    Args:
        row: a row of a page.
    """
    return RowPosition(row["shard"], row["row"])
