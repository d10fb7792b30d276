"""Tables of each kind of job and their paths: each table is a folder of the output, with one file per shard."""

from pipelines.storage import join
from schemas import (
    ANNOTATED_SAMPLES,
    ANNOTATIONS,
    DOCUMENTS,
    GOLD_PROBLEMS,
    PREPARED,
    REJECTS,
    SAMPLES,
    SENTENCE_OFFSETS,
    SENTENCE_TEXTS,
    Table,
)

#: Tables of a `spanmarker tag`, Parquet, in the order of reports.
TAG_TABLES = (ANNOTATIONS, DOCUMENTS, REJECTS)
#: Tables of a `spanmarker prepare`, Arrow IPC.
SAMPLE_TABLES = (SAMPLES, PREPARED)
#: Tables of a `spanmarker prepare --annotated`; the first is Arrow IPC.
TRAINING_TABLES = (ANNOTATED_SAMPLES, DOCUMENTS, REJECTS, GOLD_PROBLEMS)
#: Table of the sentences of a `spanmarker tag` by what it holds; both have the same name.
_SENTENCE_TABLES: dict[str, tuple[Table, ...]] = {"none": (), "offsets": (SENTENCE_OFFSETS,), "text": (SENTENCE_TEXTS,)}
TABLES = tuple(dict.fromkeys(TAG_TABLES + SAMPLE_TABLES + TRAINING_TABLES + (SENTENCE_TEXTS,)))

_IPC = (*SAMPLE_TABLES, ANNOTATED_SAMPLES)
_ENDINGS = {table.name: ".arrow" if table in _IPC else ".parquet" for table in TABLES}


def table_path(output: str, table: str, shard: str) -> str:
    """Return the path of a shard's file of a table.

    Args:
        output: the output folder.
        table: name of the table.
        shard: name of the shard.
    """
    return join(output, table, shard + _ENDINGS[table])


def table_ending(table: str) -> str:
    """Return the file name ending of a table.

    Args:
        table: name of the table.
    """
    return _ENDINGS[table]


def tag_tables(write_sentences: str) -> tuple[Table, ...]:
    """Return the tables of a `spanmarker tag`.

    Args:
        write_sentences: what the job writes of sentences, see `pipelines.task.WriteSentences`.
    """
    return TAG_TABLES + _SENTENCE_TABLES[write_sentences]


def tables_of(identity: dict[str, str]) -> tuple[Table, ...]:
    """Return the tables that a job writes.

    Args:
        identity: identity of the job.
    """
    first = ((tables[0].name, tables) for tables in (SAMPLE_TABLES, TRAINING_TABLES))
    tagging = tag_tables(identity.get("write_sentences", "none"))
    return next((tables for name, tables in first if f"schema.{name}" in identity), tagging)
