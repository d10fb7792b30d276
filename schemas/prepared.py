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
    ("document_id", pa.large_string(), "null where the record had none that could be read; else the id, as it came in"),
    ("source", pa.large_string(), "file that the record was read from"),
    ("source_row", pa.int64(), "null for a whole file; else row (Parquet), byte offset (JSONL) or 0 (text file)"),
    ("text", pa.large_string(), "null for a record that has no samples; else the document's text, whole"),
    ("n_sentences", pa.int32(), "sentences found"),
    ("n_characters", pa.int64(), "length of the text in code points; 0 where there is none"),
    ("n_documents", pa.int32(), "documents that the row stands for: more or none for unreadable parts of files"),
    ("failed_run", pa.int32(), "null unless packing failed; else the group's run, from 0, that lacks windows of it"),
    ("stage", pa.string(), "null unless it failed; else read or pack"),
    ("code", pa.string(), "null unless it failed; else the stable reason, such as null_text or broken_json"),
    ("message", pa.large_string(), "null unless it failed; else what was wrong, in words"),
    ("raw", pa.large_binary(), "null unless it failed and something was read; else the record's first 4096 bytes"),
    ("language", pa.string(), "null for a record that was not split; else the language, as in documents"),
    ("language_from", pa.string(), "null for a record that was not split; else its origin, as in documents"),
)
