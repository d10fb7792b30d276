"""The queries of a page: rows of finished shards, one page at a time.

A row is identified by its shard and its number in that shard's file. A page starts after such a row, so later pages
cost no more than the first. Values reach DuckDB only as parameters; all names in a statement come from this package.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.error_pages import PageError
from pipelines.browse.query import (
    FILES,
    ORDERS,
    VALUES,
    Counts,
    Page,
    Row,
    RowPosition,
    RowQuery,
    condition,
    growing,
    position_of,
)
from pipelines.output.layout import table_path
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from schemas.annotations import SOURCE_COLUMNS

#: Seconds of a page's time that grouping leaves for sorting its result.
_LEFT_SECONDS = 1.0

# Columns that outputs with version 1 of these tables lack
_NEW = {REJECTS.name: ("n_documents",), DOCUMENTS.name: ("language", "language_from"), ANNOTATIONS.name: SOURCE_COLUMNS}
COLUMNS = {
    table.name: [name for name in table.schema.names if name not in _NEW[table.name]]
    for table in (ANNOTATIONS, DOCUMENTS, REJECTS)
}


class OutOfTime(Exception):
    """The time limit of a page is exceeded."""


class Gone(Exception):
    """A file of a shard no longer exists, because a run has removed it."""


class Queries:
    """The queries of a page. Their time limit starts with `Database.session`.

    Args:
        cursor: cursor of the database.
        folder: path of the output folder.
        deadline: time at which the limit is reached, in seconds of `time.monotonic`.
    """

    def __init__(self, cursor: "duckdb.DuckDBPyConnection", folder: str, deadline: float) -> None:
        self._cursor, self._folder, self._deadline = cursor, folder, deadline
        self._began = time.monotonic()

    def page(self, catalogue: Catalogue, query: RowQuery, after: RowPosition | None, limit: int) -> Page:
        """Return the first `limit` rows after a position.

        Args:
            catalogue: the finished shards.
            query: the rows to select.
            after: a row of a shard in the catalogue; None starts at the beginning.
            limit: maximum number of rows.
        """
        if ORDERS[query.order] is None:
            return self._as_stored(catalogue, query, after, limit)
        return self._sorted(catalogue, query, after, limit)

    def counts(self, catalogue: Catalogue, query: RowQuery) -> Counts:
        """Return the number of selected rows. Numbers in the catalogue are used without a query.

        Args:
            catalogue: the finished shards.
            query: the rows to select.
        """
        if not query.text and query.least is None and query.most is None:
            totals = catalogue.totals[query.table]
            known = Counter({query.value: totals[query.value]}) if query.value else totals
            return Counts(Counter({value: count for value, count in known.items() if count}), True)
        value, counted = VALUES[query.table], Counter[str]()
        where, parameters = condition(query)
        statement = f"SELECT {value}, count(*) FROM {FILES} WHERE {where} GROUP BY ALL"
        for shards in growing(catalogue, query, None):
            try:
                found = self.execute(statement, [self.paths(catalogue, query.table, shards), *parameters])
            except OutOfTime:
                return Counts(counted, False)
            for name, count in found:
                counted[name] += count
        return Counts(counted, True)

    def row(self, table: str, position: RowPosition) -> Row | None:
        """Return a row of a finished shard; None if the row does not exist.

        Args:
            table: name of the table.
            position: position of the row.
        """
        columns = ", ".join(COLUMNS[table])
        statement = f"SELECT {columns}, filename, file_row_number FROM {FILES} WHERE file_row_number = ?"
        found = self.execute(statement, [[self._path(table, position.shard)], position.row])
        return _rows(table, found)[0] if found else None

    def documents_of(self, owners: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Row]:
        """Return the rows of tagged documents by (shard, document id).

        Args:
            owners: shard and document id of each document.
        """
        if not owners:
            return {}
        shards = sorted({shard for shard, _ in owners})
        ids = sorted({document_id for _, document_id in owners})
        statement = (
            f"SELECT {', '.join(COLUMNS[DOCUMENTS.name])}, filename, file_row_number FROM {FILES} "
            "WHERE status = 'tagged' AND list_contains(?, document_id)"
        )
        if len(ids) == 1:  # This form lets DuckDB skip row groups.
            statement = statement.replace("list_contains(?, document_id)", "document_id = ?")
        paths = [self._path(DOCUMENTS.name, shard) for shard in shards]
        found = _rows(DOCUMENTS.name, self.execute(statement, [paths, ids[0] if len(ids) == 1 else ids]))
        by_owner = {(row["shard"], row["document_id"]): row for row in found}
        return {owner: by_owner[owner] for owner in owners if owner in by_owner}

    def entities(self, shard: str, document_id: str, start: int, end: int, limit: int) -> list[Row]:
        """Return the entities of a document that overlap characters [start, end), in reading order.

        Args:
            shard: name of the shard.
            document_id: id of the document.
            start: first code point.
            end: code point after the last one.
            limit: maximum number of entities.
        """
        return _rows(
            ANNOTATIONS.name,
            self.execute(
                f"SELECT {', '.join(COLUMNS[ANNOTATIONS.name])}, filename, file_row_number FROM {FILES} "
                "WHERE document_id = ? AND char_start < ? AND char_end > ? "
                "ORDER BY char_start, char_end DESC, entity_id LIMIT ?",
                [[self._path(ANNOTATIONS.name, shard)], document_id, end, start, limit],
            ),
        )

    def crossing(self, shard: str, document_id: str, at: int) -> int | None:
        """Return the first character of the entities of a document that cross a position; None if there are none.

        Args:
            shard: name of the shard.
            document_id: id of the document.
            at: the position, in code points.
        """
        statement = f"SELECT min(char_start) FROM {FILES} WHERE document_id = ? AND char_start < ? AND char_end > ?"
        return self.execute(statement, [[self._path(ANNOTATIONS.name, shard)], document_id, at, at])[0][0]

    def surfaces(self, shard: str, document_id: str) -> Iterator[tuple[int, int, str]]:
        """Yield (char_start, char_end, text) of all entities of a document.

        Args:
            shard: name of the shard.
            document_id: id of the document.
        """
        with self._timed():
            self._cursor.execute(
                f"SELECT char_start, char_end, text FROM {FILES} WHERE document_id = ?",
                [[self._path(ANNOTATIONS.name, shard)], document_id],
            )
            while found := self._cursor.fetchmany(10_000):
                yield from found

    @property
    def seconds_taken(self) -> float:
        """Seconds since the queries of the page began."""
        return time.monotonic() - self._began

    def paths(self, catalogue: Catalogue, table: str, shards: np.ndarray) -> list[str]:
        """Return the files of shards.

        Args:
            catalogue: the finished shards.
            table: name of the table.
            shards: numbers of the shards.
        """
        return [self._path(table, catalogue.names[number]) for number in shards]

    def execute(self, statement: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement.

        Args:
            statement: the statement; names in it come from this package, never from a request.
            parameters: its parameters.
        """
        with self._timed():
            return self._cursor.execute(statement, parameters).fetchall()

    def tried(self, statement: str, parameters: list[Any]) -> bool:
        """Execute a statement without result; return whether time and memory sufficed.

        Afterwards, a short time is left to query what earlier statements left.

        Args:
            statement: the statement, as for `execute`.
            parameters: its parameters.
        """
        try:
            self.execute(statement, parameters)
        except (OutOfTime, duckdb.OutOfMemoryException):
            return False
        return time.monotonic() < self._deadline - _LEFT_SECONDS

    def _as_stored(self, catalogue: Catalogue, query: RowQuery, after: RowPosition | None, limit: int) -> Page:
        where, parameters = condition(query)
        found: list[Row] = []
        for shards in growing(catalogue, query, after):
            within, first = where, parameters
            if after is not None and catalogue.names[shards[0]] == after.shard:
                within, first = f"{where} AND file_row_number > ?", [*parameters, after.row]
            # Without ORDER BY, DuckDB returns rows in stored order, file by file in the order of the list.
            statement = (
                f"SELECT {', '.join(COLUMNS[query.table])}, filename, file_row_number FROM {FILES} "
                f"WHERE {within} LIMIT {limit + 1 - len(found)}"
            )
            try:
                rows = self.execute(statement, [self.paths(catalogue, query.table, shards), *first])
            except OutOfTime:
                begin = RowPosition(catalogue.names[shards[0]], -1)
                return Page(found, after if after is not None and after.shard == begin.shard else begin, False)
            found += _rows(query.table, rows)
            if len(found) > limit:
                return Page(found[:limit], position_of(found[limit - 1]))
        return Page(found, None)

    def _sorted(self, catalogue: Catalogue, query: RowQuery, after: RowPosition | None, limit: int) -> Page:
        order = ORDERS[query.order]
        assert order is not None
        key, kind, falling = order
        where, parameters = condition(query)
        if after is not None:
            last = self.execute(
                f"SELECT {key} FROM {FILES} WHERE file_row_number = ?",
                [[self._path(query.table, after.shard)], after.row],
            )
            if not last:
                return Page([], None)
            beyond = "<" if falling else ">"
            where += (
                f" AND {key} {beyond}= ?::{kind} AND ({key} {beyond} ?::{kind} OR "
                "filename > ? OR (filename = ? AND file_row_number > ?))"
            )
            path = self._path(query.table, after.shard)
            parameters = [*parameters, last[0][0], last[0][0], path, path, after.row]
        statement = (
            f"SELECT {', '.join(COLUMNS[query.table])}, filename, file_row_number, {key} FROM {FILES} WHERE {where} "
            f"ORDER BY {key} {'DESC' if falling else 'ASC'}, filename, file_row_number LIMIT {limit + 1}"
        )
        best: list[tuple[Any, ...]] = []
        for shards in growing(catalogue, query, None):
            best += self.execute(statement, [self.paths(catalogue, query.table, shards), *parameters])
            best.sort(key=lambda found: found[-3:-1])
            best.sort(key=lambda found: found[-1], reverse=falling)  # The sort is stable.
            del best[limit + 1 :]
        rows = _rows(query.table, [found[:-1] for found in best])
        return Page(rows[:limit], position_of(rows[limit - 1]) if len(rows) > limit else None)

    def _path(self, table: str, shard: str) -> str:
        return table_path(self._folder, table, shard)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        if time.monotonic() >= self._deadline:
            raise OutOfTime
        try:
            yield
        except duckdb.InterruptException:
            raise OutOfTime from None
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.IOException as error:
            raise Gone(str(error)) from error
        except duckdb.Error as error:
            words = f"A file with these rows cannot be read: {error}"
            raise PageError(HTTPStatus.INTERNAL_SERVER_ERROR, "Damaged rows", words) from error


def _rows(table: str, found: list[tuple[Any, ...]]) -> list[Row]:
    names = COLUMNS[table]
    return [
        {**dict(zip(names, values, strict=False)), "shard": Path(values[-2]).stem, "row": values[-1]}
        for values in found
    ]
