"""Texts with their counts, against counts made with Python's own Counter."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from pipelines.browse import groups as module
from pipelines.browse import query as rules
from pipelines.browse.catalogue import read_catalogue
from pipelines.browse.database import Database
from pipelines.browse.groups import ORDERS, GroupCache, text_groups
from pipelines.browse.queries import Queries
from pipelines.browse.query import RowQuery
from tests.support.browsed_output import add_shard, annotation, begin

TEXTS = ["Ann", "ann", "É", "100%", "o'neil", "", "York", "a\\b"]
LABELS = ["person", "place", "o'label"]
SCORES = [0.25, 0.5, 1.0]  # exact as float32, so that means are exact, too


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    output = tmp_path_factory.mktemp("groups")
    random = np.random.default_rng(3)
    begin(output)
    rows = []
    for number, size in enumerate([40, 0, 90, 5, 60]):
        made = [
            annotation(
                "d", 0, 1, str(random.choice(TEXTS)), str(random.choice(LABELS)), score=float(random.choice(SCORES))
            )
            for _ in range(size)
        ]
        rows += made
        add_shard(output, "rows", made, number=number)
    database = Database(str(output))
    yield database, read_catalogue(str(output)), rows
    database.close()


def grouped(filled, query, **options):
    database, catalogue, _ = filled
    with database.session() as queries:
        return text_groups(queries, catalogue, query, **({"everything": True} | options))


def oracle(rows, query):
    """Return (text, count, mean score, labels) of the texts, the most frequent first."""
    kept = [
        row
        for row in rows
        if (not query.value or row["label"] == query.value)
        and query.text.lower() in row["text"].lower()
        and (query.least is None or row["score"] >= query.least)
    ]
    labels, scores = defaultdict(Counter), defaultdict(list)
    for row in kept:
        labels[row["text"]][row["label"]] += 1
        scores[row["text"]].append(row["score"])
    found = [
        (
            text,
            len(scores[text]),
            float(np.mean(scores[text])),
            sorted(labels[text].items(), key=lambda i: (-i[1], i[0])),
        )
        for text in scores
    ]
    return sorted(found, key=lambda each: (-each[1], each[0].encode()))


QUERIES = [
    RowQuery("annotations", order="count"),
    RowQuery("annotations", "n", order="count"),
    RowQuery("annotations", value="place", order="count"),
    RowQuery("annotations", "n", value="o'label", least=0.5, order="count"),
    RowQuery("annotations", "no such text", order="count"),
    RowQuery("annotations", value="no such label", order="count"),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("files", [1, 16])
def test_texts_are_counted_as_python_counts_them(filled, monkeypatch, query, files):
    monkeypatch.setattr(rules, "_FIRST_FILES", files)
    monkeypatch.setattr(rules, "_MOST_FILES", files)
    found = grouped(filled, query)
    seen = [(each.text, each.count, each.mean_score, each.labels) for each in found.texts]
    assert seen == oracle(filled[2], query)
    assert found.whole
    assert not found.cut


def test_other_labels_of_a_search_are_counted_too(filled):
    query = RowQuery("annotations", "n", value="place", order="count")
    expected = Counter(row["label"] for row in filled[2] if "n" in row["text"].lower())
    assert grouped(filled, query).by_label == expected
    assert grouped(filled, RowQuery("annotations", value="place", order="count")).by_label == Counter(
        row["label"] for row in filled[2]
    )


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_has_the_same_texts(filled, order):
    found = grouped(filled, RowQuery("annotations", order=order)).texts
    assert sorted(each.text for each in found) == sorted(TEXTS)
    keys = {
        "count": lambda each: -each.count,
        "score-up": lambda each: each.mean_score,
        "score-down": lambda each: -each.mean_score,
    }
    if order in keys:
        assert list(map(keys[order], found)) == sorted(map(keys[order], found))


def test_no_more_texts_are_kept_than_asked_for(filled):
    found = grouped(filled, RowQuery("annotations", order="count"), limit=3)
    assert found.cut
    assert [each.text for each in found.texts] == [each[0] for each in oracle(filled[2], QUERIES[0])[:3]]


def test_a_large_output_is_sampled_evenly_until_all_is_asked_for(filled, monkeypatch):
    monkeypatch.setattr(module, "_ALL_ROWS", 100)
    monkeypatch.setattr(module, "_SAMPLE_ROWS", 120)
    found = grouped(filled, RowQuery("annotations", order="count"), everything=False)
    assert not found.whole
    assert found.rows == 40 + 60  # the first and the last shard
    assert sum(each.count for each in found.texts) == found.rows
    assert found.by_label == Counter(row["label"] for row in filled[2])  # the manifest knows these
    assert grouped(filled, RowQuery("annotations", order="count")).rows == 195


def test_a_search_that_takes_long_says_how_far_it_came(filled, monkeypatch):
    monkeypatch.setattr(rules, "_FIRST_FILES", 1)
    monkeypatch.setattr(rules, "_MOST_FILES", 1)
    monkeypatch.setattr(module, "_SECONDS", -1.0)
    found = grouped(filled, RowQuery("annotations", "n", order="count"), everything=False)
    assert not found.whole
    assert found.rows == 40
    assert grouped(filled, RowQuery("annotations", "n", order="count")).whole


def test_what_was_grouped_before_memory_ran_out_is_shown(filled, monkeypatch):
    monkeypatch.setattr(rules, "_FIRST_FILES", 1)
    monkeypatch.setattr(rules, "_MOST_FILES", 1)
    real, sent = Queries.execute, []

    def second_fails(self, statement, parameters):
        if statement.startswith("INSERT"):
            sent.append(statement)
            if len(sent) == 2:
                raise module_duckdb.OutOfMemoryException("no memory")
        return real(self, statement, parameters)

    import duckdb as module_duckdb

    monkeypatch.setattr(Queries, "execute", second_fails)
    found = grouped(filled, RowQuery("annotations", order="count"))
    assert (found.rows, found.whole) == (40, False)
    assert sum(each.count for each in found.texts) == 40


def test_results_are_remembered_for_a_catalogue(filled, monkeypatch):
    database, catalogue, _ = filled
    made, real = [], module.text_groups

    def counted(*arguments, **options):
        made.append(options)
        return real(*arguments, **options)

    monkeypatch.setattr(module, "text_groups", counted)
    monkeypatch.setattr(module, "_KEPT", 3)
    cache, query = GroupCache(database), RowQuery("annotations", order="count")
    first = cache.groups(catalogue, query, everything=False)
    assert cache.groups(catalogue, query, everything=False) is first
    assert cache.groups(catalogue, query, everything=True) is first  # it was whole
    assert len(made) == 1
    cache.groups(read_catalogue(database._folder), query, everything=False)
    assert len(made) == 2
    for number in range(2 * module._KEPT):
        cache.groups(catalogue, RowQuery("annotations", str(number), order="count"), everything=False)
    assert len(cache._kept) == module._KEPT
