"""Records of a source, and rejects of those that are not documents."""

from dataclasses import dataclass, field
from typing import Any

#: Bytes of its record that a reject keeps.
RAW_BYTES = 4096

#: Largest size of a text, or of a line with its text, in bytes. A larger one is rejected without loading it: processing
#: a text takes many times its size, and a few kilobytes of compressed data can hold gigabytes.
MAX_RECORD_BYTES = 64 << 20

#: Limits of a batch, in documents and in bytes of text. A single document may be larger.
MAX_BATCH_DOCUMENTS = 256

MAX_BATCH_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that can't be tagged: a row of `rejects`, and `n_documents` rows of `documents`.

    Attributes:
        document_id: id of the document; None if it can't be read.
        source: the file or folder that the record was read from.
        source_row: where the record is in the source; None for a whole file.
        stage: the stage that rejected it.
        code: stable code of the reason.
        message: the reason, for the user.
        raw: first bytes of the record; None if nothing was read.
        n_characters: length of the text in code points; 0 if there is no text.
        n_documents: documents that the reject stands for; 0 if unknown, as for a damaged file; more than 1 for a range
            of lost rows.
    """

    document_id: str | None
    source: str
    source_row: int | None
    stage: str
    code: str
    message: str
    raw: bytes | None
    n_characters: int = 0
    n_documents: int = 1


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a source: an id and a text, not checked yet and possibly of the wrong type.

    Attributes:
        source: the file that it was read from.
        source_row: where it is in the source: row of a table, byte offset of a line, index of an element, 0 for a text.
        document_id: the id.
        text: the text.
        raw: bytes of the record; None if they are not available.
        kept: the kept columns, see `pipelines.stages.kept_columns`; None without any.
        language: the language that it states, possibly of the wrong type; None if it states none.
    """

    source: str
    source_row: int
    document_id: Any
    text: Any
    raw: bytes | None
    kept: Any = field(default=None, kw_only=True)
    language: Any = field(default=None, kw_only=True)


def clean(text: str) -> str:
    """Return text that can be encoded as UTF-8.

    Args:
        text: any text. File names may contain bytes that are not UTF-8, which Python represents as lone surrogates.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def raw_head(raw: bytes | None) -> bytes | None:
    """Return the part of a record that a reject keeps: its first `RAW_BYTES` bytes.

    Args:
        raw: the bytes of the record; None where none were read.
    """
    return None if raw is None else bytes(raw[:RAW_BYTES])
