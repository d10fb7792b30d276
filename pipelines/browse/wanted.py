"""Which rows are asked for, and the shards that may have them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.browse.catalogue import Catalogue
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS

#: Rows and files of the shards that are asked first, and the most that are asked at once.
_FIRST_ROWS, _MOST_ROWS = 200_000, 4_000_000
_FIRST_FILES, _MOST_FILES = 16, 1024

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a table: its shard, and its number in the shard's file; -1 is before the first."""

    shard: str
    row: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of a table are asked for, and in which order.

    Attributes:
        table: annotations, documents or rejects.
        text: what the text (of rejects and documents the id) has in it, or is; in any case of letters. Empty: any.
        whole: whether it is all of the text.
        value: label, status or code; empty: any.
        least, most: bounds of the score, inclusive, as float32.
        order: of ORDERS.
    """

    table: str
    text: str = ""
    whole: bool = False
    value: str = ""
    least: float | None = None
    most: float | None = None
    order: str = "stored"


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the rows: each has the table's columns, `shard` and `row`.

    `after` is where the next page begins, None if there is none. If `whole` is false the time was over before there
    were enough, and `after` is how far was looked.
    """

    rows: list[Row]
    after: Place | None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows are as wanted, by label, status or code. If not `whole`, the time was over: there are more."""

    by_value: Counter[str]
    whole: bool


#: Order -> what rows are sorted by, its type, and whether the greatest comes first. Ties are as stored.
ORDERS: dict[str, tuple[str, str, bool] | None] = {
    "stored": None,
    "score-down": ("score", "FLOAT", True),
    "score-up": ("score", "FLOAT", False),
    "text-up": ("lower(text)", "VARCHAR", False),
    "text-down": ("lower(text)", "VARCHAR", True),
}
#: What is searched, and by what rows are counted, in each table.
TEXTS = {ANNOTATIONS.name: "text", DOCUMENTS.name: "document_id", REJECTS.name: "document_id"}
VALUES = {ANNOTATIONS.name: "label", DOCUMENTS.name: "status", REJECTS.name: "code"}


def condition(wanted: Wanted) -> tuple[str, list[Any]]:
    """Return what rows must meet, as SQL with its parameters."""
    conditions, parameters = ["true"], list[Any]()

    def add(condition: str, value: object) -> None:
        conditions.append(condition)
        parameters.append(value)

    if wanted.value:
        add(f"{VALUES[wanted.table]} = ?", wanted.value)
    if wanted.text:
        text = TEXTS[wanted.table]
        add(f"lower({text}) = lower(?)" if wanted.whole else f"contains(lower({text}), lower(?))", wanted.text)
    # Scores are float32: 0.9 is meant to find what was stored for 0.9.
    if wanted.least is not None:
        add("score >= ?::FLOAT", wanted.least)
    if wanted.most is not None:
        add("score <= ?::FLOAT", wanted.most)
    return " AND ".join(conditions), parameters


def growing(catalogue: Catalogue, wanted: Wanted, after: Place | None) -> Iterator[np.ndarray]:
    """Yield numbers of the shards that may have such rows, in order, more of them each time.

    The shard that `after` is in comes alone, first.
    """
    rows = catalogue.rows[wanted.table]
    having = catalogue.having[wanted.table]
    shards = having.get(wanted.value, np.empty(0, np.int32)) if wanted.value else np.flatnonzero(rows)
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


def place_of(row: Row) -> Place:
    """Return where a row of a page is."""
    return Place(row["shard"], row["row"])
