"""Which tables a job writes and where: in an output folder each has a folder, with a file a shard in it."""

from pipelines.storage import join
from schemas import ANNOTATED_SAMPLES, ANNOTATIONS, DOCUMENTS, GOLD_PROBLEMS, PREPARED, REJECTS, SAMPLES, Table

#: Tables of a `spanmarker tag`, Parquet, in the order in which they are told of.
TAG_TABLES = (ANNOTATIONS, DOCUMENTS, REJECTS)
#: Tables of a `spanmarker prepare`, Arrow IPC.
SAMPLE_TABLES = (SAMPLES, PREPARED)
#: Tables of a `spanmarker prepare --annotated`; the first is Arrow IPC.
TRAINING_TABLES = (ANNOTATED_SAMPLES, DOCUMENTS, REJECTS, GOLD_PROBLEMS)
TABLES = tuple(dict.fromkeys(TAG_TABLES + SAMPLE_TABLES + TRAINING_TABLES))

_IPC = (*SAMPLE_TABLES, ANNOTATED_SAMPLES)
_ENDINGS = {table.name: ".arrow" if table in _IPC else ".parquet" for table in TABLES}


def table_path(output: str, table: str, shard: str) -> str:
    """Return where a shard's part of a table lies."""
    return join(output, table, shard + _ENDINGS[table])


def table_ending(table: str) -> str:
    """Return how the names of a table's files end."""
    return _ENDINGS[table]


def tables_of(identity: dict[str, str]) -> tuple[Table, ...]:
    """Return the tables that the job with this identity writes."""
    first = ((tables[0].name, tables) for tables in (SAMPLE_TABLES, TRAINING_TABLES))
    return next((tables for name, tables in first if f"schema.{name}" in identity), TAG_TABLES)
