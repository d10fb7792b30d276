"""Entities grouped by their text: how often each text was found, with which labels and scores.

Grouping needs all selected rows, unlike a page of rows. A large output is therefore sampled: shards spread evenly over
it, up to a number of rows. Searches go through the shards in order for a short time. The page says how much was
counted, and offers to count everything. Rows of a few shards at a time are grouped into a temporary table of DuckDB.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipelines.browse.catalogue import Catalogue
from pipelines.browse.database import Database
from pipelines.browse.queries import Queries
from pipelines.browse.query import FILES, RowQuery, condition, growing

#: Maximum number of texts that are kept for a page.
MAX_TEXTS = 1000
#: Maximum number of rows that are all counted at once, and of the rows and files of a sample of more.
_ALL_ROWS = 1_000_000
_SAMPLE_ROWS, _SAMPLE_FILES = 200_000, 16
#: Seconds after which a search stops, unless everything is to be counted.
_SECONDS = 1.5
#: Number of labels listed with a text.
_LABELS = 4
_KEPT = 32  # results that are remembered

ORDERS = {
    "count": "n DESC, text",
    "score-up": "mean, n DESC, text",
    "score-down": "mean DESC, n DESC, text",
    "text-up": "lower(text), text",
    "text-down": "lower(text) DESC, text DESC",
}


@dataclass(frozen=True, slots=True)
class TextGroup:
    """A text of entities.

    Attributes:
        text: the text, exactly.
        count: number of entities with it.
        mean_score: mean of their scores.
        labels: (label, number of entities) of the most frequent labels.
        more_labels: number of further labels.
    """

    text: str
    count: int
    mean_score: float
    labels: list[tuple[str, int]]
    more_labels: int


@dataclass(frozen=True, slots=True)
class Groups:
    """Texts in order, and what they were counted in.

    Attributes:
        texts: the texts, at most as many as were asked for.
        cut: whether there are more.
        by_label: number of entities by label, whatever label is selected.
        rows: number of rows that were looked at.
        whole: whether these are all rows.
    """

    texts: list[TextGroup]
    cut: bool
    by_label: Counter[str]
    rows: int
    whole: bool


class GroupCache:
    """Groups texts, and remembers the results for the pages and requests that follow.

    Args:
        database: the tables.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[RowQuery, bool], tuple[Catalogue, Groups]] = OrderedDict()

    def groups(self, catalogue: Catalogue, query: RowQuery, *, everything: bool) -> Groups:
        """Return the texts of selected entities.

        Args:
            catalogue: the finished shards.
            query: the entities to select; its order is a key of `ORDERS`.
            everything: whether to count all rows, as far as the time limit of a page allows.

        Raises:
            PageError: no slot is free, the memory limit is exceeded, or a file is damaged.
            Gone: a file no longer exists.
        """
        found = self._known(catalogue, query, everything)
        if found is None:
            with self._database.session() as queries:
                found = self._known(catalogue, query, everything)  # Others may have waited for the same.
                if found is None:
                    found = text_groups(queries, catalogue, query, everything=everything)
                    self._keep(catalogue, query, everything, found)
        return found

    def _known(self, catalogue: Catalogue, query: RowQuery, everything: bool) -> Groups | None:
        with self._lock:
            for key in dict.fromkeys([(query, True), (query, everything)]):
                there, found = self._kept.get(key, (None, None))
                if there is catalogue and found is not None:
                    self._kept.move_to_end(key)
                    return found
            return None

    def _keep(self, catalogue: Catalogue, query: RowQuery, everything: bool, found: Groups) -> None:
        with self._lock:
            self._kept[query, everything or found.whole] = catalogue, found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)


def text_groups(
    queries: Queries, catalogue: Catalogue, query: RowQuery, *, everything: bool, limit: int = MAX_TEXTS
) -> Groups:
    """Group selected entities by their text.

    Args:
        queries: queries of a page.
        catalogue: the finished shards.
        query: the entities to select; its order is a key of `ORDERS`.
        everything: whether to count all rows, as far as the time limit of a page allows.
        limit: maximum number of texts.
    """
    plain = not query.text and query.least is None and query.most is None
    # Labels of a search are counted together, so that the other labels show what they would give.
    counted = query if plain else query.without_value()
    where, parameters = condition(counted)
    rows, total = 0, int(catalogue.rows[query.table][_shards(catalogue, counted)].sum())
    selected = f"SELECT text, label, count(*) AS n, sum(score) AS s FROM {FILES} WHERE {where} GROUP BY ALL"
    queries.execute("CREATE TEMP TABLE found (text VARCHAR, label VARCHAR, n BIGINT, s DOUBLE)", [])
    for shards in _steps(catalogue, counted, total, everything, searched=not plain):
        paths = queries.paths(catalogue, query.table, shards)
        if not queries.tried(f"INSERT INTO found {selected}", [paths, *parameters]):
            break
        rows += int(catalogue.rows[query.table][shards].sum())
        if not everything and queries.seconds_taken > _SECONDS:
            break
    by_label = catalogue.totals[query.table] if plain else _by_label(queries)
    texts = _texts(queries, query, limit)
    return Groups(texts[:limit], len(texts) > limit, Counter(by_label), rows, rows == total)


def _steps(
    catalogue: Catalogue, query: RowQuery, total: int, everything: bool, *, searched: bool
) -> Iterator[np.ndarray]:
    if everything or searched or total <= _ALL_ROWS:
        yield from growing(catalogue, query, None)
        return
    shards = _shards(catalogue, query)
    # Every n-th shard: which shards are sampled depends neither on their order of completion nor on chance.
    few = max(1, min(_SAMPLE_FILES, len(shards) * _SAMPLE_ROWS // total))
    yield shards[np.linspace(0, len(shards) - 1, few).round().astype(np.int64)]


def _shards(catalogue: Catalogue, query: RowQuery) -> np.ndarray:
    having = catalogue.having[query.table]
    return (
        having.get(query.value, np.empty(0, np.int32)) if query.value else np.flatnonzero(catalogue.rows[query.table])
    )


def _by_label(queries: Queries) -> dict[str, int]:
    return dict(queries.execute("SELECT label, sum(n)::BIGINT FROM found GROUP BY label", []))


def _texts(queries: Queries, query: RowQuery, limit: int) -> list[TextGroup]:
    where, parameters = ("label = ?", [query.value]) if query.value else ("true", [])
    rows = queries.execute(
        f"WITH top AS (SELECT text, sum(n)::BIGINT AS n, sum(s) / sum(n) AS mean FROM found WHERE {where} "
        f"GROUP BY text ORDER BY {ORDERS[query.order]} LIMIT {limit + 1}), "
        f"pairs AS (SELECT text, label, sum(n)::BIGINT AS k FROM found SEMI JOIN top USING (text) WHERE {where} "
        "GROUP BY ALL), "
        "named AS (SELECT text, list(label ORDER BY k DESC, label) AS labels, list(k ORDER BY k DESC, label) AS counts "
        "FROM pairs GROUP BY text) "
        f"SELECT text, n, mean, labels[:{_LABELS}], counts[:{_LABELS}], len(labels) FROM top JOIN named USING (text) "
        f"ORDER BY {ORDERS[query.order]}",
        [*parameters, *parameters],
    )
    return [
        TextGroup(text, count, mean, list(zip(labels, counts, strict=True)), max(0, kinds - _LABELS))
        for text, count, mean, labels, counts, kinds in rows
    ]
