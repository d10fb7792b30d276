"""The files of a prepared shard: one job writes packed batches, another reads them back.

samples/SHARD.arrow    SAMPLES, one record batch per chunk of windows
inputs/SHARD.arrow     PREPARED, one record batch per batch of documents: see `schemas.prepared`
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.output.layout import SAMPLE_TABLES, table_path
from pipelines.output.manifest import committed_entry
from pipelines.planning.files import renamed
from pipelines.shards.document_batch import DocumentBatch, PackedBatch
from pipelines.shards.stats import ShardStats
from pipelines.stages.kept_columns import KEPT
from pipelines.stages.read import INPUTS
from pipelines.stages.records import Reject, clean
from pipelines.stages.samples import rows_of, samples_of
from pipelines.stages.write import ArrowFile
from pipelines.storage import open_input, read_range, resolve
from pipelines.storage.urls import is_local
from pipelines.task import TagTask
from schemas import PREPARED, SAMPLES
from schemas.manifest import Output
from schemas.shards import Shard

_GROUP, _LAST = b"spanmarker.group", b"spanmarker.last"
_REJECT_FIELDS = [field.name for field in fields(Reject)]


class SampleWriter:
    """A writer of the packed batches of a shard."""

    def __init__(self) -> None:
        self._group = self._run = 0
        self._failed: dict[int, int] = {}  # position of a document -> index of the chunk that lacks its windows

    def write(self, step: PackedBatch[DocumentBatch], samples: ArrowFile, inputs: ArrowFile) -> None:
        """Write a packed batch, after `PackedBatch.arrive`.

        Args:
            step: the packed batch.
            samples: file of the windows.
            inputs: file of the documents.
        """
        for place in step.group.rejected:
            self._failed.setdefault(place, self._run)
        mark = {_GROUP: str(self._group).encode(), _LAST: str(int(step.last)).encode()}
        samples.write(rows_of(step.samples), mark)
        self._run += 1
        if step.last:
            inputs.write(_input_rows(step.group, self._failed))
            self._group, self._run, self._failed = self._group + 1, 0, {}


def read_batches(shard: Shard, task: TagTask, stats: ShardStats) -> Iterator[PackedBatch[DocumentBatch]]:
    """Yield the packed batches of a prepared shard, with one chunk of windows in memory at a time.

    They are the same as those written, even if the documents' files have changed since.

    Args:
        shard: the shard, with its name in the tagging job.
        task: the shard task, which names the folder of the samples.
        stats: statistics to which the documents read and the time are added.

    Raises:
        PipelineError: `samples.damaged`, before the first batch.
        OSError: the storage failed.
    """
    name = renamed(shard, task.samples_job).name
    urls = {table.name: table_path(task.samples, table.name, name) for table in SAMPLE_TABLES}
    entry = committed_entry(task.samples, name)
    if entry is None:
        raise PipelineError("samples.damaged", path=urls[SAMPLES.name], reason="its manifest entry is missing")
    with contextlib.ExitStack() as stack:
        with stats.timed("read"):
            samples, inputs = (stack.enter_context(_opened(urls[table], entry.outputs[table])) for table in urls)
        run = number = 0
        for index in range(samples.num_record_batches):
            with stats.timed("read"):
                batch, metadata = samples.get_batch_with_custom_metadata(index)
                if run == 0:
                    group, failures = _group(inputs.get_batch(number), task.language)
                    stats.count_read(len(group.documents), group.rejects)
            last = metadata[_LAST] == b"1"
            yield PackedBatch(group, samples_of(batch), failures.get(run, {}), last)
            run, number = (0, number + 1) if last else (run + 1, number)


@contextlib.contextmanager
def _opened(url: str, written: Output) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Open a file of record batches after checking its whole content; a file in a store is copied here first."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_input(url))
        copy = None if is_local(resolve(url)[0]) else stack.enter_context(tempfile.TemporaryFile())
        digest = hashlib.blake2b(digest_size=16)
        n_bytes = 0
        for block in read_range(file, 0, written.n_bytes + 1):
            digest.update(block)
            n_bytes += len(block)
            if copy is not None:
                copy.write(block)
        if n_bytes != written.n_bytes:
            reason = f"its size is not the {written.n_bytes:,} bytes in its manifest entry"
            raise PipelineError("samples.damaged", path=url, reason=reason)
        if digest.hexdigest() != written.blake2b:
            reason = f"its digest is {digest.hexdigest()}, but its manifest entry has {written.blake2b}"
            raise PipelineError("samples.damaged", path=url, reason=reason)
        yield pa.ipc.open_file(file if copy is None else copy)


def _input_rows(group: DocumentBatch, failed: dict[int, int]) -> pa.RecordBatch:
    """Return the PREPARED rows of a batch of documents; `failed` has the chunk in which packing failed, by position."""
    documents = group.documents
    rejected = [group.rejected.get(place) for place in range(len(documents))]
    of_documents = [
        documents["document_id"],
        documents["source"],
        documents["source_row"],
        documents["text"],
        pa.array(group.n_sentences, pa.int32()),
        pc.utf8_length(documents["text"]).cast(pa.int64()),
        pa.array(np.ones(len(documents), np.int32)),
        pa.array([failed.get(place) for place in range(len(documents))], pa.int32()),
        pa.array([reject and reject.stage for reject in rejected], pa.string()),
        pa.array([reject and reject.code for reject in rejected], pa.string()),
        pa.array([reject and clean(reject.message) for reject in rejected], pa.large_string()),
        pa.array([reject and reject.raw for reject in rejected], pa.large_binary()),
        documents["language"],
        documents["language_from"],
    ]
    others = [
        {
            "document_id": reject.document_id,
            "source": clean(reject.source),
            "source_row": reject.source_row,
            "n_sentences": 0,
            "n_characters": reject.n_characters,
            "n_documents": reject.n_documents,
            "stage": reject.stage,
            "code": reject.code,
            "message": clean(reject.message),
            "raw": reject.raw,
        }
        for reject in group.rejects
    ]
    rows = pa.RecordBatch.from_arrays(of_documents, schema=PREPARED.schema)
    rows = pa.concat_batches([rows, pa.RecordBatch.from_pylist(others, schema=PREPARED.schema)]) if others else rows
    if KEPT in documents.schema.names:
        kept = documents[KEPT]
        rows = rows.append_column(KEPT, pa.concat_arrays([kept, pa.nulls(len(others), kept.type)]))
    return rows


def _group(rows: pa.RecordBatch, language: str) -> tuple[DocumentBatch, dict[int, dict[str, str]]]:
    """Return the documents of PREPARED rows, and the error messages of packing by chunk and document id.

    The rows of version 1 have no languages: theirs is `language`, that of the job.
    """
    if "language" not in rows.schema.names:
        for name, value in (("language", language), ("language_from", "option")):
            rows = rows.append_column(name, pa.array([value] * len(rows), pa.string()))
    documents = rows.filter(pc.is_valid(rows["text"]))
    others = rows.filter(pc.is_null(rows["text"]))
    inputs = pa.RecordBatch.from_arrays([documents[name] for name in INPUTS.names], schema=INPUTS)
    if KEPT in documents.schema.names:
        inputs = inputs.append_column(KEPT, documents[KEPT])
    group = DocumentBatch(
        inputs,
        rejects=[
            Reject(**{name: row[name] for name in _REJECT_FIELDS}) for row in others.select(_REJECT_FIELDS).to_pylist()
        ],
    )
    group.n_sentences += documents["n_sentences"].to_numpy()
    failures: dict[int, dict[str, str]] = {}
    failed = documents.filter(pc.is_valid(documents["failed_run"]))
    for row in failed.select(["failed_run", "document_id", "message"]).to_pylist():
        failures.setdefault(row["failed_run"], {})[row["document_id"]] = row["message"]
    return group, failures
