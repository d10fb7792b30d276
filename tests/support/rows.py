"""Rows of an output, wherever it is, as values to be held against another run's."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.output.layout import SAMPLE_TABLES, TAG_TABLES, table_ending, table_path
from pipelines.storage import join, names_in, open_input
from schemas import Table


def rows_of(output: str, tables: Iterable[Table] = TAG_TABLES) -> dict[str, list[tuple]]:
    """All rows of an output, wherever it is, sorted by what they are: equal lists are equal rows, byte for byte."""
    found = {}
    for table in tables:
        rows, ending = [], table_ending(table.name)
        for name in names_in(join(output, table.name), ending):
            with open_input(table_path(output, table.name, name)) as file:
                read = pq.read_table(file) if ending == ".parquet" else pa.ipc.open_file(file).read_all()
            rows += [tuple(row.values()) for row in read.to_pylist()]
        found[table.name] = sorted(rows, key=repr)
    return found


def prepared(output: object) -> dict[str, list[tuple]]:
    """All rows of an output of `spanmarker prepare`."""
    return rows_of(str(output), SAMPLE_TABLES)


def difference(found: dict[str, list[tuple]], expected: dict[str, list[tuple]]) -> tuple[int, int]:
    """Return (rows lost, rows doubled or foreign)."""
    lost = doubled = 0
    for table in expected:
        here, there = Counter(map(repr, found[table])), Counter(map(repr, expected[table]))
        lost, doubled = lost + (there - here).total(), doubled + (here - there).total()
    return lost, doubled
