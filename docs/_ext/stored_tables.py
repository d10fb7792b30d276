"""The page of all stored tables, from `schemas`, where each column states its meaning."""

from collections.abc import Iterator

import pyarrow as pa

import schemas

#: Where each table is, in the order of the page.
PLACES = {
    "ANNOTATIONS": "One row per entity, in `annotations/` of an output of `spanmarker tag`, in document order.",
    "DOCUMENTS": "One row per input document, in `documents/`.",
    "REJECTS": "One row per record that could not be tagged, in `rejects/`.",
    "SENTENCE_OFFSETS": "One row per sentence, in `sentences/`, with `--write-sentences`.",
    "SENTENCE_TEXTS": "The same with `--write-sentences text`.",
    "SAMPLES": "One row per window, in `samples/` of an output of `spanmarker prepare`, as Arrow IPC.",
    "PREPARED": "One row per document, in `prepared/` beside `samples/`.",
    "ANNOTATED_SAMPLES": "One row per window with its entities, in an output of `spanmarker prepare --annotated`.",
    "GOLD_PROBLEMS": "One row per annotation that cannot be learned, in `gold_problems/` of that output.",
    "EVALUATED": "One row per span in `predictions.parquet` of `spanmarker evaluate --report`.",
    "SENTENCES": "Annotated sentences, the form in which training and evaluation read all formats.",
    "ENTITIES": "The entities of one sentence, a part of other tables.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    tables = {name: value for name in schemas.__all__ if isinstance(value := getattr(schemas, name), schemas.Table)}
    lines = [
        "# Tables",
        "",
        "Every stored table has a name and a version, which are in the footer of each file (`spanmarker.table`,",
        "`spanmarker.schema_version`), and each column describes itself there. Ranges are half-open. Character offsets",
        "count Unicode code points of the document's text exactly as it was read; word offsets count the words of one",
        "sentence. A changed column is a new version.",
        "",
    ]
    for name in sorted(tables, key=lambda name: [*PLACES, name].index(name)):
        table = tables[name]
        heading = table.name + (" with texts" if name == "SENTENCE_TEXTS" else "")
        lines += [f"## {heading}", "", f"{PLACES.get(name, '')} Version {table.version}.".strip(), ""]
        lines += ["| column | type | |", "| --- | --- | --- |"]
        lines += [f"| `{column.name}` | {_type(column.type)} | {_meaning(column)} |" for column in table.schema]
        lines.append("")
    yield "tables", "\n".join(lines)


def _type(kind: pa.DataType) -> str:
    return f"`{kind}`".replace("|", "\\|")


def _meaning(column: pa.Field) -> str:
    return (column.metadata or {}).get(b"description", b"").decode().replace("|", "\\|").replace("<", "&lt;")
