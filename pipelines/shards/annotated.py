"""The work on a shard of annotated data: `spanmarker prepare --annotated` writes its windows with their gold entities.

    annotated_samples/SHARD.arrow   ANNOTATED_SAMPLES, windows with gold entities, one record batch per chunk of windows
    documents/, rejects/            the same as in tagging: the status of each document, and every invalid record
    gold_problems/SHARD.parquet     GOLD_PROBLEMS, every annotation that can't be learned

Documents are split and packed in the same way as for tagging, so training sees the same windows as tagging.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.output.layout import TRAINING_TABLES
from pipelines.shards.careful import CarefulAttempt
from pipelines.shards.document_batch import DocumentBatch, PackedBatch
from pipelines.shards.model import Packing
from pipelines.shards.runner import ShardWork, Writers
from pipelines.shards.stats import ShardStats
from pipelines.stages.align import Aligned, GoldDocument, align, problem, with_gold
from pipelines.stages.languages import with_languages
from pipelines.stages.pack import Encoded, encode, encode_words, pack_runs
from pipelines.stages.read import INPUTS
from pipelines.stages.read_annotated import AnnotatedBatch, content_of, read_annotated
from pipelines.stages.records import clean
from pipelines.stages.split import split
from pipelines.task import AnnotatedTask
from schemas import ANNOTATED_SAMPLES, GOLD_PROBLEMS, SENTENCES
from schemas.annotated import CODES
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.data.summary import DataSummary


@dataclass(slots=True)
class _AnnotatedDocuments(DocumentBatch):
    """Annotated documents being processed; `entities` has one row per entity in the windows made so far."""

    encoded: Encoded
    aligned: Aligned
    entities: list[pa.RecordBatch] = field(default_factory=list)


class AnnotatedShard(ShardWork[_AnnotatedDocuments]):
    """The work of `spanmarker prepare --annotated`.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        packing: packer and context that the task describes.
        careful: rejects records that end a process; None leaves the process unprotected.
    """

    tables = TRAINING_TABLES
    task: AnnotatedTask

    def __init__(self, shard: Shard, task: AnnotatedTask, packing: Packing, careful: CarefulAttempt | None) -> None:
        super().__init__(shard, task, packing, careful)
        self._summary, self._codes = DataSummary(), Counter[str]()

    def read(self, records: Callable[..., Iterator[Any]]) -> Iterator[AnnotatedBatch]:
        """Yield the documents of the shard in bounded batches."""
        return read_annotated(self.shard, self.task, records)

    def inputs(self, documents: list[GoldDocument]) -> pa.RecordBatch:
        """Return documents as INPUTS rows."""
        return _inputs(documents)

    @staticmethod
    def try_documents(documents: list[GoldDocument], task: AnnotatedTask, model: Packing) -> Iterator[str]:
        """Process documents in the same way as the work, and discard the result."""
        yield "pack"
        group = _encode(documents, task, model, ShardStats())
        for chunk in pack_runs(group.encoded, model.packer, model.context):
            with_gold(chunk.samples, group.encoded, group.aligned.gold, task.entity_max_length)

    def encode(self, documents: list[GoldDocument]) -> tuple[_AnnotatedDocuments, Encoded]:
        """Split and encode documents, and align their annotations."""
        group = _encode(documents, self.task, self.packing, self.stats)
        return group, group.encoded

    def process(self, batch: PackedBatch[_AnnotatedDocuments], writers: Writers) -> None:
        """Write the windows with their gold entities."""
        group, samples = batch.group, batch.arrive()
        with self.stats.timed("gold"):
            rows, beyond = with_gold(samples, group.encoded, group.aligned.gold, self.task.entity_max_length)
        room = f"its words do not fit a window of {self.packing.packer.capacity} tokens of text"
        group.aligned.problems.extend(problem(gold.record, "too_many_tokens", room) for gold in beyond)
        labels = rows["gold_label"]
        entities = {"document_id": rows["document_id"].take(pc.list_parent_indices(labels)), "label": labels.flatten()}
        group.entities.append(pa.RecordBatch.from_pydict(entities))
        group.count(samples)
        with self.stats.timed("write"):
            writers[ANNOTATED_SAMPLES.name].write(rows)

    def finish(self, group: _AnnotatedDocuments, writers: Writers) -> int:
        """Write and count the results of documents; annotations of rejected documents do not count."""
        rejected = {group.documents["document_id"][place].as_py() for place in group.rejected}
        problems = [row for row in group.aligned.problems if row["document_id"] not in rejected]
        for sentence in group.aligned.sentences:
            if sentence.document_id not in rejected:
                self._summary.add(sentence)
        self._codes.update(row["code"] for row in problems)
        with self.stats.timed("write"):
            writers[GOLD_PROBLEMS.name].write(pa.RecordBatch.from_pylist(problems, schema=GOLD_PROBLEMS.schema))
        return self.add(group, group.alive(pa.concat_batches(group.entities)), writers)

    def content(self) -> str:
        """Return the current identity of the shard's content."""
        return content_of(self.shard, self.task.columns)

    def complete(self, entry: Entry) -> None:
        """Add the entities, the problems of annotations and the summary of the sentences."""
        entry.counts["entities"] = self.stats.counts["entities"]
        entry.counts.update({f"gold_{code}": self._codes[code] for code in CODES})
        entry.data.update(self._summary.to_json())


def _encode(
    documents: list[GoldDocument], task: AnnotatedTask, packing: Packing, stats: ShardStats
) -> _AnnotatedDocuments:
    """Return documents with their sentences encoded and their annotations aligned."""
    inputs = _inputs(documents)
    if documents and documents[0].sentences is not None:
        rows = _sentence_rows(documents)
        words = [sentence.words for document in documents for sentence in document.sentences or ()]
        with stats.timed("encode"):
            encoded = encode_words(rows, words, packing.packer)
    else:
        with stats.timed("split"):
            inputs = with_languages(inputs, task.language)
            rows = split(inputs)
        with stats.timed("encode"):
            encoded = encode(rows, packing.packer)
    with stats.timed("align"):
        aligned = align(documents, encoded, task.entity_max_length)
    group = _AnnotatedDocuments(inputs, encoded, aligned)
    group.n_sentences += np.bincount(group.places(rows["document_id"]), minlength=len(documents))
    return group


def _inputs(documents: list[GoldDocument]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "document_id": document.document_id,
            "source": clean(document.source),
            "source_row": document.source_row,
            "text": document.text,
        }
        for document in documents
    ]
    return pa.RecordBatch.from_pylist(rows, schema=INPUTS)


def _sentence_rows(documents: list[GoldDocument]) -> pa.RecordBatch:
    """Return the SENTENCES rows of documents that are given as words."""
    rows = []
    for document in documents:
        start = 0
        for sentence in document.sentences or ():
            text = " ".join(sentence.words)
            rows.append(
                {
                    "document_id": document.document_id,
                    "sentence_id": sentence.sentence_id,
                    "text": text,
                    "char_start": start,
                    "char_end": start + len(text),
                }
            )
            start += len(text) + 1
    return pa.RecordBatch.from_pylist(rows, schema=SENTENCES.schema)
