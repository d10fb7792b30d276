"""Rows of an output, wherever it is, as values to be held against another run's."""

from collections import Counter

import pyarrow.parquet as pq

from pipelines.storage import join, names_in, open_input

TABLES = ("annotations", "documents", "rejects")


def rows_of(output: str) -> dict[str, list[tuple]]:
    """All rows of an output, wherever it is, sorted by what they are: equal lists are equal rows, byte for byte."""
    found = {}
    for table in TABLES:
        rows = []
        for name in names_in(join(output, table), ".parquet"):
            with open_input(join(output, table, f"{name}.parquet")) as file:
                rows += [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
        found[table] = sorted(rows, key=repr)
    return found


def difference(found: dict[str, list[tuple]], expected: dict[str, list[tuple]]) -> tuple[int, int]:
    """Return (rows lost, rows doubled or foreign)."""
    lost = doubled = 0
    for table in TABLES:
        here, there = Counter(map(repr, found[table])), Counter(map(repr, expected[table]))
        lost, doubled = lost + (there - here).total(), doubled + (here - there).total()
    return lost, doubled
