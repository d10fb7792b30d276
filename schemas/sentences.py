"""Sentences. Rows of a document are contiguous, in order.

SENTENCES are written by the `split` stage and read by the `pack` stage. SENTENCE_OFFSETS and SENTENCE_TEXTS are stored,
if `spanmarker tag --write-sentences` asks for them.
"""

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

_STORED = (
    ("document_id", pa.large_string(), "id of the document, as in the input"),
    ("source", pa.large_string(), "file from which the document was read"),
    ("source_row", pa.int64(), "row of a table, byte offset of a line, index of an element, or 0 for a text file"),
    ("sentence_id", pa.int32(), "number of the sentence in its document, from 0"),
    ("char_start", pa.int64(), "first character of the sentence in the document (code points)"),
    ("char_end", pa.int64(), "exclusive end, in characters"),
)
SENTENCE_OFFSETS = Table.define("sentences", 1, *_STORED)
SENTENCE_TEXTS = Table.define(
    "sentences", 1, *_STORED, ("text", pa.large_string(), "text of the sentence: document_text[char_start:char_end]")
)
