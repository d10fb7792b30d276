"""Downloads of what a page shows: all selected rows, as CSV or JSON lines, up to a maximum.

Rows are read and sent a page at a time, so a download takes little memory and makes no other page wait.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.database import Database
from pipelines.browse.error_pages import PageError, too_slow
from pipelines.browse.groups import Groups, text_groups
from pipelines.browse.queries import COLUMNS, Gone
from pipelines.browse.query import RowQuery

#: Maximum number of rows of a download, and of those read at a time.
MAX_ROWS, _AT_ONCE = 100_000, 10_000
#: Characters that make spreadsheets take a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_GROUP_COLUMNS = ["text", "entities", "mean_score", "labels"]


@dataclass(frozen=True, slots=True)
class Download:
    """A file to send.

    Attributes:
        name: name of the file.
        content_type: its type.
        parts: its content, made while it is sent.
    """

    name: str
    content_type: str
    parts: Iterator[bytes]


def row_download(database: Database, catalogue: Catalogue, query: RowQuery, kind: str) -> Download:
    """Return the download of selected rows.

    Args:
        database: the tables.
        catalogue: the finished shards.
        query: the rows to select.
        kind: csv or jsonl.
    """

    def pages() -> Iterator[list[dict[str, Any]]]:
        after, sent = None, 0
        while sent < MAX_ROWS:
            with database.session() as queries:
                page = queries.page(catalogue, query, after, min(_AT_ONCE, MAX_ROWS - sent))
            if not page.rows and not page.whole and page.after == after:
                raise too_slow("No further row was found within the time limit.")
            yield [{name: _value(row[name]) for name in COLUMNS[query.table]} for row in page.rows]
            sent, after = sent + len(page.rows), page.after
            if after is None:
                return

    return _download(query.table, kind, COLUMNS[query.table], pages())


def group_download(database: Database, catalogue: Catalogue, query: RowQuery, kind: str) -> Download:
    """Return the download of the texts of selected entities.

    Args:
        database: the tables.
        catalogue: the finished shards.
        query: the entities to select.
        kind: csv or jsonl.
    """

    def pages() -> Iterator[list[dict[str, Any]]]:
        with database.session() as queries:
            groups = text_groups(queries, catalogue, query, everything=True, limit=MAX_ROWS)
        for start in range(0, max(len(groups.texts), 1), _AT_ONCE):
            yield [_group_row(groups, place) for place in range(start, min(start + _AT_ONCE, len(groups.texts)))]

    return _download("entities", kind, _GROUP_COLUMNS, pages())


def _group_row(groups: Groups, place: int) -> dict[str, Any]:
    group = groups.texts[place]
    labels = ", ".join(f"{label} {count}" for label, count in group.labels)
    return dict(zip(_GROUP_COLUMNS, (group.text, group.count, _value(group.mean_score), labels), strict=True))


def _download(name: str, kind: str, columns: list[str], pages: Iterable[list[dict[str, Any]]]) -> Download:
    write: Callable[[list[str], list[dict[str, Any]], bool], str] = {"csv": _csv, "jsonl": _jsonl}[kind]
    content_type = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}[kind]

    def parts() -> Iterator[bytes]:
        try:
            for place, rows in enumerate(pages):
                yield write(columns, rows, place == 0).encode("utf-8", "replace")
        except Gone as error:
            words = f"A file with these rows is missing: {error}. A run may be replacing it: try again in a moment."
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, "Rows missing", words) from error

    return Download(f"{name}.{kind}", content_type, parts())


def _csv(columns: list[str], rows: list[dict[str, Any]], first: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if first:
        writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value that spreadsheets show as it is, instead of running it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _jsonl(columns: list[str], rows: list[dict[str, Any]], first: bool) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    # Scores are float32: 0.9 is not 0.8999999761581421.
    return float(f"{value:.7g}") if isinstance(value, float) else value
