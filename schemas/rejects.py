"""Rejects: records that could not be tagged, with enough information to find them again."""

import pyarrow as pa

from schemas.tables import Table

REJECTS = Table.define(
    "rejects",
    2,
    ("document_id", pa.large_string(), "null where the record had none that could be read; else the id"),
    ("source", pa.large_string(), "file that the record was read from"),
    ("source_row", pa.int64(), "null for a whole file; else row (Parquet), byte offset (JSONL) or 0 (text file)"),
    ("stage", pa.string(), "read, split, pack or tag"),
    ("code", pa.string(), "stable reason, such as null_text or broken_json"),
    ("message", pa.large_string(), "what was wrong, in words"),
    ("n_documents", pa.int64(), "documents that it stands for; 0 where the number is unknown, as for a damaged file"),
    ("raw", pa.large_binary(), "null where nothing was read; else the first 4096 bytes of the record"),
)
