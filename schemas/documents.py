"""Documents: one row per input document, whatever its status."""

import pyarrow as pa

from schemas.tables import Table

DOCUMENTS = Table.define(
    "documents",
    2,
    ("document_id", pa.large_string(), "null where the record had none; else the id, as it came in"),
    ("source", pa.large_string(), "file that the document was read from"),
    ("source_row", pa.int64(), "null where it can't be told; else row (Parquet), byte offset (JSONL) or 0 (text file)"),
    ("status", pa.string(), "tagged, empty (nothing but white space: no entities, no fault) or rejected"),
    ("n_characters", pa.int64(), "length of the text in code points; 0 where there is no text"),
    ("n_sentences", pa.int32(), "sentences found"),
    ("n_words", pa.int32(), "words of all sentences; each was tagged exactly once"),
    ("n_long_words", pa.int32(), "words too long for a window, shown to the model as one unknown token"),
    ("n_windows", pa.int32(), "windows the document was packed into"),
    ("n_entities", pa.int32(), "rows in annotations"),
    ("language", pa.string(), "null where the text was not split; else its language, for the splitter (ISO 639)"),
    (
        "language_from",
        pa.string(),
        "null where the text was not split; else column, option (--language), detected, or default (English, because "
        "none was detected)",
    ),
)
