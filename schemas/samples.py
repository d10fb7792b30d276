"""Samples: windows of subword tokens, written by the `pack` stage and read by the `tag` stage.

A sample holds one or more sentences to tag, or a part of a long one, with their context. Candidate spans are not
stored: they are all sequences of up to `entity_max_length` words that begin at a word with `word_tag` and stay within
its sentence. Every word of a document has `word_tag` in exactly one of its samples. The rows of a document are
contiguous. In files, each record batch is a chunk of windows of bounded size; see `schemas.prepared` for the inputs
stored beside them.
"""

import pyarrow as pa

from schemas.tables import Table

_INT32S = pa.large_list(pa.field("item", pa.int32(), nullable=False))
_INT64S = pa.large_list(pa.field("item", pa.int64(), nullable=False))
_BOOLS = pa.large_list(pa.field("item", pa.bool_(), nullable=False))

SAMPLES = Table.define(
    "samples",
    1,
    ("document_id", pa.large_string(), "id of the document, as in the input"),
    ("window_id", pa.int32(), "number of the window in its document, from 0"),
    ("text", pa.large_string(), "text from its first word to its last; each character between sentences is a space"),
    ("text_char_start", pa.int64(), "start of `text` in the document (code points)"),
    ("token_ids", _INT32S, "subword ids of the window, special tokens included"),
    ("word_token_start", _INT32S, "first token of each word, as an index into token_ids"),
    ("word_token_end", _INT32S, "exclusive end of the word, in tokens; equal to the start if the word has no token"),
    ("word_char_start", _INT64S, "first character of each word in the document"),
    ("word_char_end", _INT64S, "exclusive end of the word, in characters"),
    ("word_sentence", _INT32S, "sentence_id of each word"),
    ("word_index", _INT32S, "number of each word in its sentence, from 0"),
    ("word_tag", _BOOLS, "whether candidate spans that begin at this word belong to this window"),
    ("word_long", _BOOLS, "whether the word exceeds a window and is replaced by one unknown token"),
)
