"""The shard task: one shard of documents in, its rows and its manifest entry out. What every engine maps.

    read ── split ── pack ──> bounded queue ──> tag ── check ── write ──> publish, then commit
    └──────── a thread ──────┘                └──────── the caller ────────┘

Nothing here knows an engine. The task needs its shard, a `Task` and a loaded model; it may be run
again at any time and leaves the same files.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines import CODE_VERSION
from pipelines.errors import PipelineError
from pipelines.manifest import TABLES, commit, table_path
from pipelines.memory import peak_rss_bytes
from pipelines.prefetch import prefetch
from pipelines.stages.pack import pack
from pipelines.stages.read import INPUTS, RAW_BYTES, ReadBatch, Reject, read
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from pipelines.stages.write import TableWriter, table_writer
from pipelines.storage import remove
from pipelines.task import Task
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS, SAMPLES
from schemas.manifest import MANIFEST_VERSION, Entry, Output
from schemas.shards import Shard
from spanmarker_core.errors import CodedError

#: Batches of documents that are read, split and packed ahead of the model.
_AHEAD = 2
#: Rejects that an entry tells of.
_EXAMPLES = 3

Progress = Callable[[int, int, int], None]  # documents, words, bytes of text, since the last call


@dataclass(slots=True)
class _Group:
    """Documents on their way, with what became of them so far. All arrays are by document, in order."""

    documents: pa.RecordBatch
    rejects: list[Reject]
    samples: pa.RecordBatch
    n_sentences: np.ndarray


@dataclass(slots=True)
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    reject_codes: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, object]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def run_shard(shard: Shard, task: Task, model: Any, progress: Progress | None = None) -> Entry:
    """Tag one shard, publish its tables, commit its entry, return it.

    Args:
        shard: what to read.
        task: how, and where the rows go.
        model: a loaded model (`spanmarker_core.load`), the one that `task` names.
        progress: called after each group of documents.

    Raises:
        PipelineError: `output.not_writable`; `model.broken` if the model fails on anything.
        OSError: the input's storage failed.
    """
    tally = _Tally()
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
            groups = stack.enter_context(closing(prefetch(_prepare(shard, task, model, tally), _AHEAD)))
            while True:
                with tally.timed("wait"):
                    group = next(groups, None)
                if group is None:
                    break
                _finish_group(group, task, model, writers, tally, progress)
            _check_balance(shard, tally)
            with tally.timed("write"):
                outputs = {name: writer.finish() for name, writer in writers.items()}
    except BaseException:
        for path in paths.values():  # Some may be in place when another can't be; no table shows half a shard.
            with contextlib.suppress(Exception):
                remove(path)
        raise
    entry = _entry(shard, task, tally, outputs)
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


def _prepare(shard: Shard, task: Task, model: Any, tally: _Tally) -> Iterator[_Group]:
    """Read, split and pack; runs in the background thread."""
    batches = read(shard, task.id_column, task.text_column)
    while True:
        with tally.timed("read"):
            batch = next(batches, None)
        if batch is None:
            return
        tally.counts["read"] += len(batch.documents) + sum(reject.n_documents for reject in batch.rejects)
        yield from _prepare_batch(batch, task, model, tally)


def _prepare_batch(batch: ReadBatch, task: Task, model: Any, tally: _Tally) -> Iterator[_Group]:
    def work(start: int, end: int) -> _Group:
        documents = batch.documents.slice(start, end - start)
        with tally.timed("split"):
            sentences = split(documents, task.language)
        with tally.timed("pack"):
            samples = pack(sentences, model.packer, model.config.context)
        n_sentences = np.bincount(_places(sentences, documents), minlength=len(documents))
        return _Group(documents, [], samples, n_sentences)

    rejects = batch.rejects
    for start, _, outcome in isolate(len(batch.documents), work):
        if isinstance(outcome, Exception):
            rejects.append(_failed(batch.documents, start, "pack", outcome))
        else:
            outcome.rejects, rejects = rejects, []
            yield outcome
    if rejects:
        yield _Group(batch.documents.slice(0, 0), rejects, SAMPLES.empty(), np.zeros(0, np.int64))


def _finish_group(
    group: _Group,
    task: Task,
    model: Any,
    writers: dict[str, TableWriter],
    tally: _Tally,
    progress: Progress | None,
) -> None:
    with tally.timed("tag"):
        annotations, rejected = _tag_group(group, task, model)
    with tally.timed("check"):
        annotations, bad = _check_offsets(annotations, group.documents)
        rejected |= bad
        rows, n_words = _document_rows(group, annotations, rejected)
        rejects = [*group.rejects, *rejected.values()]
    with tally.timed("write"):
        writers[ANNOTATIONS.name].write(annotations)
        writers[DOCUMENTS.name].write(rows)
        writers[REJECTS.name].write(_reject_rows(rejects))
    _count(tally, rows, rejects, annotations)
    if progress is not None:
        progress(len(rows), n_words, group.documents["text"].nbytes)


def _tag_group(group: _Group, task: Task, model: Any) -> tuple[pa.RecordBatch, dict[int, Reject]]:
    """Return the annotations, and the rejects of documents that failed, by their place in the group."""
    places = _places(group.samples, group.documents)
    bounds = np.searchsorted(places, np.arange(len(group.documents) + 1))

    def work(start: int, end: int) -> pa.RecordBatch:
        first, last = int(bounds[start]), int(bounds[end])
        if first == last:
            return ANNOTATIONS.empty()
        return tag(group.samples.slice(first, last - first), model, task.decoder, task.threshold)

    parts, rejected = [ANNOTATIONS.empty()], {}
    for start, _, outcome in isolate(len(group.documents), work):
        if isinstance(outcome, Exception):
            check_model(model, task)
            rejected[start] = _failed(group.documents, start, "tag", outcome)
        else:
            parts.append(outcome)
    return pa.concat_batches(parts), rejected


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


def _failed(documents: pa.RecordBatch, place: int, stage: str, error: Exception) -> Reject:
    return _reject(documents, place, stage, f"{stage}_failed", describe(error))


def _reject(documents: pa.RecordBatch, place: int, stage: str, code: str, message: str) -> Reject:
    row = documents.slice(place, 1).to_pylist()[0]
    text = row["text"]
    # Four bytes a character at most, so this many characters hold all the bytes that are kept.
    raw = text[:RAW_BYTES].encode()[:RAW_BYTES]
    return Reject(row["document_id"], row["source"], row["source_row"], stage, code, message, raw, len(text))


def _places(rows: pa.RecordBatch, documents: pa.RecordBatch) -> np.ndarray:
    """Return the place in `documents` of the document of each row; ids are unique in a group."""
    return pc.index_in(rows["document_id"], value_set=documents["document_id"]).to_numpy(zero_copy_only=False)


def _check_offsets(annotations: pa.RecordBatch, documents: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, Reject]]:
    """Hold every row's text against the document's own characters; a document with a wrong row is rejected."""
    places = _places(annotations, documents)
    texts = documents["text"].to_pylist()
    starts, ends = annotations["char_start"].to_pylist(), annotations["char_end"].to_pylist()
    slices = [texts[place][start:end] for place, start, end in zip(places, starts, ends, strict=True)]
    right = pc.equal(pa.array(slices, pa.large_string()), annotations["text"]).to_numpy(zero_copy_only=False)
    right &= np.asarray(starts, np.int64) < np.asarray(ends, np.int64)
    if right.all():
        return annotations, {}
    bad = np.unique(places[~right])
    message = "a row's text is not the document's text[char_start:char_end]"
    kept = annotations.filter(pa.array(~np.isin(places, bad)))
    return kept, {int(place): _reject(documents, int(place), "tag", "bad_offsets", message) for place in bad}


def _document_rows(
    group: _Group, annotations: pa.RecordBatch, rejected: dict[int, Reject]
) -> tuple[pa.RecordBatch, int]:
    """Return the DOCUMENTS rows of a group, in the order of the source, and the words that were tagged."""
    documents, samples, count = group.documents, group.samples, len(group.documents)
    sample_places = _places(samples, documents)
    tagged_words = samples["word_tag"]
    word_places = sample_places[pc.list_parent_indices(tagged_words).to_numpy()]
    own = tagged_words.flatten().to_numpy(zero_copy_only=False)
    long = samples["word_long"].flatten().to_numpy(zero_copy_only=False)
    columns = {
        "n_sentences": group.n_sentences,
        "n_words": np.bincount(word_places[own], minlength=count),
        "n_long_words": np.bincount(word_places[own & long], minlength=count),
        "n_windows": np.bincount(sample_places, minlength=count),
        "n_entities": np.bincount(_places(annotations, documents), minlength=count),
    }
    alive = np.ones(count, bool)
    alive[list(rejected)] = False
    status = np.where(alive, np.where(group.n_sentences > 0, "tagged", "empty"), "rejected")
    rows = pa.RecordBatch.from_arrays(
        [
            documents["document_id"],
            documents["source"],
            documents["source_row"],
            pa.array(status, pa.string()),
            pc.utf8_length(documents["text"]).cast(pa.int64()),
            *(pa.array(np.where(alive, values, 0), pa.int32()) for values in columns.values()),
        ],
        schema=DOCUMENTS.schema,
    )
    if group.rejects:
        failed = [
            {
                "document_id": reject.document_id,
                "source": _clean(reject.source),
                "source_row": None if reject.source_row is None else reject.source_row + number,
                "status": "rejected",
                "n_characters": reject.n_characters,
                **dict.fromkeys(columns, 0),
            }
            for reject in group.rejects
            for number in range(reject.n_documents)
        ]
        rows = pa.concat_batches([rows, pa.RecordBatch.from_pylist(failed, schema=DOCUMENTS.schema)])
        rows = rows.take(pc.sort_indices(rows, [("source", "ascending"), ("source_row", "ascending")]))
    return rows, int(columns["n_words"][alive].sum())


def _reject_rows(rejects: list[Reject]) -> pa.RecordBatch:
    rows = [
        {
            "document_id": reject.document_id,
            "source": _clean(reject.source),
            "source_row": reject.source_row,
            "stage": reject.stage,
            "code": reject.code,
            "message": _clean(reject.message),
            "raw": reject.raw,
        }
        for reject in rejects
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REJECTS.schema)


def _clean(text: str) -> str:
    # File names may hold bytes that are no UTF-8, which Python shows as lone surrogates.
    return text.encode("utf-8", "backslashreplace").decode()


def _count(tally: _Tally, rows: pa.RecordBatch, rejects: list[Reject], annotations: pa.RecordBatch) -> None:
    tally.counts["documents"] += len(rows)
    for item in pc.value_counts(rows["status"]).to_pylist():
        tally.counts[item["values"]] += item["counts"]
    for column in DOCUMENTS.schema.names[4:]:
        tally.counts[column.removeprefix("n_")] += pc.sum(rows[column]).as_py() or 0
    tally.counts["unreadable"] += sum(reject.n_documents == 0 for reject in rejects)
    tally.reject_codes.update(reject.code for reject in rejects)
    for reject in rejects[: _EXAMPLES - len(tally.reject_examples)]:
        tally.reject_examples.append(
            {
                "document_id": reject.document_id,
                "source": _clean(reject.source),
                "source_row": reject.source_row,
                "code": reject.code,
                "message": _clean(reject.message),
            }
        )
    for item in pc.value_counts(annotations["label"]).to_pylist():
        tally.labels[item["values"]] += item["counts"]


def _check_balance(shard: Shard, tally: _Tally) -> None:
    """Every document that was read has become one row, and each row says what became of it."""
    counts = tally.counts
    found = counts["tagged"] + counts["empty"] + counts["rejected"]
    if not counts["read"] == counts["documents"] == found:
        raise PipelineError("shard.unbalanced", shard=shard.name, read=counts["read"], found=found)


def _entry(shard: Shard, task: Task, tally: _Tally, outputs: dict[str, Output]) -> Entry:
    names = ["documents", "tagged", "empty", "rejected", "unreadable", "characters", "sentences", "words"]
    names += ["long_words", "windows", "entities"]
    return Entry(
        version=MANIFEST_VERSION,
        shard=shard.name,
        source=shard.source,
        job=task.job,
        counts={name: tally.counts[name] for name in names},
        reject_codes=dict(sorted(tally.reject_codes.items())),
        reject_examples=tally.reject_examples,
        labels=dict(sorted(tally.labels.items())),
        seconds={stage: round(seconds, 4) for stage, seconds in sorted(tally.seconds.items())},
        peak_rss_bytes=peak_rss_bytes(),
        outputs=outputs,
        versions={
            "code": CODE_VERSION,
            **{name: version(name) for name in ("torch", "transformers", "sentencex")},
        },
    )
