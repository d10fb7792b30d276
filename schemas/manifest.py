"""Manifest entries: what one finished shard holds, one JSON file a shard, published after its outputs."""

from dataclasses import dataclass

MANIFEST_VERSION = 3


@dataclass(frozen=True, slots=True)
class Output:
    """One Parquet file of a shard."""

    rows: int
    n_bytes: int
    blake2b: str  # of the whole file, 128 bits, hexadecimal


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished shard: its existence says that all `outputs` are whole and in place."""

    version: int
    shard: str  # Shard.name
    source: str  # Shard.source
    files: list[str]  # Shard.files
    job: str  # digest of the job identity that made the rows
    counts: dict[str, int]  # documents = tagged + empty + rejected; unreadable parts, characters, words, ...
    work: dict[str, int]  # of the model: candidate spans and those scored, text tokens and places in attention
    reject_codes: dict[str, int]  # reject rows by code
    reject_examples: list[dict[str, object]]  # the first few rejects, without their raw bytes
    labels: dict[str, int]  # entities by label
    seconds: dict[str, float]  # by stage; `wait` is the time that the model stood idle for want of input
    peak_rss_bytes: int  # of the worker process, up to the end of this shard
    outputs: dict[str, Output]  # by table name
    versions: dict[str, str]  # of the code and of the libraries that decide the rows
