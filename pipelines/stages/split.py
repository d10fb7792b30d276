"""Split: documents -> sentences. A blank document (see `spanmarker_core.text.sentences.is_blank`) gives no rows."""

import pyarrow as pa

from schemas import SENTENCES
from spanmarker_core.text.sentences import split_sentences


def split(documents: pa.RecordBatch, language: str) -> pa.RecordBatch:
    """Split documents into sentences.

    Args:
        documents: a batch with `document_id` and `text`.
        language: language of the texts.

    Returns:
        SENTENCES rows, documents in order.
    """
    ids, numbers, texts, starts, ends = [], [], [], [], []
    for document_id, text in zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True):
        for number, (char_start, char_end) in enumerate(split_sentences(text, language)):
            ids.append(document_id)
            numbers.append(number)
            texts.append(text[char_start:char_end])
            starts.append(char_start)
            ends.append(char_end)
    columns = (ids, numbers, texts, starts, ends)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SENTENCES.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SENTENCES.schema)
