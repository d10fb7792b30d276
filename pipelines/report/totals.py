"""Sums over manifest entries, which is all that status and reports need; no row is read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from schemas.manifest import Entry

#: Rejects shown as examples.
MAX_EXAMPLES = 10


@dataclass(slots=True)
class Totals:
    """What finished shards hold together; fields as in `Entry`."""

    shards: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, Any]] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    peak_rss_bytes: int = 0
    output_bytes: int = 0

    def add(self, entry: Entry) -> None:
        """Add a shard."""
        self.shards += 1
        self.counts.update(entry.counts)
        self.work.update(entry.work)
        self.reject_codes.update(entry.reject_codes)
        self.reject_examples += entry.reject_examples[: MAX_EXAMPLES - len(self.reject_examples)]
        self.labels.update(entry.labels)
        self.seconds.update(entry.seconds)
        self.peak_rss_bytes = max(self.peak_rss_bytes, entry.peak_rss_bytes)
        self.output_bytes += sum(output.n_bytes for output in entry.outputs.values())

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> "Totals":
        """Return the sums over `entries`."""
        totals = cls()
        for entry in entries:
            totals.add(entry)
        return totals
