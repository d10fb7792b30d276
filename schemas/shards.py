"""Shards: the units of work of a plan, one JSON object per line of `plan.jsonl`."""

from dataclasses import dataclass

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Shard:
    """A bounded part of the inputs: the unit of work, commit and resume.

    `name` ends in a digest of everything that determines the shard's rows: source, range, content and job. If the
    content or the job changes, so does the name; a shard is finished if the manifest contains its name.
    """

    name: str  # such as "articles-00003-9f86d081884c7d65"; names the shard's output files
    source: str  # the file, as an absolute path or a URL; for text files the folder that contains `files`
    format: str  # parquet, jsonl, jsonl.gz, jsonl.zst, text; or unreadable for a file that cannot be opened
    start: int  # half-open range in rows (parquet), bytes (jsonl, compressed or not) or 0 (text)
    end: int
    files: tuple[str, ...]  # text only: paths relative to `source`; each is one document, and its id
    n_bytes: int  # size of the range in bytes, for progress only: uncompressed for Parquet, else as stored
    content: str  # identity of the bytes in the range
    reason: str = ""  # unreadable only: the reason
