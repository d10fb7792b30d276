"""What is counted over rows: by hand, against DuckDB, with too many texts to hold, and of a part of a large output."""

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet, Sizes
from pipelines.report import entities
from pipelines.report.entities import EntityCounts, count_entities, describe_entities, shards_to_look_at
from schemas import ANNOTATIONS

NAMES = [f"s-{number:05d}-{number:016x}" for number in range(7)]


def batch(rows):
    """Annotations of (label, score, text)."""
    columns = dict.fromkeys(ANNOTATIONS.schema.names, 0) | {"document_id": "d", "source": "s"}
    values = [{**columns, "label": label, "score": score, "text": text} for label, score, text in rows]
    return pa.RecordBatch.from_pylist(values, schema=ANNOTATIONS.schema)


def counted(*parts):
    found = EntityCounts()
    for part in parts:
        found.add(batch(part).select(["label", "score", "text"]))
    return found


def drawn(count, seed=1, texts=50):
    rng = np.random.default_rng(seed)
    labels = np.array(["person", "place", "work"])[rng.integers(0, 3, count)]
    numbers = rng.zipf(1.3, count) % texts
    return list(zip(labels.tolist(), rng.random(count).tolist(), (f"text {n} é" for n in numbers), strict=True))


@pytest.fixture
def output(tmp_path):
    """Seven shards of annotations, one of them empty, in small row groups."""
    (tmp_path / "annotations").mkdir()
    for number, name in enumerate(NAMES):
        rows = batch(drawn(400 * number, number))
        table = pa.Table.from_batches([rows])
        pq.write_table(table, tmp_path / "annotations" / f"{name}.parquet", row_group_size=300)
    return tmp_path


def test_by_hand():
    found = counted(
        [("person", 0.99, "Ada"), ("person", 0.05, "Ada"), ("place", 1.0, "Rome")],
        [("person", 0.049, "Bob"), ("place", 0.5, "Ada"), ("person", 0.5, "Bob"), ("person", 0.2, "Ada ")],
    )
    assert found.rows == {"person": 5, "place": 2}
    assert found.top() == {"person": [("Ada", 2), ("Bob", 2), ("Ada ", 1)], "place": [("Ada", 1), ("Rome", 1)]}
    values = describe_entities(found, 2, 3, 9)
    bins = [0] * 20
    for score in (19, 1, 19, 0, 10, 10, 4):
        bins[score] += 1
    assert values["score_bins"] == bins
    person = values["labels"][0]
    assert (person["label"], person["rows"], person["mean_score"]) == ("person", 5, round(1.789 / 5, 4))
    assert person["top"][0] == {"text": "Ada", "count": 2}
    assert person["counts_too_small_by_up_to"] == 0
    assert [values[name] for name in ("rows_looked_at", "rows", "shards_looked_at", "shards")] == [7, 9, 2, 3]


def test_nothing_is_nothing():
    values = describe_entities(EntityCounts(), 0, 0, 0)
    assert values["labels"] == []
    assert sum(values["score_bins"]) == values["rows_looked_at"] == 0


def test_the_same_as_duckdb(output):
    values = describe_entities(count_entities(str(output), NAMES), 7, 7, 8400)
    rows = f"read_parquet('{output}/annotations/*.parquet')"
    for label in values["labels"]:
        where = f"FROM {rows} WHERE label = '{label['label']}'"
        top = duckdb.sql(f"SELECT text, count(*) AS n {where} GROUP BY text ORDER BY n DESC, text LIMIT 10").fetchall()
        assert [(each["text"], each["count"]) for each in label["top"]] == top
        mean, count = duckdb.sql(f"SELECT avg(score::DOUBLE), count(*) {where}").fetchall()[0]
        assert (label["mean_score"], label["rows"]) == (round(mean, 4), count)
        bins = duckdb.sql(f"SELECT least(floor(score::DOUBLE * 20), 19)::INT AS bin, count(*) {where} GROUP BY bin")
        assert {place: n for place, n in enumerate(label["score_bins"]) if n} == dict(bins.fetchall())
    assert sum(label["rows"] for label in values["labels"]) == 8400


