"""Sums over manifest entries for `status` and reports. No rows are read."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipelines.report.run_counts import seconds_of
from schemas.manifest import Entry

#: Maximum number of rejects shown as examples.
MAX_EXAMPLES = 10
#: Maximum number of shards listed as the slowest and as the largest.
MAX_SHARDS = 10
#: Maximum number of distinct sets of versions.
_MAX_VERSIONS = 20
_OTHERS = "others"


@dataclass(slots=True)
class Totals:
    """Sums over finished shards.

    Attributes:
        shards: number of shards.
        counts: sums of the counts of documents, words and rows.
        work: sums of the counts of the model's work.
        reject_codes: number of rejects by code.
        reject_examples: some rejects, at most `MAX_EXAMPLES`.
        labels: number of annotation rows by label.
        languages: number of documents by language.
        languages_from: number of documents by the origin of their language, see DOCUMENTS.
        seconds: seconds by stage, over all workers.
        versions: number of shards by the versions that made them, as text.
        peak_rss_bytes: maximum resident memory of a worker, in bytes.
        output_bytes: total size of the output files, in bytes.
        slowest: the shards with the longest processing time, (seconds, name, entry), at most `MAX_SHARDS`; a heap.
        largest: the shards with the most words, (words, name, entry), at most `MAX_SHARDS`; a heap.
    """

    shards: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, Any]] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    languages_from: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    peak_rss_bytes: int = 0
    output_bytes: int = 0
    slowest: list[tuple[float, str, Entry]] = field(default_factory=list)
    largest: list[tuple[float, str, Entry]] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Add a shard.

        Args:
            entry: manifest entry of the shard.
        """
        self.shards += 1
        self.counts.update(entry.counts)
        self.work.update(entry.work)
        self.reject_codes.update(entry.reject_codes)
        self.reject_examples += entry.reject_examples[: MAX_EXAMPLES - len(self.reject_examples)]
        self.labels.update(entry.labels)
        self.languages.update(entry.languages)
        self.languages_from.update(entry.languages_from)
        self.seconds.update(entry.seconds)
        versions = ", ".join(f"{name} {version}" for name, version in entry.versions.items())
        known = versions in self.versions or len(self.versions) < _MAX_VERSIONS
        self.versions[versions if known else _OTHERS] += 1
        self.peak_rss_bytes = max(self.peak_rss_bytes, entry.peak_rss_bytes)
        self.output_bytes += sum(output.n_bytes for output in entry.outputs.values())
        _keep(self.slowest, seconds_of(entry), entry)
        _keep(self.largest, entry.counts.get("words", 0), entry)

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> "Totals":
        """Return the sums over `entries`.

        Args:
            entries: manifest entries.
        """
        totals = cls()
        for entry in entries:
            totals.add(entry)
        return totals


def _keep(heap: list[tuple[float, str, Entry]], size: float, entry: Entry) -> None:
    item = (size, entry.shard, entry)  # Names are unique, so entries are never compared.
    if len(heap) < MAX_SHARDS:
        heapq.heappush(heap, item)
    elif item[:2] > heap[0][:2]:
        heapq.heapreplace(heap, item)
