"""The shard tasks for documents: read one shard, write its files and its manifest entry. Every engine maps them.

    read ── split ── encode ── pack ──> bounded queue ──> tag ── check ── write ──> publish, then commit
    └─────────── a thread ──────────┘                   └──────── the caller ────────┘

The queue holds packed batches. Each has one chunk of windows: of bounded size, from many short documents or from a part
of a long one. Checking and writing work on document batches, i.e. documents that were read together, after their last
chunk.

The work can also be done in two jobs: `prepare_shard` writes the contents of the queue to files, and `run_shard` tags
them from there.

Nothing here depends on an engine. A task needs its shard, a `Task` and a loaded model. It may be run
again at any time, also while another attempt at the shard is running, and writes the same files. Files published by a
failed attempt stay, because another attempt may have committed them in the meantime.
`pipelines.output.reconcile.reconcile` removes them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError, describe
from pipelines.output.layout import TAG_TABLES, table_path
from pipelines.output.manifest import commit
from pipelines.processes.isolated import isolate
from pipelines.shards.careful import ENDS_PROCESS, CarefulAttempt
from pipelines.shards.document_batch import DocumentBatch, PackedBatch, reject_of
from pipelines.shards.model import Packing, check_model
from pipelines.shards.prefetch import prefetch
from pipelines.shards.sample_files import sample_writer, steps
from pipelines.shards.stats import ShardStats
from pipelines.shards.tables import documents_table, rejects_table
from pipelines.stages.pack import Encoded, encode, pack_runs
from pipelines.stages.read import ReadBatch, batched, read, read_records
from pipelines.stages.samples import Samples, document_edges
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from pipelines.stages.write import TableWriter, table_writer
from pipelines.storage import check_lease
from pipelines.storage.fingerprint import content_now
from pipelines.task import TagTask, Task
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS, SENTENCES
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.inference.out_of_memory import is_out_of_memory
from spanmarker_core.windows.packer import Packer

#: Chunks of windows that are made ahead of the model.
_AHEAD = 2

Progress = Callable[[int, int, int], None]  # documents, words, bytes of text, since the last call


def run_shard(
    shard: Shard,
    task: TagTask,
    model: Any,
    progress: Progress | None = None,
    careful: CarefulAttempt | None = None,
) -> Entry:
    """Tag one shard, publish its tables, commit its manifest entry, return the entry.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        model: the loaded model (`spanmarker_core.load`) that `task` names.
        progress: called after each chunk of windows; documents count when their batch is finished.
        careful: rejects records that end a process; None leaves the process unprotected.

    Raises:
        PipelineError: `output.not_writable`, `output.lock_lost`; `samples.damaged`; `input.changed` if the input
            differs from the plan; `model.broken` if the model fails on a valid text; `shard.unbalanced`.
        OSError: the input's storage failed.
    """
    tally = ShardStats()
    work_before = Counter(model.work)
    footer = {**footer_of(shard, task), "decoder": task.decoder}
    paths = {table.name: table_path(task.output, table.name, shard.name) for table in TAG_TABLES}
    with ExitStack() as stack:
        writers = {
            table.name: stack.enter_context(table_writer(paths[table.name], table, footer)) for table in TAG_TABLES
        }
        if task.samples:
            made = steps(shard, task, tally)
        else:
            made = _prepare(shard, task, Packing(model.packer, model.config.context), tally, careful)
        for step in tally.timed_each("wait", stack.enter_context(closing(prefetch(made, _AHEAD)))):
            if task.samples and careful is not None:
                _reject_killers(step, careful)
            with tally.timed("tag"):
                _tag_run(step, task, model)
            documents = _finish_group(step.group, writers, tally) if step.last else 0
            if progress is not None:
                progress(documents, *step.group.untold(step))
        tally.work.update(model.work - work_before)
        tally.check_balance(shard)
        if not task.samples:
            check_content(shard, lambda: content_now(shard, task.columns.id, task.columns.text), tally)
        with tally.timed("write"):
            outputs = {name: writer.finish() for name, writer in writers.items()}
        check_lease(task.output, task.lease)
    return commit_shard(tally.entry(shard, task, outputs), task)


def prepare_shard(
    shard: Shard,
    task: Task,
    packing: Packing,
    progress: Progress | None = None,
    careful: CarefulAttempt | None = None,
) -> Entry:
    """Write one shard's samples and the inputs for tagging them, commit its manifest entry, return the entry.

    Args:
        shard: the shard to read.
        task: the shard task, which names the output.
        packing: packer and context of the model that `task` names.
        progress: called after each chunk of windows; documents count when their batch is finished.
        careful: rejects records that end a process; None leaves the process unprotected.

    Raises:
        PipelineError: `output.not_writable`, `output.lock_lost`; `input.changed` if the input differs from the plan;
            `shard.unbalanced`.
        OSError: the input's storage failed.
    """
    tally = ShardStats()
    with ExitStack() as stack:
        writer = stack.enter_context(sample_writer(task.output, shard.name, footer_of(shard, task)))
        made = stack.enter_context(closing(prefetch(_prepare(shard, task, packing, tally, careful), _AHEAD)))
        for step in tally.timed_each("wait", made):
            step.group.count(step.arrive())
            with tally.timed("write"):
                writer.write(step)
            documents = _count_group(step.group, tally) if step.last else 0
            if progress is not None:
                progress(documents, *step.group.untold(step))
        tally.check_balance(shard)
        check_content(shard, lambda: content_now(shard, task.columns.id, task.columns.text), tally)
        with tally.timed("write"):
            outputs = writer.finish()
        check_lease(task.output, task.lease)
    return commit_shard(tally.entry(shard, task, outputs), task)


def commit_shard(entry: Entry, task: Task) -> Entry:
    """Commit a shard with published files, unless a later run has acquired the output; return the entry.

    Args:
        entry: the shard's manifest entry.
        task: the shard task.

    Raises:
        PipelineError: `output.lock_lost`, `output.not_writable`.
    """
    check_lease(task.output, task.lease)
    commit(task.output, entry)
    return entry


def footer_of(shard: Shard, task: Task) -> dict[str, str]:
    """Return the origin of a shard's files, for their metadata.

    Args:
        shard: the shard.
        task: the shard task.
    """
    return {
        "model_digest": task.model_digest,
        "run": task.job,
        "shard": shard.name,
        "code_version": CODE_VERSION,
    }


def check_content(shard: Shard, content: Callable[[], str], tally: ShardStats) -> None:
    """Check that the input has not changed since it was planned.

    Args:
        shard: the shard, with the planned identity of its content.
        content: returns the current identity.
        tally: statistics to which the time of the check is added.

    Raises:
        PipelineError: `input.changed`.
    """
    with tally.timed("check"):
        if content() != shard.content:
            raise PipelineError("input.changed", source=shard.source)


def _prepare(
    shard: Shard, task: Task, packing: Packing, tally: ShardStats, careful: CarefulAttempt | None
) -> Iterator[PackedBatch]:
    """Read, split, encode and pack; runs in the background thread."""
    if careful is None:
        batches = read(shard, task.columns)
    else:
        records = careful.records(shard, read_records, task.columns)
        batches = careful.survivors(batched(records), try_documents)
    for batch in tally.timed_each("read", batches):
        tally.counts["read"] += len(batch.documents) + sum(reject.n_documents for reject in batch.rejects)
        for group, encoded in _encoded(batch, task, packing.packer, tally):
            for run in tally.timed_each("pack", pack_runs(encoded, packing.packer, packing.context)):
                failures = {document_id: describe(error) for document_id, error in run.failures.items()}
                yield PackedBatch(group, run.samples, failures, run.last)
                del run  # otherwise it would be kept alive while the next one is made


def try_documents(documents: pa.RecordBatch, task: Task, model: Any) -> Iterator[str]:
    """Process documents in the same way as a shard task, and discard the result.

    Args:
        documents: INPUTS rows.
        task: the shard task.
        model: the model of the task: a `Tagger`, or a `Packing` if the task only prepares.

    Yields:
        The name of each stage as it begins.
    """
    packing = Packing(model.packer, model.config.context) if isinstance(task, TagTask) else model
    yield "split"
    sentences = split(documents, task.language)
    yield "pack"
    for run in pack_runs(encode(sentences, packing.packer), packing.packer, packing.context):
        if isinstance(task, TagTask):
            yield from try_samples([run.samples], task, model)


def try_samples(samples: Sequence[Samples], task: TagTask, model: Any) -> Iterator[str]:
    """Tag samples and discard the result.

    Args:
        samples: the windows of one document each.
        task: the shard task.
        model: the loaded model.

    Yields:
        The name of the stage as it begins.
    """
    yield "tag"
    tag(Samples.concatenate(samples), model, task.decoder, task.threshold)


def _reject_killers(step: PackedBatch, careful: CarefulAttempt) -> None:
    """Reject the documents of a packed batch with windows that end the process that tags them."""
    group, samples = step.group, step.arrive()
    edges = document_edges(samples.document_ids)
    parts = [samples.take(np.arange(start, end)) for start, end in pairwise(edges.tolist())]
    for start, _, killed in careful.sorted_out(parts, try_samples):
        if killed is not None:
            group.reject(int(group.places(parts[start].document_ids)[0]), killed.stage, ENDS_PROCESS, str(killed))


def _encoded(
    batch: ReadBatch, task: Task, packer: Packer, tally: ShardStats
) -> Iterator[tuple[DocumentBatch, Encoded]]:
    """Yield documents with their encoded sentences: a single batch unless some documents fail."""

    def work(start: int, end: int) -> tuple[DocumentBatch, Encoded]:
        documents = batch.documents.slice(start, end - start)
        with tally.timed("split"):
            sentences = split(documents, task.language)
        with tally.timed("encode"):
            encoded = encode(sentences, packer)
        group = DocumentBatch(documents, [])
        group.n_sentences += np.bincount(group.places(sentences["document_id"]), minlength=len(documents))
        return group, encoded

    rejects = batch.rejects
    for start, _, outcome in isolate(len(batch.documents), work):
        if isinstance(outcome, Exception):
            rejects.append(reject_of(batch.documents, start, "pack", "pack_failed", describe(outcome)))
            continue
        group, encoded = outcome
        group.rejects, rejects = rejects, []
        yield group, encoded
    if rejects:
        yield DocumentBatch(batch.documents.slice(0, 0), rejects), encode(SENTENCES.empty(), packer)


def _tag_run(step: PackedBatch, task: TagTask, model: Any) -> None:
    """Tag a packed batch and add the annotations to its documents; a document that fails is rejected as a whole."""
    group, samples = step.group, step.arrive()
    edges = document_edges(samples.document_ids)

    def work(start: int, end: int) -> pa.RecordBatch:
        part = samples if end - start == len(edges) - 1 else samples.take(np.arange(edges[start], edges[end]))
        return tag(part, model, task.decoder, task.threshold)

    for start, _, outcome in isolate(len(edges) - 1, work):
        if isinstance(outcome, Exception):
            check_model(model, task)
            place = int(group.places(samples.document_ids.slice(edges[start], 1))[0])
            code = "out_of_memory" if is_out_of_memory(outcome) else "tag_failed"
            group.reject(place, "tag", code, describe(outcome))
        else:
            group.annotations.append(outcome)
    group.count(samples)


def _finish_group(group: DocumentBatch, writers: dict[str, TableWriter], tally: ShardStats) -> int:
    """Write the rows of a batch of documents and return the number of documents."""
    with tally.timed("check"):
        annotations = group.checked_annotations()
        rows = documents_table(group, annotations)
        rejects = [*group.rejects, *group.rejected.values()]
    with tally.timed("write"):
        writers[ANNOTATIONS.name].write(annotations)
        writers[DOCUMENTS.name].write(rows)
        writers[REJECTS.name].write(rejects_table(rejects))
    tally.add(rows, rejects, annotations)
    return len(rows)


def _count_group(group: DocumentBatch, tally: ShardStats) -> int:
    """Count a batch of documents that is not tagged here and return the number of documents."""
    with tally.timed("check"):
        rows = documents_table(group, ANNOTATIONS.empty(), "prepared")
    tally.add(rows, [*group.rejects, *group.rejected.values()], ANNOTATIONS.empty())
    return len(rows)
