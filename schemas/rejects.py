"""Rejects: records that could not be tagged, with enough information to find them again."""

import pyarrow as pa

from schemas.tables import Table

REJECTS = Table.define(
    "rejects",
    2,
    ("document_id", pa.large_string(), "null if the record had no readable id; otherwise the id"),
    ("source", pa.large_string(), "file from which the record was read"),
    (
        "source_row",
        pa.int64(),
        "null for a whole file; otherwise row of a table, byte offset of a line, index of an element, or 0 for a text",
    ),
    ("stage", pa.string(), "read, split, pack or tag"),
    ("code", pa.string(), "stable code, such as null_text or broken_json"),
    ("message", pa.large_string(), "explanation, in plain text"),
    ("n_documents", pa.int64(), "number of documents that it represents; 0 if unknown, as for a damaged file"),
    ("raw", pa.large_binary(), "null if nothing was read; otherwise the first 4096 bytes of the record"),
)
