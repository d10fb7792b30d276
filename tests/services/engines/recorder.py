"""A listener to a run that keeps what it hears."""

from dataclasses import dataclass, field


@dataclass
class Recorder:
    """A listener that keeps what it hears."""

    facts: list[dict] = field(default_factory=list)
    finished_on: dict[str, str] = field(default_factory=dict)
    retries: list[tuple[str, str]] = field(default_factory=list)
    documents: int = 0

    def started(self, facts):
        self.facts.append(facts)

    def progressed(self, shard, progress):
        self.documents += progress.documents

    def finished(self, entry, n_bytes, worker):
        assert entry.shard not in self.finished_on
        self.finished_on[entry.shard] = worker

    def retried(self, shard, reason):
        self.retries.append((shard, reason))

    def failed(self, shard, reason):
        assert reason
