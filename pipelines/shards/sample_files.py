"""The files of a prepared shard: steps of windows in, and the same steps out again, with another program between.

samples/SHARD.arrow    SAMPLES, a record batch a run
inputs/SHARD.arrow     PREPARED, a record batch a group: see `schemas.prepared`
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.output.layout import SAMPLE_TABLES, table_path
from pipelines.output.manifest import committed_entry
from pipelines.planning.documents import renamed
from pipelines.shards.document_batch import DocumentBatch, PackedBatch
from pipelines.shards.stats import ShardStats
from pipelines.stages.read import INPUTS, Reject, clean
from pipelines.stages.write import named, output_of
from pipelines.storage import open_input, publish, read_range, resolve, writing
from pipelines.storage.urls import is_local
from pipelines.task import TagTask
from schemas import PREPARED, SAMPLES, Table
from schemas.manifest import Output
from schemas.shards import Shard

_GROUP, _LAST = b"spanmarker.group", b"spanmarker.last"
_REJECT_FIELDS = [field.name for field in fields(Reject)]


class ArrowFile:
    """An Arrow IPC file; use `arrow_file`."""

    def __init__(self, url: str, file: IO[bytes], table: Table, footer: dict[str, str]) -> None:
        self._url, self._file = url, file
        schema = table.schema.with_metadata({**table.schema.metadata, **named(footer)})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with writing(url):
            self._writer = pa.ipc.new_file(file, schema, options=options)
        self.rows = 0

    def write(self, batch: pa.RecordBatch, metadata: dict[bytes, bytes] | None = None) -> None:
        """Add a record batch, perhaps with metadata of its own."""
        with writing(self._url):
            self._writer.write_batch(batch, custom_metadata=metadata)
        self.rows += len(batch)

    def finish(self) -> Output:
        """Write the footer and return what the file holds."""
        with writing(self._url):
            self._writer.close()
            self._file.flush()
        return output_of(self._file.name, self.rows)


@contextlib.contextmanager
def arrow_file(url: str, table: Table, footer: dict[str, str]) -> Iterator[ArrowFile]:
    """Open an Arrow IPC file that appears at `url` when the block ends well; call `finish` before it does."""
    with publish(url) as file:
        yield ArrowFile(url, file, table, footer)


class SampleWriter:
    """Writes the steps of a shard; use `sample_writer`."""

    def __init__(self, samples: ArrowFile, inputs: ArrowFile) -> None:
        self._samples, self._inputs = samples, inputs
        self._group = self._run = 0
        self._failed: dict[int, int] = {}  # place -> the run that lacks windows of it

    def write(self, step: PackedBatch) -> None:
        """Write a step that has arrived (see `PackedBatch.arrive`)."""
        for place in step.group.rejected:
            self._failed.setdefault(place, self._run)
        mark = {_GROUP: str(self._group).encode(), _LAST: str(int(step.last)).encode()}
        self._samples.write(step.samples, mark)
        self._run += 1
        if step.last:
            self._inputs.write(_input_rows(step.group, self._failed))
            self._group, self._run, self._failed = self._group + 1, 0, {}

    def finish(self) -> dict[str, Output]:
        """Complete the files and return what they hold."""
        return {SAMPLES.name: self._samples.finish(), PREPARED.name: self._inputs.finish()}


@contextlib.contextmanager
def sample_writer(output: str, shard: str, footer: dict[str, str]) -> Iterator[SampleWriter]:
    """Open the files of a shard, which appear when the block ends well; call `finish` before it does."""
    with contextlib.ExitStack() as stack:
        files = []
        for table in SAMPLE_TABLES:
            url = table_path(output, table.name, shard)
            files.append(stack.enter_context(arrow_file(url, table, footer)))
        yield SampleWriter(*files)


def steps(shard: Shard, task: TagTask, tally: ShardStats) -> Iterator[PackedBatch]:
    """Yield the steps of a shard that was prepared, one run in memory at a time.

    They are those that were written, whatever has become of the documents' files meanwhile.

    Args:
        shard: as the tagging job names it.
        task: says where the samples are.
        tally: counts what was read, and the time it took.

    Raises:
        PipelineError: `samples.damaged`, before the first step.
        OSError: the storage failed.
    """
    name = renamed(shard, task.samples_job).name
    urls = {table.name: table_path(task.samples, table.name, name) for table in SAMPLE_TABLES}
    entry = committed_entry(task.samples, name)
    if entry is None:
        raise PipelineError("samples.damaged", path=urls[SAMPLES.name], reason="its entry in the manifest is gone")
    with contextlib.ExitStack() as stack:
        with tally.timed("read"):
            samples, inputs = (stack.enter_context(_opened(urls[table], entry.outputs[table])) for table in urls)
        run = number = 0
        for index in range(samples.num_record_batches):
            with tally.timed("read"):
                batch, metadata = samples.get_batch_with_custom_metadata(index)
                if run == 0:
                    group, failures = _group(inputs.get_batch(number))
                    tally.counts["read"] += len(group.documents) + sum(reject.n_documents for reject in group.rejects)
            last = metadata[_LAST] == b"1"
            yield PackedBatch(group, batch, failures.get(run, {}), last)
            run, number = (0, number + 1) if last else (run + 1, number)


@contextlib.contextmanager
def _opened(url: str, written: Output) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Open a file of record batches after a look at all of it; one in a store is brought here for that."""
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
            reason = f"it has not the {written.n_bytes:,} bytes that its manifest entry says"
            raise PipelineError("samples.damaged", path=url, reason=reason)
        if digest.hexdigest() != written.blake2b:
            reason = f"its digest is {digest.hexdigest()}, and its manifest entry says {written.blake2b}"
            raise PipelineError("samples.damaged", path=url, reason=reason)
        yield pa.ipc.open_file(file if copy is None else copy)


def _input_rows(group: DocumentBatch, failed: dict[int, int]) -> pa.RecordBatch:
    """Return the PREPARED rows of a group; `failed` is the run in which packing failed, by place."""
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
    return pa.concat_batches([rows, pa.RecordBatch.from_pylist(others, schema=PREPARED.schema)]) if others else rows


def _group(rows: pa.RecordBatch) -> tuple[DocumentBatch, dict[int, dict[str, str]]]:
    """Return the group that PREPARED rows hold, and what failed in which of its runs, as in `PackedBatch.failures`."""
    documents = rows.filter(pc.is_valid(rows["text"]))
    others = rows.filter(pc.is_null(rows["text"]))
    group = DocumentBatch(
        pa.RecordBatch.from_arrays([documents[name] for name in INPUTS.names], schema=INPUTS),
        [Reject(**{name: row[name] for name in _REJECT_FIELDS}) for row in others.to_pylist()],
    )
    group.n_sentences += documents["n_sentences"].to_numpy()
    failures: dict[int, dict[str, str]] = {}
    for row in documents.filter(pc.is_valid(documents["failed_run"])).drop_columns(["text", "raw"]).to_pylist():
        failures.setdefault(row["failed_run"], {})[row["document_id"]] = row["message"]
    return group, failures
