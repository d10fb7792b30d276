"""Connections of DuckDB to the tables of an output, in bounded time and memory.

DuckDB reads the files of an increasing number of shards, never of all at once: its memory per file adds up with
hundreds of thousands of files, and for rows in stored order the first shards usually suffice.
"""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from pipelines.browse.catalogue import SPECIAL, Catalogue
from pipelines.browse.error_pages import PageError, too_slow
from pipelines.errors import PipelineError
from pipelines.storage import resolve
from pipelines.storage.urls import is_local

try:
    import duckdb

    from pipelines.browse.queries import Gone, OutOfTime, Queries
except ImportError as _error:
    raise PipelineError("browse.not_installed", reason=_error) from _error

#: Maximum seconds for the queries of a page.
SECONDS = 10.0
#: Maximum seconds that a page waits for the queries of others.
WAIT_SECONDS = 60.0
#: Memory limit of DuckDB, which does not spill to disk.
MEMORY = "512MB"
_THREADS = 4
_AT_ONCE = 2  # pages queried concurrently; others wait


class Database:
    """Access to the tables of an output folder.

    Args:
        folder: path or URL of the output folder.
        memory: memory limit, in DuckDB's notation.
        seconds: maximum time for all queries of a page.
    """

    def __init__(self, folder: str, memory: str = MEMORY, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._stack = contextlib.ExitStack()
        self._folder = folder
        fs, _ = resolve(folder)
        if SPECIAL.search(folder) and is_local(fs):
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
        if not is_local(fs):
            self._connection.register_filesystem(fs)  # DuckDB reads the store as everything else here does.
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
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise too_slow("Other searches are running. Try again in a moment.")
        deadline = time.monotonic() + limit  # Waiting for others does not count.
        over = threading.Event()
        cursor = self._connection.cursor()
        self._active.add(cursor)
        watch = threading.Thread(target=_interrupt, args=(cursor, deadline, over), daemon=True)
        watch.start()
        try:
            yield Queries(cursor, self._folder, deadline)
        except OutOfTime:
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