@given(st.lists(st.lists(st.tuples(st.sampled_from("PQ"), st.integers(0, 60)), max_size=60), max_size=12))
def test_counts_are_too_small_by_no_more_than_is_told(parts):
    """Past the limit of texts, however parts were cut and merged; what is told is within Misra and Gries' bound."""
    limit, entities.MAX_TEXTS = entities.MAX_TEXTS, 16
    try:
        found = EntityCounts()
        for part in parts:
            found.merge(counted([(label, 0.5, str(number)) for label, number in part]))
        truth = Counter((label, str(number)) for part in parts for label, number in part)
        top = found.top(100)
    finally:
        entities.MAX_TEXTS = limit
    for label, rows in found.rows.items():
        assert rows == sum(count for (other, _), count in truth.items() if other == label)
        taken = found.taken.get(label, 0)
        assert taken <= rows / 5  # a label keeps four texts at least
        for text, count in top[label]:
            assert count <= truth[label, text] <= count + taken
        left_out = [n for (other, text), n in truth.items() if other == label and text not in dict(top[label])]
        assert max(left_out, default=0) <= taken


def test_frequent_texts_stay_among_a_multitude_of_others(monkeypatch):
    monkeypatch.setattr(entities, "MAX_TEXTS", 200)
    found = EntityCounts()
    for part in range(20):
        rows = [("person", 0.5, f"once {part} {number}") for number in range(150)]
        found.merge(counted([*rows, *[("person", 0.5, "Ada")] * 60, *[("place", 0.5, "Rome")] * 3]))
        assert sum(len(texts) for texts in found._texts) <= 600
    values = describe_entities(found, 20, 20, 1)
    person, place = values["labels"]
    assert person["top"][0]["text"] == "Ada"
    assert person["top"][0]["count"] <= 1200 <= person["top"][0]["count"] + person["counts_too_small_by_up_to"]
    assert 0 < person["counts_too_small_by_up_to"] <= 60
    assert place["top"] == [{"text": "Rome", "count": 60}]
    assert place["counts_too_small_by_up_to"] == 0


def test_order_and_cut_of_the_shards_change_nothing(output):
    def values(names):
        return describe_entities(count_entities(str(output), names), 7, 7, 1)

    assert values(NAMES) == values(NAMES[::-1])
    whole = pa.concat_tables(pq.read_table(path) for path in sorted((output / "annotations").glob("*")))
    pq.write_table(whole, output / "annotations" / "whole-00000-0000000000000000.parquet")
    assert values(["whole-00000-0000000000000000"]) == values(NAMES)


def test_a_text_of_a_megabyte_counts_by_its_beginning():
    found = counted([("person", 0.5, "é" * 1_000_000), ("person", 0.5, "é" * 100 + "x")])
    assert found.top() == {"person": [("é" * 100, 2)]}


def test_of_labels_without_number_those_with_the_most_rows_are_told(monkeypatch):
    monkeypatch.setattr(entities, "SHOWN_LABELS", 3)
    rows = [(f"label {number}", 0.5, "x") for number in range(10) for _ in range(number + 1)]
    values = describe_entities(counted(rows), 1, 1, 55)
    assert [label["label"] for label in values["labels"]] == ["label 9", "label 8", "label 7"]
    assert values["labels_not_shown"] == 7
    assert sum(values["score_bins"]) == 55


def test_of_a_large_output_a_part_is_looked_at():
    rows = {f"s-{number:05d}-{number:016x}": 10 for number in range(1000)}
    sizes = Sizes.of(rows.items())
    assert len(shards_to_look_at(sizes, 10_000)) == 1000
    some = shards_to_look_at(sizes, 255)
    assert len(some) == 25
    assert len(some & shards_to_look_at(sizes, 500)) == 25  # the same ones, and more
    assert len(shards_to_look_at(sizes, 10_000, max_files=30)) == 30
    chosen = [int(name.split("-")[1]) for name in some.among(rows)]
    assert min(chosen) < 200
    assert max(chosen) > 800
    other = Sizes.of(reversed(rows.items()))
    assert shards_to_look_at(other, 255).digest == some.digest
    assert len(shards_to_look_at(Sizes.of([("s", 10**9)]), 255)) == 1
    assert len(shards_to_look_at(Sizes.of([]), 255)) == 0


def test_damage_is_told(output):
    (output / "annotations" / f"{NAMES[3]}.parquet").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match=r"output\.damaged.*00003"):
        count_entities(str(output), DigestSet.of(NAMES).among(NAMES))
