"""Shards: the units of work that a plan is made of, one JSON object a line in `plan.jsonl`."""

from dataclasses import dataclass

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Shard:
    """A bounded part of the inputs, the unit of work, of commitment and of resuming.

    `name` ends in a digest of everything that decides the shard's rows: source, range, content and job.
    Changed content or another job is thus another name, and a shard is done if its name is in the manifest.
    """

    name: str  # such as "articles-00003-9f86d081884c7d65"; names the shard's output files
    source: str  # the file, as an absolute path or a URL; for text files the folder that `files` lie under
    format: str  # parquet, jsonl, jsonl.gz, jsonl.zst, text; or unreadable: a file that can't even be opened
    start: int  # half-open range in rows (parquet), bytes (jsonl, compressed or not) or 0 (text)
    end: int
    files: tuple[str, ...]  # text only: paths below `source`; each is one document and its id
    n_bytes: int  # size of the range, for progress only: uncompressed for Parquet, as stored for the rest
    content: str  # identity of the bytes in the range
    reason: str = ""  # unreadable only: why
