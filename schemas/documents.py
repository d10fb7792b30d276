"""Documents: one row per input document, whatever its status."""

import pyarrow as pa

from schemas.tables import Table

DOCUMENTS = Table.define(
    "documents",
    2,
    ("document_id", pa.large_string(), "null if the record had none; otherwise the id, as in the input"),
    ("source", pa.large_string(), "file from which the document was read"),
    (
        "source_row",
        pa.int64(),
        "null if unknown; otherwise row of a table, byte offset of a line, index of an element, or 0 for a text file",
    ),
    ("status", pa.string(), "tagged, empty (only white space, so without entities) or rejected"),
    ("n_characters", pa.int64(), "length of the text in code points; 0 if it has no text"),
    ("n_sentences", pa.int32(), "sentences found"),
    ("n_words", pa.int32(), "words of all sentences; each was tagged exactly once"),
    ("n_long_words", pa.int32(), "words that exceed a window and are replaced by one unknown token"),
    ("n_windows", pa.int32(), "windows of the document"),
    ("n_entities", pa.int32(), "rows in annotations"),
    ("language", pa.string(), "null if the text was not split; otherwise its language, an ISO 639 code"),
    (
        "language_from",
        pa.string(),
        "null if the text was not split; otherwise column, option (--language), detected, or default (English, because "
        "none was detected)",
    ),
)
