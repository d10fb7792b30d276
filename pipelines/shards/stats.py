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
from schemas import DOCUMENTS
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard

#: Status of a document; `prepared` instead of `tagged` in a job that does not tag.
STATUSES = ("tagged", "prepared", "empty", "rejected")
#: Rejects listed in an entry.
_EXAMPLES = 3

Item = TypeVar("Item")


@dataclass(slots=True)
class ShardStats:
    """Counts and times of a shard. Different stages may be timed in different threads.

    Attributes:
        counts: documents by status, and sums over the columns of DOCUMENTS.
        labels: entities by label.
        reject_codes: rejects by code.
        reject_examples: the first few rejects.
        seconds: seconds by stage.
        languages: documents by language.
        languages_from: documents by the origin of their language.
    """

    counts: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, object]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    languages: Counter[str] = field(default_factory=Counter)
    languages_from: Counter[str] = field(default_factory=Counter)

    @property
    def entities(self) -> int:
        """Number of entities."""
        return self.labels.total()

    @property
    def rejects(self) -> int:
        """Number of rejected documents, and of parts of files that could not be read."""
        return self.counts["rejected"] + self.counts["unreadable"]

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

    def count_read(self, n_documents: int, rejects: list[Reject]) -> None:
        """Count documents that were read.

        Args:
            n_documents: number of valid documents.
            rejects: rejects of the others.
        """
        self.counts["read"] += n_documents + sum(reject.n_documents for reject in rejects)

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
        for column in DOCUMENTS.schema.names:
            if column.startswith("n_"):
                self.counts[column.removeprefix("n_")] += pc.sum(rows[column]).as_py() or 0
        for column, counted in (("language", self.languages), ("language_from", self.languages_from)):
            for item in pc.value_counts(rows[column].drop_null()).to_pylist():
                counted[item["values"]] += item["counts"]
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

    def entry(self, shard: Shard, job: str, outputs: dict[str, Output], done: str, libraries: tuple[str, ...]) -> Entry:
        """Return the shard's manifest entry.

        Args:
            shard: the shard.
            job: digest of the job identity.
            outputs: the output files by table.
            done: status of an accepted document that has sentences.
            libraries: libraries whose versions are recorded.
        """
        names = ["documents", done, "empty", "rejected", "unreadable", "characters"]
        names += ["sentences", "words", "long_words", "windows"]
        return Entry(
            version=MANIFEST_VERSION,
            shard=shard.name,
            source=shard.source,
            files=list(shard.files),
            job=job,
            counts={name: self.counts[name] for name in names},
            work={},
            reject_codes=dict(sorted(self.reject_codes.items())),
            reject_examples=self.reject_examples,
            labels=dict(sorted(self.labels.items())),
            seconds={stage: round(seconds, 4) for stage, seconds in sorted(self.seconds.items())},
            peak_rss_bytes=peak_rss_bytes(),
            outputs=outputs,
            languages=dict(sorted(self.languages.items())),
            languages_from=dict(sorted(self.languages_from.items())),
            cut_bytes=shard.cut_bytes,
            versions={"code": CODE_VERSION, **{name: version(name) for name in libraries}},
        )
