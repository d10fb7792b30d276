"""Annotated samples, the output of `spanmarker prepare --annotated`: windows with gold entities and alignment problems.

Annotated samples have the columns of SAMPLES plus the gold entities of each window. For sentences that were given as
words, the text is the words joined by single spaces, and character offsets count in that text. Each record batch is a
chunk of windows that are read together; all windows of a sentence are in the same chunk.
"""

import pyarrow as pa

from schemas.samples import SAMPLES
from schemas.tables import Table

_INT32S = pa.large_list(pa.field("item", pa.int32(), nullable=False))
_STRINGS = pa.large_list(pa.field("item", pa.large_string(), nullable=False))

ANNOTATED_SAMPLES = Table.define(
    "annotated_samples",
    1,
    *((field.name, field.type, field.metadata[b"description"].decode()) for field in SAMPLES.schema),
    ("n_tokens", pa.int32(), "tokens of the window, special tokens included"),
    ("n_candidates", pa.int64(), "candidate spans that belong to the window"),
    ("gold_word_start", _INT32S, "first word of each entity that is a candidate span, from 0 within the window"),
    ("gold_word_end", _INT32S, "exclusive end of the entity, in words; entities may nest, cross or share a span"),
    ("gold_label", _STRINGS, "label of the entity"),
)

#: Problems of annotations. Those in WRONG do not match any words. Those in UNREACHABLE are entities that a model with
#: these limits cannot predict. A `duplicate` repeats an earlier annotation.
WRONG = ("out_of_range", "misaligned")
UNREACHABLE = ("crosses_sentences", "too_long", "no_tokens", "too_many_tokens")
CODES = (*WRONG, *UNREACHABLE, "duplicate")

GOLD_PROBLEMS = Table.define(
    "gold_problems",
    1,
    ("document_id", pa.large_string(), "id of the document, as in the input"),
    ("sentence_id", pa.int32(), "null if the range is in no sentence; otherwise the sentence in which it begins"),
    ("source", pa.large_string(), "file or folder from which the annotation was read"),
    (
        "source_row",
        pa.int64(),
        "position of its record: row (Parquet, `datasets`), byte offset (JSONL) or line from 1 (CoNLL)",
    ),
    ("code", pa.string(), f"{', '.join(CODES)}: see `message`"),
    ("start", pa.int64(), "first character or word of the annotation, as in the input"),
    ("end", pa.int64(), "exclusive end of the annotation, as in the input"),
    ("unit", pa.string(), "unit of start and end: characters (of the document) or words (of the sentence)"),
    ("label", pa.large_string(), "label of the annotation"),
    ("text", pa.large_string(), "text or words in its range, if any"),
    ("message", pa.large_string(), "explanation, in plain text"),
)
