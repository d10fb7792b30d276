"""The shard task: one shard of documents in, its rows and its manifest entry out. What every engine maps.

    read ── split ── encode ── pack ──> bounded queue ──> tag ── check ── write ──> publish, then commit
    └─────────── a thread ──────────┘                   └──────── the caller ────────┘

What is in the queue are runs: windows of a bounded size, of many short documents or of a part of a long one.
What is checked and written are groups: documents that were read together, when their last run has come by.

Nothing here knows an engine. The task needs its shard, a `Task` and a loaded model; it may be run
again at any time and leaves the same files.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines import CODE_VERSION
from pipelines.content import content_now
from pipelines.errors import PipelineError
from pipelines.group import Group, reject_of
from pipelines.manifest import TABLES, commit, table_path
from pipelines.prefetch import prefetch
from pipelines.rows import document_rows, reject_rows
from pipelines.stages.pack import Encoded, Run, document_edges, encode, pack, pack_runs
from pipelines.stages.read import INPUTS, ReadBatch, read
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from pipelines.stages.write import TableWriter, table_writer
from pipelines.storage import remove
from pipelines.tally import Tally
from pipelines.task import Task
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS, SENTENCES
from schemas.manifest import Entry
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Runs of windows that are made ahead of the model.
_AHEAD = 2

Progress = Callable[[int, int, int], None]  # documents, words, bytes of text, since the last call


@dataclass(frozen=True, slots=True)
class _Step:
    """A run of windows on its way, and the documents that it is of."""

    group: Group
    run: Run


def run_shard(shard: Shard, task: Task, model: Any, progress: Progress | None = None) -> Entry:
    """Tag one shard, publish its tables, commit its entry, return it.

    Args:
        shard: what to read.
        task: how, and where the rows go.
        model: a loaded model (`spanmarker_core.load`), the one that `task` names.
        progress: called after each run of windows; documents count when their group is done.

    Raises:
        PipelineError: `output.not_writable`; `input.changed` if what was read is not what was planned;
            `model.broken` if the model fails on anything.
        OSError: the input's storage failed.
    """
    tally = Tally()
    work_before = Counter(model.work)
    footer = {
        "model_digest": task.model_digest,
        "decoder": task.decoder,
        "run": task.job,
        "shard": shard.name,
        "code_version": CODE_VERSION,
    }
    paths = {table.name: table_path(task.output, table.name, shard.name) for table in TABLES}
    try:
        with ExitStack() as stack:
            writers = {
                table.name: stack.enter_context(table_writer(paths[table.name], table, footer)) for table in TABLES
            }
            steps = stack.enter_context(closing(prefetch(_prepare(shard, task, model, tally), _AHEAD)))
            for step in tally.timed_each("wait", steps):
                with tally.timed("tag"):
                    _tag_run(step, task, model)
                documents = _finish_group(step.group, writers, tally) if step.run.last else 0
                if progress is not None:
                    progress(documents, *step.group.untold(step.run))
            tally.work.update(model.work - work_before)
            tally.check_balance(shard)
            with tally.timed("check"):
                if content_now(shard, task.id_column, task.text_column) != shard.content:
                    raise PipelineError("input.changed", source=shard.source)
            with tally.timed("write"):
                outputs = {name: writer.finish() for name, writer in writers.items()}
    except BaseException:
        for path in paths.values():  # Some may be in place when another can't be; no table shows half a shard.
            with contextlib.suppress(Exception):
                remove(path)
        raise
    entry = tally.entry(shard, task, outputs)
    commit(task.output, entry)
    return entry


def isolate(count: int, work: Callable[[int, int], Any]) -> Iterator[tuple[int, int, Any]]:
    """Do `work(start, end)` over [0, count); where it fails, over halves, until what fails is alone.

    Yields (start, end, result) in order; the result of a single item that fails is its exception.

    >>> list(isolate(3, lambda start, end: [10 // n for n in (2, 0, 5)[start:end]]))
    [(0, 1, [5]), (1, 2, ZeroDivisionError('integer division or modulo by zero')), (2, 3, [2])]
    """
    pending = [(0, count)] if count else []
    while pending:
        start, end = pending.pop()
        try:
            result = work(start, end)
        except Exception as error:
            if end - start > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            result = error
        yield start, end, result


def _prepare(shard: Shard, task: Task, model: Any, tally: Tally) -> Iterator[_Step]:
    """Read, split, encode and pack; runs in the background thread."""
    for batch in tally.timed_each("read", read(shard, task.id_column, task.text_column)):
        tally.counts["read"] += len(batch.documents) + sum(reject.n_documents for reject in batch.rejects)
        for group, encoded in _encoded(batch, task, model, tally):
            runs = pack_runs(encoded, model.packer, model.config.context)
            yield from (_Step(group, run) for run in tally.timed_each("pack", runs))


def _encoded(batch: ReadBatch, task: Task, model: Any, tally: Tally) -> Iterator[tuple[Group, Encoded]]:
    """Yield the documents in groups, all in one unless some fail, with their sentences as tokens."""

    def work(start: int, end: int) -> tuple[Group, Encoded]:
        documents = batch.documents.slice(start, end - start)
        with tally.timed("split"):
            sentences = split(documents, task.language)
        with tally.timed("encode"):
            encoded = encode(sentences, model.packer)
        group = Group(documents, [])
        group.n_sentences += np.bincount(group.places(sentences), minlength=len(documents))
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
        yield Group(batch.documents.slice(0, 0), rejects), encode(SENTENCES.empty(), model.packer)


def _tag_run(step: _Step, task: Task, model: Any) -> None:
    """Tag a run and add what was found to its group; a document that fails is rejected, whatever was found before."""
    group, run = step.group, step.run
    for document_id, error in run.failures.items():
        place = pc.index(group.documents["document_id"], document_id).as_py()
        group.reject(place, "pack", "pack_failed", describe(error))
    samples = group.alive(run.samples)
    edges = document_edges(samples["document_id"])

    def work(start: int, end: int) -> pa.RecordBatch:
        first, last = int(edges[start]), int(edges[end])
        return tag(samples.slice(first, last - first), model, task.decoder, task.threshold)

    for start, _, outcome in isolate(len(edges) - 1, work):
        if isinstance(outcome, Exception):
            check_model(model, task)
            place = int(group.places(samples.slice(edges[start], 1))[0])
            group.reject(place, "tag", "tag_failed", describe(outcome))
        else:
            group.annotations.append(outcome)
    group.count(samples)


def _finish_group(group: Group, writers: dict[str, TableWriter], tally: Tally) -> int:
    """Write a group's rows and return how many documents it is."""
    with tally.timed("check"):
        annotations = group.checked_annotations()
        rows = document_rows(group, annotations)
        rejects = [*group.rejects, *group.rejected.values()]
    with tally.timed("write"):
        writers[ANNOTATIONS.name].write(annotations)
        writers[DOCUMENTS.name].write(rows)
        writers[REJECTS.name].write(reject_rows(rejects))
    tally.add(rows, rejects, annotations)
    return len(rows)


def check_model(model: Any, task: Task) -> None:
    """Tag a text that nothing can be wrong with: if that fails, documents are not to blame.

    Raises:
        CodedError: what is wrong with the job's decoder or threshold, or `model.broken`, as for a lost device.
    """
    documents = pa.RecordBatch.from_pylist(
        [{"document_id": "check", "source": "", "source_row": 0, "text": "Marie Curie lived in Paris."}],
        schema=INPUTS,
    )
    try:
        samples = pack(split(documents, task.language), model.packer, model.config.context)
        tag(samples, model, task.decoder, task.threshold)
    except CodedError:
        raise
    except Exception as error:
        raise PipelineError("model.broken", reason=describe(error)) from error


def describe(error: BaseException) -> str:
    """Return an error in one line: `[code] message` for ours, `Kind: message` for others."""
    text = str(error) if isinstance(error, CodedError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
