"""The run of a shard, the same for every kind of job: read one shard, write its files and its manifest entry.

    read ── encode ── pack ──> bounded queue ──> process ── finish ──> publish, then commit
    └────── a thread ────────┘                 └──────────── the caller ────────────┘

The queue holds packed batches. Each has one chunk of windows: of bounded size, from many short documents or from a part
of a long one. `finish` works on document batches, i.e. documents that were read together, after their last chunk.

Nothing here depends on an engine. A shard needs its `Task` and a loaded model. It may be run again at any time, also
while another attempt at it is running, and writes the same files. Files published by a failed attempt stay, because
another attempt may have committed them in the meantime. `pipelines.output.reconcile.reconcile` removes them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError, describe
from pipelines.output.layout import table_path
from pipelines.output.manifest import commit
from pipelines.processes.isolated import isolate
from pipelines.shards.careful import CarefulAttempt
from pipelines.shards.document_batch import DocumentBatch, PackedBatch, reject_of
from pipelines.shards.model import Packing
from pipelines.shards.prefetch import prefetch
from pipelines.shards.progress import Report, ShardProgress
from pipelines.shards.stats import ShardStats
from pipelines.shards.tables import documents_table, rejects_table
from pipelines.stages.pack import Encoded, pack_runs
from pipelines.stages.read import ReadBatch
from pipelines.stages.read_annotated import AnnotatedBatch, iterate
from pipelines.stages.write import arrow_file, table_writer
from pipelines.storage import check_lease
from pipelines.task import Task
from schemas import DOCUMENTS, REJECTS, Table
from schemas.manifest import Entry
from schemas.shards import Shard

#: Chunks of windows that are made ahead of the caller.
_AHEAD = 2

Writers = dict[str, Any]  # by table: `TableWriter` or `ArrowFile`
Documents = TypeVar("Documents", bound=DocumentBatch)


def _ignore(progress: ShardProgress) -> None:
    pass


class ShardWork(ABC, Generic[Documents]):
    """The work on one shard, with a subclass for each kind of job.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        packing: packer and context of the windows.
        careful: rejects records that end a process; None leaves the process unprotected.

    Attributes:
        tables: the tables that are written.
        done: status of an accepted document that has sentences.
        libraries: libraries whose versions the manifest entry records.
        footer: metadata of the files.
        stats: counts and times.
        report: receives the progress while `run` is running.
    """

    tables: tuple[Table, ...]
    done: ClassVar[str] = "prepared"
    libraries: ClassVar[tuple[str, ...]] = ("tokenizers", "sentencex")

    def __init__(self, shard: Shard, task: Task, packing: Packing, careful: CarefulAttempt | None) -> None:
        self.shard, self.task, self.packing, self.careful = shard, task, packing, careful
        self.stats = ShardStats()
        self.report: Report = _ignore
        self.footer = {
            "model_digest": task.model_digest,
            "run": task.job,
            "shard": shard.name,
            "code_version": CODE_VERSION,
            "splitter": packing.packer.splitter,  # of the words that `word_start` and `word_end` count
        }

    @abstractmethod
    def read(self, records: Callable[..., Iterator[Any]]) -> Iterator[ReadBatch] | Iterator[AnnotatedBatch]:
        """Yield the documents of the shard in bounded batches.

        Args:
            records: reads the records: `iterate`, or `CarefulAttempt.records`.
        """

    @abstractmethod
    def inputs(self, documents: Any) -> pa.RecordBatch:
        """Return documents as INPUTS rows.

        Args:
            documents: the documents of a batch, or a slice of them.
        """

    @staticmethod
    @abstractmethod
    def try_documents(documents: Any, task: Any, model: Any) -> Iterator[str]:
        """Process documents in the same way as the work, and discard the result; runs in an isolated process.

        Args:
            documents: the documents of a batch, or a slice of them.
            task: the shard task.
            model: the model of the task.

        Yields:
            The name of each stage as it begins.
        """

    @abstractmethod
    def encode(self, documents: Any) -> tuple[Documents, Encoded]:
        """Split and encode documents.

        Args:
            documents: the documents of a batch, or a slice of them.
        """

    @abstractmethod
    def process(self, batch: PackedBatch[Documents], writers: Writers) -> None:
        """Process a packed batch.

        Args:
            batch: the packed batch.
            writers: the files, by table.
        """

    @abstractmethod
    def finish(self, group: Documents, writers: Writers) -> int:
        """Write and count the results of a document batch, and return its number of documents.

        Args:
            group: the document batch; all its packed batches are processed.
            writers: the files, by table.
        """

    @abstractmethod
    def content(self) -> str:
        """Return the current identity of the shard's content; `Shard.content` is the planned one."""

    def kept_in(self, table: Table) -> Sequence[pa.Field]:
        """Return the columns that a table has in addition to its own.

        Args:
            table: a table of `tables`.
        """
        return ()

    def complete(self, entry: Entry) -> None:
        """Add what only this kind of work counts to the manifest entry.

        Args:
            entry: the entry.
        """

    def run(self, report: Report | None) -> Entry:
        """Do the work, publish the files, commit the manifest entry, return the entry.

        Args:
            report: receives the progress, at least after each chunk of windows; documents and rejects count when
                their batch is finished, which also corrects the number of entities.

        Raises:
            PipelineError: `output.not_writable`, `output.lock_lost`; `samples.damaged`; `input.changed` if the input
                differs from the plan; `model.broken` if the model fails on a valid text; `shard.unbalanced`.
            OSError: the input's storage failed.
        """
        stats, task, self.report = self.stats, self.task, report or _ignore
        with ExitStack() as stack:
            writers: Writers = {}
            for table in self.tables:
                url = table_path(task.output, table.name, self.shard.name)
                written = table.extended(self.kept_in(table))
                opened = (arrow_file if url.endswith(".arrow") else table_writer)(url, written, self.footer)
                writers[table.name] = stack.enter_context(opened)
            batches = stack.enter_context(closing(prefetch(self.batches(), _AHEAD)))
            for batch in stats.timed_each("wait", batches):
                self.process(batch, writers)
                before = stats.entities, stats.rejects
                documents = self.finish(batch.group, writers) if batch.last else 0
                found = stats.entities - before[0], stats.rejects - before[1]
                if batch.last:
                    found = found[0] - batch.group.reported_entities, found[1]
                self.report(ShardProgress(documents, *batch.group.new_progress(batch), *found))
            stats.check_balance(self.shard)
            self.check_content()
            with stats.timed("write"):
                outputs = {name: writer.finish() for name, writer in writers.items()}
            check_lease(task.output, task.lease)
        entry = stats.entry(self.shard, task.job, outputs, self.done, self.libraries)
        self.complete(entry)
        check_lease(task.output, task.lease)  # A later run may have acquired the output in the meantime.
        commit(task.output, entry)
        return entry

    def batches(self) -> Iterator[PackedBatch[Documents]]:
        """Read, encode and pack; runs in the background thread."""
        if self.careful is None:
            batches: Any = self.read(iterate)
        else:
            batches = self.careful.survivors(self.read(self.careful.records), self.try_documents, self.inputs)
        for batch in self.stats.timed_each("read", batches):
            self.stats.count_read(len(batch.documents), batch.rejects)
            for group, encoded in self._encoded(batch):
                chunks = pack_runs(encoded, self.packing.packer, self.packing.context)
                for chunk in self.stats.timed_each("pack", chunks):
                    failures = {document_id: describe(error) for document_id, error in chunk.failures.items()}
                    yield PackedBatch(group, chunk.samples, failures, chunk.last)
                    del chunk  # otherwise it would be kept alive while the next one is made

    def _encoded(self, batch: ReadBatch | AnnotatedBatch) -> Iterator[tuple[Documents, Encoded]]:
        """Yield documents with their encoded sentences: a single batch unless some documents fail."""
        rejects = batch.rejects

        def work(start: int, end: int) -> tuple[Documents, Encoded]:
            return self.encode(batch.documents[start:end])

        for start, _, outcome in isolate(len(batch.documents), work):
            if isinstance(outcome, Exception):
                failed = self.inputs(batch.documents[start : start + 1])
                rejects.append(reject_of(failed, 0, "pack", "pack_failed", describe(outcome)))
                continue
            outcome[0].rejects, rejects = rejects, []
            yield outcome
        if rejects:
            group, encoded = self.encode(batch.documents[:0])
            group.rejects = rejects
            yield group, encoded

    def check_content(self) -> None:
        """Check that the input has not changed since it was planned.

        Raises:
            PipelineError: `input.changed`.
        """
        with self.stats.timed("check"):
            if self.content() != self.shard.content:
                raise PipelineError("input.changed", source=self.shard.source)

    def add(self, group: Documents, annotations: pa.RecordBatch, writers: Writers) -> int:
        """Write the `documents` and `rejects` of a document batch, if the job has these tables, and count them.

        Args:
            group: the document batch.
            annotations: rows with `document_id` and `label`, one per entity.
            writers: the files, by table.

        Returns:
            The number of documents.
        """
        with self.stats.timed("check"):
            rows, rejects = documents_table(group, annotations, self.done), [*group.rejects, *group.rejected.values()]
        with self.stats.timed("write"):
            if DOCUMENTS.name in writers:
                writers[DOCUMENTS.name].write(rows)
                writers[REJECTS.name].write(rejects_table(rejects))
        self.stats.add(rows, rejects, annotations)
        return len(rows)
