"""Statistics of a shard, stored in its manifest entry."""

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
from pipelines.stages.records import Reject, clean
from pipelines.task import AnnotatedTask, TagTask, Task
from schemas import DOCUMENTS
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard

#: Status of a document; `prepared` instead of `tagged` in a job that does not tag.
STATUSES = ("tagged", "prepared", "empty", "rejected")
#: Rejects listed in an entry.
_EXAMPLES = 3
_WORK = ("candidates", "scored_candidates", "tokens", "token_places", "out_of_memory")

Item = TypeVar("Item")


@dataclass(slots=True)
class ShardStats:
    """Counts and times of a shard. Different stages may be timed in different threads.

    Attributes:
        counts: documents by status, and sums over the columns of DOCUMENTS.
        work: work of the model, as counted in `Tagger.work`.
        labels: entities by label.
        reject_codes: rejects by code.
        reject_examples: the first few rejects.
        seconds: seconds by stage.
    """

    counts: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, object]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage.

        Args:
            stage: name of the stage.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def timed_each(self, stage: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items and add the time for making them to a stage.

        Args:
            stage: name of the stage.
            items: the items.
        """
        iterator = iter(items)
        while True:
            with self.timed(stage):
                made = list(itertools.islice(iterator, 1))
            if not made:
                return
            yield made.pop()

    def add(self, rows: pa.RecordBatch, rejects: list[Reject], annotations: pa.RecordBatch) -> None:
        """Count the rows of a batch of documents.

        Args:
            rows: DOCUMENTS rows.
            rejects: rejects of the batch.
            annotations: rows with a `label` per entity.
        """
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
        """Check that every document read has become one row with a valid status.

        Args:
            shard: the shard, for the error.

        Raises:
            PipelineError: `shard.unbalanced`.
        """
        found = sum(self.counts[status] for status in STATUSES)
        if not self.counts["read"] == self.counts["documents"] == found:
            raise PipelineError("shard.unbalanced", shard=shard.name, read=self.counts["read"], found=found)

    def entry(self, shard: Shard, task: Task, outputs: dict[str, Output]) -> Entry:
        """Return the shard's manifest entry.

        Args:
            shard: the shard.
            task: the shard task.
            outputs: the output files by table.
        """
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
