"""The shard task of `spanmarker prepare --annotated`: it reads a shard of annotated data and writes its windows.

    annotated_samples/SHARD.arrow   ANNOTATED_SAMPLES, windows with gold entities, one record batch per chunk of windows
    documents/, rejects/            the same as in tagging: the status of each document, and every invalid record
    gold_problems/SHARD.parquet     GOLD_PROBLEMS, every annotation that can't be learned

Documents are split and packed in the same way as for tagging, so training sees the same windows as tagging.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import describe
from pipelines.output.layout import table_path
from pipelines.processes.isolated import isolate
from pipelines.shards.careful import CarefulAttempt
from pipelines.shards.corpus import Progress, check_content, commit_shard, footer_of
from pipelines.shards.document_batch import DocumentBatch, PackedBatch, reject_of
from pipelines.shards.model import Packing
from pipelines.shards.sample_files import arrow_file
from pipelines.shards.stats import ShardStats
from pipelines.shards.tables import documents_table, rejects_table
from pipelines.stages.align import Aligned, GoldDocument, align, problem, with_gold
from pipelines.stages.pack import Encoded, encode, encode_words, pack_runs
from pipelines.stages.read import INPUTS
from pipelines.stages.read_annotated import AnnotatedBatch, content_of, iterate, read_annotated
from pipelines.stages.records import clean
from pipelines.stages.split import split
from pipelines.stages.write import TableWriter, table_writer
from pipelines.storage import check_lease
from pipelines.task import AnnotatedTask
from schemas import ANNOTATED_SAMPLES, DOCUMENTS, GOLD_PROBLEMS, REJECTS, SENTENCES
from schemas.annotated import CODES
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.data.summary import DataSummary


def prepare_annotated(
    shard: Shard,
    task: AnnotatedTask,
    packing: Packing,
    progress: Progress | None = None,
    careful: CarefulAttempt | None = None,
) -> Entry:
    """Write the windows and tables of one shard, commit its manifest entry, return the entry.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        packing: packer and context that the task describes.
        progress: called after each chunk of windows; documents count when their batch is finished.
        careful: rejects records that end a process; None leaves the process unprotected.

    Raises:
        PipelineError: `output.not_writable`, `output.lock_lost`; `input.changed` if the input differs from the plan;
            `shard.unbalanced`.
        OSError: the input's storage failed.
    """
    work = _AnnotatedShard(task, packing, ShardStats(), DataSummary(), Counter())
    tally = work.tally
    with ExitStack() as stack:
        url = {table.name: table_path(task.output, table.name, shard.name) for table in _TABLES}
        footer = footer_of(shard, task)
        samples = stack.enter_context(arrow_file(url[ANNOTATED_SAMPLES.name], ANNOTATED_SAMPLES, footer))
        writers = {
            table.name: stack.enter_context(table_writer(url[table.name], table, footer)) for table in _TABLES[1:]
        }
        batches = read_annotated(shard, task, iterate if careful is None else careful.records)
        if careful is not None:
            batches = careful.survivors(batches, try_annotated, _inputs)
        for batch in tally.timed_each("read", batches):
            tally.counts["read"] += len(batch.documents) + sum(reject.n_documents for reject in batch.rejects)
            for part in work.parts(batch):
                for step in work.runs(part):
                    with tally.timed("write"):
                        samples.write(step.samples)
                    if progress is not None:
                        progress(len(part.group.documents) if step.last else 0, *part.group.untold(step))
                work.finish(part, writers)
        tally.check_balance(shard)
        check_content(shard, lambda: content_of(shard, task.id_column, task.text_column), tally)
        with tally.timed("write"):
            outputs = {ANNOTATED_SAMPLES.name: samples.finish()}
            outputs |= {name: writer.finish() for name, writer in writers.items()}
        check_lease(task.output, task.lease)
    entry = tally.entry(shard, task, outputs)
    entry.counts.update({f"gold_{code}": work.codes[code] for code in CODES})
    entry.data.update(work.summary.to_json())
    return commit_shard(entry, task)


_TABLES = (ANNOTATED_SAMPLES, DOCUMENTS, REJECTS, GOLD_PROBLEMS)


def try_annotated(documents: list[GoldDocument], task: AnnotatedTask, packing: Packing) -> Iterator[str]:
    """Process documents in the same way as `prepare_annotated`, and discard the result.

    Args:
        documents: the documents.
        task: the shard task.
        packing: packer and context that the task describes.

    Yields:
        The name of each stage as it begins.
    """
    yield "pack"
    work = _AnnotatedShard(task, packing, ShardStats(), DataSummary(), Counter())
    for _ in work.runs(work.part(documents)):
        pass


@dataclass(slots=True)
class _Part:
    """A batch of documents being processed; `kept` has one row per entity in the windows made so far."""

    group: DocumentBatch
    encoded: Encoded
    aligned: Aligned
    kept: list[pa.RecordBatch]


@dataclass(slots=True)
class _AnnotatedShard:
    task: AnnotatedTask
    packing: Packing
    tally: ShardStats
    summary: DataSummary
    codes: Counter[str]

    def parts(self, batch: AnnotatedBatch) -> Iterator[_Part]:
        """Yield the documents in parts: a single part unless some documents fail."""
        rejects = batch.rejects
        for start, _, outcome in isolate(len(batch.documents), lambda a, b: self.part(batch.documents[a:b])):
            if isinstance(outcome, Exception):
                inputs = _inputs(batch.documents[start : start + 1])
                rejects.append(reject_of(inputs, 0, "pack", "pack_failed", describe(outcome)))
                continue
            outcome.group.rejects, rejects = rejects, []
            yield outcome
        if rejects:
            part = self.part([])
            part.group.rejects = rejects
            yield part

    def part(self, documents: list[GoldDocument]) -> _Part:
        """Return documents with their sentences encoded and their annotations aligned."""
        inputs = _inputs(documents)
        if documents and documents[0].sentences is not None:
            rows = _sentence_rows(documents)
            words = [sentence.words for document in documents for sentence in document.sentences or ()]
            with self.tally.timed("encode"):
                encoded = encode_words(rows, words, self.packing.packer)
        else:
            with self.tally.timed("split"):
                rows = split(inputs, self.task.language)
            with self.tally.timed("encode"):
                encoded = encode(rows, self.packing.packer)
        with self.tally.timed("align"):
            aligned = align(documents, encoded, self.task.entity_max_length)
        group = DocumentBatch(inputs, [])
        group.n_sentences += np.bincount(group.places(rows), minlength=len(documents))
        return _Part(group, encoded, aligned, [])

    def runs(self, part: _Part) -> Iterator[PackedBatch]:
        """Yield the windows of a part with their gold entities."""
        group, limit = part.group, self.task.entity_max_length
        for run in self.tally.timed_each("pack", pack_runs(part.encoded, self.packing.packer, self.packing.context)):
            failures = {document_id: describe(error) for document_id, error in run.failures.items()}
            samples = PackedBatch(group, run.samples, failures, run.last).arrive()
            with self.tally.timed("align"):
                rows, beyond = with_gold(samples, part.encoded, part.aligned.gold, limit)
            room = f"{self.packing.packer.capacity} tokens of text in a window have no room for its words"
            part.aligned.problems.extend(problem(gold.record, "too_many_tokens", room) for gold in beyond)
            counts = rows["gold_label"]
            part.kept.append(
                pa.RecordBatch.from_pydict(
                    {
                        "document_id": rows["document_id"].take(pc.list_parent_indices(counts)),
                        "label": counts.flatten(),
                    }
                )
            )
            group.count(rows)
            yield PackedBatch(group, rows, {}, run.last)

    def finish(self, part: _Part, writers: dict[str, TableWriter]) -> None:
        """Write and count the results of a part; annotations of rejected documents do not count."""
        group = part.group
        rejected = {group.documents["document_id"][place].as_py() for place in group.rejected}
        kept = group.alive(pa.concat_batches(part.kept))
        problems = [row for row in part.aligned.problems if row["document_id"] not in rejected]
        for sentence in part.aligned.sentences:
            if sentence.document_id not in rejected:
                self.summary.add(sentence)
        self.codes.update(row["code"] for row in problems)
        rows, rejects = documents_table(group, kept, "prepared"), [*group.rejects, *group.rejected.values()]
        with self.tally.timed("write"):
            writers[DOCUMENTS.name].write(rows)
            writers[REJECTS.name].write(rejects_table(rejects))
            writers[GOLD_PROBLEMS.name].write(pa.RecordBatch.from_pylist(problems, schema=GOLD_PROBLEMS.schema))
        self.tally.add(rows, rejects, kept)


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
