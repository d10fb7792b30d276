"""Shards: the units of work of a plan, one JSON object per line of `plan.jsonl`."""

from dataclasses import dataclass

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Shard:
    """A bounded part of the inputs: the unit of work, commit and resume.

    `name` ends in a digest of everything that determines the shard's rows: source, range, content and job. If the
    content or the job changes, so does the name; a shard is finished if the manifest contains its name.

    Attributes:
        name: such as "articles-00003-9f86d081884c7d65"; also names the output files.
        source: the file, as an absolute path or a URL; for text files the folder that contains `files`.
        format: parquet, jsonl, json, csv, tsv, arrow, warc or text, and for compressed files a dot and gz, zst, bz2 or
            xz; jsonl.utf16 and json.utf16; or unreadable for a file that cannot be opened.
        start: first row (parquet) or byte (others, also of compressed files); 0 for text.
        end: one past the last row or byte; 0 for text. Of an unreadable shard the start, or the size in bytes if
            the file is sound and lacks columns.
        files: text only: paths relative to `source`; each is one document, and its id.
        n_bytes: size of the range in bytes, for progress only: uncompressed for Parquet, else as stored.
        content: identity of the bytes in the range; empty if the file could not even be opened.
        reason: unreadable only: the reason.
        limit: number of documents after which the shard ends; 0 for none.
    """

    name: str
    source: str
    format: str
    start: int
    end: int
    files: tuple[str, ...]
    n_bytes: int
    content: str
    reason: str = ""
    limit: int = 0
