"""Rows of finished shards, read by DuckDB one page at a time, in bounded time and memory.

DuckDB reads the files of an increasing number of shards, never of all at once: its memory per file adds up with
hundreds of thousands of files, and for rows in stored order the first shards usually suffice.

A row is identified by its shard and its number in that shard's file. A page starts after such a row, so later pages
cost no more than the first. Values reach DuckDB only as parameters; all names in a statement come from this module.
"""

import contextlib
import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.error_pages import PageError, too_slow
from pipelines.browse.query import (
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
from pipelines.errors import PipelineError
from pipelines.output.layout import table_path
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from schemas.annotations import SOURCE_COLUMNS

try:
    import duckdb
except ImportError as _error:
    raise PipelineError("browse.not_installed", reason=_error) from _error

#: Maximum seconds for the queries of a page.
SECONDS = 10.0
#: Memory limit of DuckDB, which does not spill to disk.
MEMORY = "512MB"
_THREADS = 4
_AT_ONCE = 2  # pages queried concurrently; others wait
#: Characters that have a special meaning for DuckDB in a folder name, or that it cannot represent.
_SPECIAL = re.compile("[*?\\[\\]{}\\\\\ud800-\udfff]")

# Columns that outputs with version 1 of these tables lack
_NEW = {REJECTS.name: ("n_documents",), DOCUMENTS.name: ("language", "language_from"), ANNOTATIONS.name: SOURCE_COLUMNS}
_COLUMNS = {
    table.name: [name for name in table.schema.names if name not in _NEW[table.name]]
    for table in (ANNOTATIONS, DOCUMENTS, REJECTS)
}
_FILES = "read_parquet(?, filename = true, file_row_number = true, hive_partitioning = false)"


class _OutOfTime(Exception):
    """The time limit of a page is exceeded."""


class Gone(Exception):
    """A file of a shard no longer exists, because a run has removed it."""


class Database:
    """Access to the tables of an output folder.

    Args:
        folder: path of the output folder.
        memory: memory limit, in DuckDB's notation.
        seconds: maximum time for all queries of a page.
    """

    def __init__(self, folder: str, memory: str = MEMORY, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._stack = contextlib.ExitStack()
        self._folder = folder
        if _SPECIAL.search(folder):
            # A symbolic link from outside, whose path has no special characters.
            scratch = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="spanmarker-browse-"))
            self._folder = f"{scratch}/output"
            os.symlink(folder, self._folder)
        self._slots = threading.Semaphore(_AT_ONCE)
        self._active: set[duckdb.DuckDBPyConnection] = set()
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": memory,
                "threads": min(_THREADS, os.cpu_count() or 1),
                "temp_directory": "",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        quoted = self._folder.replace("'", "''")
        self._connection.execute(f"SET allowed_directories = ['{quoted}/']")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Interrupt running queries and close the connection."""
        for cursor in list(self._active):
            cursor.interrupt()
        for _ in range(_AT_ONCE):
            self._slots.acquire(timeout=1)
        self._connection.close()
        self._stack.close()

    @contextlib.contextmanager
    def session(self, seconds: float | None = None) -> Iterator["Queries"]:
        """Provide the queries of a page, within a time limit.

        Args:
            seconds: time limit; None selects that of the database.

        Raises:
            PageError: no slot is free, the time or memory limit is exceeded, or a file is damaged.
            Gone: a file no longer exists.
        """
        limit = self.seconds if seconds is None else seconds
        deadline = time.monotonic() + limit
        if not self._slots.acquire(timeout=limit):
            raise too_slow("Other searches are running. Try again in a moment.")
        over = threading.Event()
        cursor = self._connection.cursor()
        self._active.add(cursor)
        watch = threading.Thread(target=_interrupt, args=(cursor, deadline, over), daemon=True)
        watch.start()
        try:
            yield Queries(cursor, self._folder, deadline)
        except _OutOfTime:
            raise too_slow(
                f"The search was stopped after {limit:g} seconds. Narrow it with a label or a minimum score, or show "
                "rows as stored."
            ) from None
        except duckdb.OutOfMemoryException:
            words = "The rows to compare exceed the memory limit of this page. Narrow the search."
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, "The search needs too much memory", words) from None
        finally:
            over.set()
            watch.join()
            self._active.discard(cursor)
            cursor.close()
            self._slots.release()


def _interrupt(cursor: "duckdb.DuckDBPyConnection", deadline: float, over: threading.Event) -> None:
    # Repeat, because an interrupt between two queries has no effect.
    if not over.wait(max(0.0, deadline - time.monotonic())):
        cursor.interrupt()
        while not over.wait(0.05):
            cursor.interrupt()


class Queries:
    """The queries of a page. Their time limit starts with `Database.session`.

    Args:
        cursor: cursor of the database.
        folder: path of the output folder.
        deadline: time at which the limit is reached, in seconds of `time.monotonic`.
    """

    def __init__(self, cursor: "duckdb.DuckDBPyConnection", folder: str, deadline: float) -> None:
        self._cursor, self._folder, self._deadline = cursor, folder, deadline

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
        statement = f"SELECT {value}, count(*) FROM {_FILES} WHERE {where} GROUP BY ALL"
        for shards in growing(catalogue, query, None):
            try:
                found = self._execute(statement, [self._paths(catalogue, query.table, shards), *parameters])
            except _OutOfTime:
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
        columns = ", ".join(_COLUMNS[table])
        statement = f"SELECT {columns}, filename, file_row_number FROM {_FILES} WHERE file_row_number = ?"
        found = self._execute(statement, [[self._path(table, position.shard)], position.row])
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
            f"SELECT {', '.join(_COLUMNS[DOCUMENTS.name])}, filename, file_row_number FROM {_FILES} "
            "WHERE status = 'tagged' AND list_contains(?, document_id)"
        )
        if len(ids) == 1:  # This form lets DuckDB skip row groups.
            statement = statement.replace("list_contains(?, document_id)", "document_id = ?")
        paths = [self._path(DOCUMENTS.name, shard) for shard in shards]
        found = _rows(DOCUMENTS.name, self._execute(statement, [paths, ids[0] if len(ids) == 1 else ids]))
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
            self._execute(
                f"SELECT {', '.join(_COLUMNS[ANNOTATIONS.name])}, filename, file_row_number FROM {_FILES} "
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
        statement = f"SELECT min(char_start) FROM {_FILES} WHERE document_id = ? AND char_start < ? AND char_end > ?"
        return self._execute(statement, [[self._path(ANNOTATIONS.name, shard)], document_id, at, at])[0][0]

    def surfaces(self, shard: str, document_id: str) -> Iterator[tuple[int, int, str]]:
        """Yield (char_start, char_end, text) of all entities of a document.

        Args:
            shard: name of the shard.
            document_id: id of the document.
        """
        with self._timed():
            self._cursor.execute(
                f"SELECT char_start, char_end, text FROM {_FILES} WHERE document_id = ?",
                [[self._path(ANNOTATIONS.name, shard)], document_id],
            )
            while found := self._cursor.fetchmany(10_000):
                yield from found

    def _as_stored(self, catalogue: Catalogue, query: RowQuery, after: RowPosition | None, limit: int) -> Page:
        where, parameters = condition(query)
        found: list[Row] = []
        for shards in growing(catalogue, query, after):
            within, first = where, parameters
            if after is not None and catalogue.names[shards[0]] == after.shard:
                within, first = f"{where} AND file_row_number > ?", [*parameters, after.row]
            # Without ORDER BY, DuckDB returns rows in stored order, file by file in the order of the list.
            statement = (
                f"SELECT {', '.join(_COLUMNS[query.table])}, filename, file_row_number FROM {_FILES} "
                f"WHERE {within} LIMIT {limit + 1 - len(found)}"
            )
            try:
                rows = self._execute(statement, [self._paths(catalogue, query.table, shards), *first])
            except _OutOfTime:
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
            last = self._execute(
                f"SELECT {key} FROM {_FILES} WHERE file_row_number = ?",
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
            f"SELECT {', '.join(_COLUMNS[query.table])}, filename, file_row_number, {key} FROM {_FILES} WHERE {where} "
            f"ORDER BY {key} {'DESC' if falling else 'ASC'}, filename, file_row_number LIMIT {limit + 1}"
        )
        best: list[tuple[Any, ...]] = []
        for shards in growing(catalogue, query, None):
            best += self._execute(statement, [self._paths(catalogue, query.table, shards), *parameters])
            best.sort(key=lambda found: found[-3:-1])
            best.sort(key=lambda found: found[-1], reverse=falling)  # The sort is stable.
            del best[limit + 1 :]
        rows = _rows(query.table, [found[:-1] for found in best])
        return Page(rows[:limit], position_of(rows[limit - 1]) if len(rows) > limit else None)

    def _paths(self, catalogue: Catalogue, table: str, shards: np.ndarray) -> list[str]:
        return [self._path(table, catalogue.names[number]) for number in shards]

    def _path(self, table: str, shard: str) -> str:
        return table_path(self._folder, table, shard)

    def _execute(self, statement: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        with self._timed():
            return self._cursor.execute(statement, parameters).fetchall()

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        if time.monotonic() >= self._deadline:
            raise _OutOfTime
        try:
            yield
        except duckdb.InterruptException:
            raise _OutOfTime from None
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.IOException as error:
            raise Gone(str(error)) from error
        except duckdb.Error as error:
            words = f"A file with these rows cannot be read: {error}"
            raise PageError(HTTPStatus.INTERNAL_SERVER_ERROR, "Damaged rows", words) from error


def retrying(work: Callable[[Catalogue], Any], now: Callable[[], Catalogue], refresh: Callable[[], Catalogue]) -> Any:
    """Call `work` with the current catalogue, and once more with a new one if a run has removed a file.

    Args:
        work: function of the catalogue.
        now: returns the current catalogue.
        refresh: reads a new catalogue.

    Raises:
        PageError: a file is missing again.
    """
    try:
        return work(now())
    except Gone:
        try:
            return work(refresh())
        except Gone as error:
            words = f"A file with these rows is missing: {error}. A run may be replacing it: try again in a moment."
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, "Rows missing", words) from error


def _rows(table: str, found: list[tuple[Any, ...]]) -> list[Row]:
    names = _COLUMNS[table]
    return [
        {**dict(zip(names, values, strict=False)), "shard": Path(values[-2]).stem, "row": values[-1]}
        for values in found
    ]
