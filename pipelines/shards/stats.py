"""What a shard adds up to, as its manifest entry tells it."""

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError
from pipelines.processes.memory import peak_rss_bytes
from pipelines.stages.read import Reject, clean
from pipelines.task import AnnotatedTask, TagTask, Task
from schemas import DOCUMENTS
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard

#: What becomes of a document; `prepared` where it is not tagged here.
STATUSES = ("tagged", "prepared", "empty", "rejected")
#: Rejects that an entry tells of.
_EXAMPLES = 3
_WORK = ("candidates", "scored_candidates", "tokens", "token_places", "out_of_memory")

Item = TypeVar("Item")


@dataclass(slots=True)
class ShardStats:
    """Counts and times of a shard. Stages of different names may be timed in different threads."""

    counts: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)  # as in `Tagger.work`
    labels: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, object]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def timed_each(self, stage: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; add the time that making them takes to a stage."""
        iterator = iter(items)
        while True:
            with self.timed(stage):
                made = list(itertools.islice(iterator, 1))
            if not made:
                return
            yield made.pop()

    def add(self, rows: pa.RecordBatch, rejects: list[Reject], annotations: pa.RecordBatch) -> None:
        """Count the rows that a group of documents came to."""
        self.counts["documents"] += len(rows)
        for item in pc.value_counts(rows["status"]).to_pylist():
            self.counts[item["values"]] += item["counts"]
        for column in DOCUMENTS.schema.names[4:]:
            self.counts[column.removeprefix("n_")] += pc.sum(rows[column]).as_py() or 0
        self.counts["unreadable"] += sum(reject.n_documents == 0 for reject in rejects)
        self.reject_codes.update(reject.code for reject in rejects)
        for reject in rejects[: _EXAMPLES - len(self.reject_examples)]:
            self.reject_examples.append(
                {
                    "document_id": reject.document_id,
                    "source": clean(reject.source),
                    "source_row": reject.source_row,
                    "code": reject.code,
                    "message": clean(reject.message),
                }
            )
        for item in pc.value_counts(annotations["label"]).to_pylist():
            self.labels[item["values"]] += item["counts"]

    def check_balance(self, shard: Shard) -> None:
        """Hold that every document that was read has become one row, and each row says what became of it.

        Raises:
            PipelineError: `shard.unbalanced`.
        """
        found = sum(self.counts[status] for status in STATUSES)
        if not self.counts["read"] == self.counts["documents"] == found:
            raise PipelineError("shard.unbalanced", shard=shard.name, read=self.counts["read"], found=found)

    def entry(self, shard: Shard, task: Task, outputs: dict[str, Output]) -> Entry:
        """Return the shard's manifest entry."""
        prepared = not isinstance(task, TagTask)
        names = ["documents", "prepared" if prepared else "tagged", "empty", "rejected", "unreadable", "characters"]
        with_entities = isinstance(task, TagTask | AnnotatedTask)
        names += ["sentences", "words", "long_words", "windows", *(("entities",) if with_entities else ())]
        libraries = ("tokenizers", "sentencex") if prepared else ("torch", "transformers", "sentencex")
        return Entry(
            version=MANIFEST_VERSION,
            shard=shard.name,
            source=shard.source,
            files=list(shard.files),
            job=task.job,
            counts={name: self.counts[name] for name in names},
            work={} if prepared else {name: self.work[name] for name in _WORK},
            reject_codes=dict(sorted(self.reject_codes.items())),
            reject_examples=self.reject_examples,
            labels=dict(sorted(self.labels.items())),
            seconds={stage: round(seconds, 4) for stage, seconds in sorted(self.seconds.items())},
            peak_rss_bytes=peak_rss_bytes(),
            outputs=outputs,
            versions={"code": CODE_VERSION, **{name: version(name) for name in libraries}},
        )
