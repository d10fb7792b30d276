"""The work on shards of documents: tagging them, preparing samples, and tagging prepared samples.

The work can be done in one job or in two: `PrepareShard` writes packed batches to files, and `TagSamplesShard` tags
them from there. Both ways write the same rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.errors import describe
from pipelines.output.layout import SAMPLE_TABLES, TAG_TABLES, tag_tables
from pipelines.processes.isolated import isolate
from pipelines.shards.careful import ENDS_PROCESS, CarefulAttempt
from pipelines.shards.document_batch import DocumentBatch, PackedBatch
from pipelines.shards.model import Packing, check_model
from pipelines.shards.runner import ShardWork, Writers
from pipelines.shards.sample_files import SampleWriter, read_batches
from pipelines.shards.tables import annotations_table
from pipelines.stages.kept_columns import KEPT
from pipelines.stages.languages import with_languages
from pipelines.stages.pack import Encoded, encode, pack_runs
from pipelines.stages.read import ReadBatch, batched, read_records
from pipelines.stages.samples import Samples, document_edges
from pipelines.stages.split import split, stored_sentences
from pipelines.stages.tag import tag
from pipelines.storage.fingerprint import content_now
from pipelines.task import TagTask, Task
from schemas import ANNOTATIONS, DOCUMENTS, ENTITIES, PREPARED, SAMPLES, Table
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.inference.out_of_memory import is_out_of_memory

if TYPE_CHECKING:  # It imports torch, which preparing samples does not need.
    from spanmarker_core.inference.tagger import Tagger

_MODEL_WORK = ("candidates", "scored_candidates", "tokens", "token_places", "out_of_memory")


class _CorpusShard(ShardWork[DocumentBatch]):
    """The work on a shard of documents."""

    def read(self, records: Callable[..., Iterator[Any]]) -> Iterator[ReadBatch]:
        columns = self.task.columns
        return batched(records(self.shard, read_records, columns), columns.kept)

    def kept_in(self, table: Table) -> Sequence[pa.Field]:
        kept = list(self.task.columns.kept)
        if table.name == PREPARED.name:
            return [pa.field(KEPT, pa.struct(kept))] if kept else ()
        return kept if table.name == DOCUMENTS.name else ()

    def inputs(self, documents: pa.RecordBatch) -> pa.RecordBatch:
        return documents

    def encode(self, documents: pa.RecordBatch) -> tuple[DocumentBatch, Encoded]:
        with self.stats.timed("languages"):
            documents = with_languages(documents, self.task.language)
        with self.stats.timed("split"):
            sentences = split(documents, breaks=self.task.sentence_breaks)
        with self.stats.timed("encode"):
            encoded = encode(sentences, self.packing.packer)
        group = DocumentBatch(documents)
        group.n_sentences += np.bincount(group.places(sentences["document_id"]), minlength=len(documents))
        return group, encoded

    def content(self) -> str:
        return content_now(self.shard, *self.task.columns.read)


class PrepareShard(_CorpusShard):
    """The work of `spanmarker prepare`: writes the samples of a shard and the inputs for tagging them.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        packing: packer and context of the model that `task` names.
        careful: rejects records that end a process; None leaves the process unprotected.
    """

    tables = SAMPLE_TABLES

    def __init__(self, shard: Shard, task: Task, packing: Packing, careful: CarefulAttempt | None) -> None:
        super().__init__(shard, task, packing, careful)
        self._writer = SampleWriter()

    @staticmethod
    def try_documents(documents: pa.RecordBatch, task: Task, model: Packing) -> Iterator[str]:
        """Process documents in the same way as the work, and discard the result."""
        yield "split"
        sentences = split(with_languages(documents, task.language), breaks=task.sentence_breaks)
        yield "pack"
        for _ in pack_runs(encode(sentences, model.packer), model.packer, model.context):
            pass

    def process(self, batch: PackedBatch[DocumentBatch], writers: Writers) -> None:
        """Count and write a packed batch."""
        batch.group.count(batch.arrive())
        with self.stats.timed("write"):
            self._writer.write(batch, writers[SAMPLES.name], writers[PREPARED.name])

    def finish(self, group: DocumentBatch, writers: Writers) -> int:
        """Count the documents; their rows are written when they are tagged."""
        return self.add(group, pa.RecordBatch.from_pylist([], ENTITIES), writers)


class TagShard(_CorpusShard):
    """The work of `spanmarker tag`.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        model: the loaded model (`spanmarker_core.load`) that `task` names.
        careful: rejects records that end a process; None leaves the process unprotected.
    """

    done = "tagged"
    libraries = ("torch", "transformers", "sentencex")
    task: TagTask

    def __init__(self, shard: Shard, task: TagTask, model: "Tagger", careful: CarefulAttempt | None) -> None:
        super().__init__(shard, task, Packing(model.packer, model.config.context), careful)
        self.tables = tag_tables(task.write_sentences)
        self.footer["decoder"] = task.decoder
        self.model = model
        self._work_before = Counter(model.work)

    @staticmethod
    def try_documents(documents: pa.RecordBatch, task: TagTask, model: "Tagger") -> Iterator[str]:
        """Process documents in the same way as the work, and discard the result."""
        yield "split"
        sentences = split(with_languages(documents, task.language), breaks=task.sentence_breaks)
        yield "pack"
        for chunk in pack_runs(encode(sentences, model.packer), model.packer, model.config.context):
            yield from try_samples([chunk.samples], task, model)

    def process(self, batch: PackedBatch[DocumentBatch], writers: Writers) -> None:
        """Tag a packed batch; a document that fails is rejected as a whole."""
        with self.stats.timed("tag"):
            group, samples = batch.group, batch.arrive()
            edges = document_edges(samples.document_ids)

            def work(start: int, end: int) -> pa.RecordBatch:
                part = samples if end - start == len(edges) - 1 else samples.take(np.arange(edges[start], edges[end]))
                return tag(part, self.model, self.task.decoder, self.task.thresholds, self.task.labels)

            for start, _, outcome in isolate(len(edges) - 1, work):
                if isinstance(outcome, Exception):
                    check_model(self.model, self.task)
                    place = int(group.places(samples.document_ids.slice(edges[start], 1))[0])
                    code = "out_of_memory" if is_out_of_memory(outcome) else "tag_failed"
                    group.reject(place, "tag", code, describe(outcome))
                else:
                    group.annotations.append(outcome)
            group.count(samples)

    def finish(self, group: DocumentBatch, writers: Writers) -> int:
        """Check, write and count the annotations of a document batch."""
        with self.stats.timed("check"):
            annotations = group.checked_annotations()
        with self.stats.timed("write"):
            rows = annotations_table(group, annotations, self.task.keep_in_annotations)
            writers[ANNOTATIONS.name].write(rows)
        for table in self.tables[len(TAG_TABLES) :]:
            # Split again, since samples have no sentences; the rows are the same.
            with self.stats.timed("split"):
                sentences = group.alive(split(group.documents, breaks=self.task.sentence_breaks))
            with self.stats.timed("write"):
                writers[table.name].write(stored_sentences(group.documents, sentences, table))
        return self.add(group, annotations, writers)

    def kept_in(self, table: Table) -> Sequence[pa.Field]:
        """Return the kept columns, which `documents` has and `annotations` may have."""
        if table.name == ANNOTATIONS.name and self.task.keep_in_annotations:
            return list(self.task.columns.kept)
        return super().kept_in(table)

    def complete(self, entry: Entry) -> None:
        """Add the work of the model and the entities."""
        work = self.model.work - self._work_before
        entry.work.update({name: work[name] for name in _MODEL_WORK})
        entry.counts["entities"] = self.stats.counts["entities"]


class TagSamplesShard(TagShard):
    """The work of `spanmarker tag --samples`: reads packed batches instead of documents."""

    def batches(self) -> Iterator[PackedBatch[DocumentBatch]]:
        """Read packed batches from the files of samples."""
        return read_batches(self.shard, self.task, self.stats)

    def process(self, batch: PackedBatch[DocumentBatch], writers: Writers) -> None:
        """Tag a packed batch; in a careful attempt, reject documents with windows that end the process."""
        if self.careful is not None:
            group, samples = batch.group, batch.arrive()
            edges = document_edges(samples.document_ids)
            parts = [samples.take(np.arange(start, end)) for start, end in pairwise(edges.tolist())]
            for start, _, killed in self.careful.sorted_out(parts, try_samples):
                if killed is not None:
                    place = int(group.places(parts[start].document_ids)[0])
                    group.reject(place, killed.stage, ENDS_PROCESS, str(killed))
        super().process(batch, writers)

    def check_content(self) -> None:
        """Do nothing: samples reflect the documents as they were read."""


def try_samples(samples: Sequence[Samples], task: TagTask, model: "Tagger") -> Iterator[str]:
    """Tag samples and discard the result.

    Args:
        samples: the windows of one document each.
        task: the shard task.
        model: the loaded model.

    Yields:
        The name of the stage as it begins.
    """
    yield "tag"
    tag(Samples.concatenate(samples), model, task.decoder, task.thresholds, task.labels)
