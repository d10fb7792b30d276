"""Annotations: the entities that were found, one per row. This is the main output of tagging."""

import pyarrow as pa

from schemas.tables import Table

ANNOTATIONS = Table.define(
    "annotations",
    2,
    ("document_id", pa.large_string(), "id of the document, as in the input"),
    ("sentence_id", pa.int32(), "number of the sentence in its document, from 0"),
    ("entity_id", pa.int32(), "number of the entity in its document, from 0, in reading order"),
    ("label", pa.large_string(), "label of the entity"),
    ("score", pa.float32(), "the model's probability of this label for this span, 0 to 1"),
    (
        "text",
        pa.large_string(),
        "surface form: document_text[char_start:char_end], without leading or trailing white space",
    ),
    ("char_start", pa.int64(), "first character in the document (Unicode code points, not bytes, not UTF-16)"),
    ("char_end", pa.int64(), "exclusive end, in characters"),
    ("word_start", pa.int32(), "first word, from 0 within the sentence"),
    ("word_end", pa.int32(), "exclusive end, in words"),
    ("source", pa.large_string(), "file of the document; with source_row, the key of its row in documents"),
    ("source_row", pa.int64(), "row of a table, byte offset of a line, index of an element, or 0 for a text file"),
)

#: Columns that version 1 did not have.
SOURCE_COLUMNS = ("source", "source_row")

#: Entities in memory, before the source of their document is added.
ENTITIES = pa.schema([column for column in ANNOTATIONS.schema if column.name not in SOURCE_COLUMNS])
