"""Split: documents -> sentences. A blank document (see `spanmarker_core.text.sentences.is_blank`) gives no rows."""

import pyarrow as pa
import pyarrow.compute as pc

from schemas import SENTENCES, Table
from spanmarker_core.text.sentences import SentenceBreaks, split_sentences


def split(documents: pa.RecordBatch, language: str | None = None, breaks: SentenceBreaks = "auto") -> pa.RecordBatch:
    """Split documents into sentences.

    Args:
        documents: a batch with `document_id` and `text`, and with `language` if the argument is None.
        language: language of all texts; None for those of the column.
        breaks: what ends a sentence.

    Returns:
        SENTENCES rows, documents in order.
    """
    ids, numbers, texts, starts, ends = [], [], [], [], []
    languages = documents["language"].to_pylist() if language is None else [language] * len(documents)
    texts_of = zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), languages, strict=True)
    for document_id, text, code in texts_of:
        for number, (char_start, char_end) in enumerate(split_sentences(text, code, breaks)):
            ids.append(document_id)
            numbers.append(number)
            texts.append(text[char_start:char_end])
            starts.append(char_start)
            ends.append(char_end)
    columns = (ids, numbers, texts, starts, ends)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SENTENCES.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SENTENCES.schema)


def stored_sentences(documents: pa.RecordBatch, sentences: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """Return sentences as rows of SENTENCE_OFFSETS or SENTENCE_TEXTS.

    Args:
        documents: INPUTS rows; ids are unique.
        sentences: SENTENCES rows of these documents.
        table: one of the two tables.
    """
    places = pc.index_in(sentences["document_id"], value_set=documents["document_id"])
    origin = {name: documents[name].take(places) for name in ("source", "source_row")}
    columns = [origin[name] if name in origin else sentences[name] for name in table.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
