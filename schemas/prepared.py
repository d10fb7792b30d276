"""Inputs of a prepared shard: its documents, and the records that were rejected before they had samples.

Together with the samples, they contain everything that tagging needs to write the same rows as it would from the
documents themselves. Each record batch of the file is a document batch: documents that were read together, in the
order of the source, followed by the records that failed. The samples of a document batch are one or more record
batches, one per window chunk (possibly empty). Their custom metadata give the number of the document batch, from 0
(`spanmarker.group`), and whether the chunk is its last one (`spanmarker.last`, 0 or 1).

Version 1, which lacks the languages, is still read: all its texts have the language of the job.
"""

import pyarrow as pa

from schemas.tables import Table

PREPARED = Table.define(
    "inputs",
    2,
    ("document_id", pa.large_string(), "null if the record had no readable id; otherwise the id, as in the input"),
    ("source", pa.large_string(), "file from which the record was read"),
    (
        "source_row",
        pa.int64(),
        "null for a whole file; otherwise row of a table, byte offset of a line, index of an element, or 0 for a text",
    ),
    ("text", pa.large_string(), "null for a record without samples; otherwise the full text of the document"),
    ("n_sentences", pa.int32(), "sentences found"),
    ("n_characters", pa.int64(), "length of the text in code points; 0 if it has none"),
    (
        "n_documents",
        pa.int32(),
        "number of documents that the row represents; for unreadable parts of files, several or none",
    ),
    (
        "failed_run",
        pa.int32(),
        "null unless packing failed; otherwise the first chunk of its batch, from 0, that lacks its windows",
    ),
    ("stage", pa.string(), "null unless it failed; otherwise read or pack"),
    ("code", pa.string(), "null unless it failed; otherwise a stable code, such as null_text or broken_json"),
    ("message", pa.large_string(), "null unless it failed; otherwise an explanation, in plain text"),
    ("raw", pa.large_binary(), "null unless it failed and was read; otherwise the first 4096 bytes of the record"),
    ("language", pa.string(), "null for a record that was not split; otherwise the language, as in documents"),
    ("language_from", pa.string(), "null for a record that was not split; otherwise its origin, as in documents"),
)
