"""Manifest entries: the content of one finished shard, one JSON file per shard, published after its outputs.

When there are many, entries are moved from their files into one table, `manifest/entries.parquet`, sorted by shard.
"""

import hashlib
import json
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from schemas.tables import Table

MANIFEST_VERSION = 3

#: Paths are bytes because not every file name is valid UTF-8.
ENTRIES = Table.define(
    "entries",
    1,
    ("shard", pa.string(), "name of the shard, unique; the table is sorted by it"),
    ("job", pa.string(), "digest of the job identity of the rows"),
    ("source", pa.binary(), "file from which the shard was read; for text files, the folder of `files`"),
    ("files", pa.list_(pa.binary()), "text files of the shard, relative to `source`; otherwise empty"),
    ("outputs", pa.map_(pa.string(), pa.int64()), "size in bytes of each output file, by its table"),
    ("entry", pa.large_binary(), "the whole entry, as JSON"),
)


@dataclass(frozen=True, slots=True)
class Output:
    """One Parquet file of a shard.

    Attributes:
        rows: number of rows.
        n_bytes: size of the file in bytes.
        blake2b: digest of the whole file, 128 bits, hexadecimal.
    """

    rows: int
    n_bytes: int
    blake2b: str


class OtherVersion(ValueError):
    """A manifest entry of a version that this program cannot read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished shard. The existence of an entry guarantees that all its `outputs` are complete and in place.

    Attributes:
        version: version of the format, `MANIFEST_VERSION`.
        shard: name of the shard, `Shard.name`.
        source: source of the shard, `Shard.source`.
        files: files of the shard, `Shard.files`.
        job: digest of the job identity that made the rows.
        counts: documents = tagged + empty + rejected; also unreadable parts, characters, words and so on.
        work: work of the model: candidate spans, scored spans, text tokens and attention positions.
        reject_codes: number of reject rows by code.
        reject_examples: the first few rejects, without their raw bytes.
        labels: number of entities by label.
        seconds: seconds by stage; `wait` is the time during which the model waited for input.
        peak_rss_bytes: peak resident memory of the worker process up to the end of this shard, in bytes.
        outputs: output files by table name.
        versions: versions of the code and of the libraries that affect the rows.
        data: for annotated data, their `DataSummary`.
        languages: number of documents by language; like `languages_from`, entries of earlier releases lack it.
        languages_from: number of documents by the origin of their language, see DOCUMENTS.
        cut_bytes: `Shard.cut_bytes`; 0 in entries of earlier releases.
    """

    version: int
    shard: str
    source: str
    files: list[str]
    job: str
    counts: dict[str, int]
    work: dict[str, int]
    reject_codes: dict[str, int]
    reject_examples: list[dict[str, object]]
    labels: dict[str, int]
    seconds: dict[str, float]
    peak_rss_bytes: int
    outputs: dict[str, Output]
    versions: dict[str, str]
    data: dict[str, Any] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    languages_from: dict[str, int] = field(default_factory=dict)
    cut_bytes: int = 0

    def to_json(self, indent: int | None = None) -> bytes:
        """Return the entry as JSON with a digest of its content; file names that are not UTF-8 keep their bytes.

        Args:
            indent: spaces per level of nesting; None writes a single line.
        """
        values = {name: getattr(self, name) for name in _FIELDS}  # `asdict` makes a slow deep copy
        values["outputs"] = {
            table: {"rows": output.rows, "n_bytes": output.n_bytes, "blake2b": output.blake2b}
            for table, output in self.outputs.items()
        }
        values["digest"] = _digest(values)
        return json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogateescape")

    @classmethod
    def from_json(cls, content: bytes, check_digest: bool = True) -> "Entry":
        """Read an entry written by `to_json`.

        Args:
            content: the JSON text, UTF-8 with surrogate escapes.
            check_digest: whether to compare the digest; the manifest table has checksums of its pages instead.

        Raises:
            OtherVersion: the entry has another version.
            ValueError, KeyError, TypeError, AttributeError: the entry is damaged.
        """
        values = json.loads(content.decode("utf-8", "surrogateescape"))
        digest = values.pop("digest", None)  # Entries of earlier releases lack it.
        if check_digest and digest is not None and digest != _digest(values):
            raise ValueError(f"its digest differs from the stored digest {digest}")
        if values["version"] != MANIFEST_VERSION:
            raise OtherVersion(f"manifest version {values['version']}, but this program reads {MANIFEST_VERSION}")
        values["outputs"] = {table: Output(**output) for table, output in values["outputs"].items()}
        return cls(**values)


def _digest(values: dict[str, Any]) -> str:
    content = json.dumps(values, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


_FIELDS = tuple(each.name for each in fields(Entry))
