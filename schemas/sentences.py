"""Sentences, written by the `split` stage and read by the `pack` stage. Rows of a document are contiguous, in order."""

import pyarrow as pa

from schemas.tables import Table

SENTENCES = Table.define(
    "sentences",
    1,
    ("document_id", pa.large_string(), "id of the document, as in the input"),
    ("sentence_id", pa.int32(), "number of the sentence in its document, from 0"),
    ("text", pa.large_string(), "text of the sentence: document_text[char_start:char_end]"),
    ("char_start", pa.int64(), "first character of the sentence in the document (code points)"),
    ("char_end", pa.int64(), "exclusive end, in characters"),
)
