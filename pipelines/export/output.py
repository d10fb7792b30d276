"""The output to export: its shards, and the labels and documents in them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import table_path, tables_of
from pipelines.output.manifest import find_done, plan_path, planned, read_entries
from pipelines.output.plan_file import plan_identity
from pipelines.planning.kept import kept_of_identity
from pipelines.storage import absolute, exists, open_input
from pipelines.task import Columns
from schemas import ANNOTATIONS, DOCUMENTS, Table
from schemas.shards import Shard

#: Labels shown in a message, and rows read at once.
_SHOWN, _BATCH_ROWS = 50, 1024


@dataclass(frozen=True, slots=True)
class TaggedOutput:
    """A finished output of `spanmarker tag`.

    Attributes:
        folder: its path or URL.
        identity: identity of its job.
        labels: number of entities by label, in the planned shards.
        unplanned: number of finished shards that the last run did not name, and so their places in their sources are
            unknown.
        unplanned_documents: number of their documents.
    """

    folder: str
    identity: dict[str, str]
    labels: Counter[str]
    unplanned: int
    unplanned_documents: int

    def shards(self) -> Iterator[Shard]:
        """Yield the shards in the order of the plan."""
        return planned(self.folder)

    def rows(self, table: Table, shard: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a shard.

        Args:
            table: the table.
            shard: name of the shard.
            columns: the columns to read.

        Raises:
            PipelineError: `output.not_readable`.
        """
        path = table_path(self.folder, table.name, shard)
        try:
            with open_input(path) as file:
                yield from pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise PipelineError("output.not_readable", path=path, reason=error) from error

    def schema(self, shard: str) -> pa.Schema:
        """Return the schema of the documents of a shard, with its metadata.

        Args:
            shard: name of the shard.

        Raises:
            PipelineError: `output.not_readable`.
        """
        path = table_path(self.folder, DOCUMENTS.name, shard)
        try:
            with open_input(path) as file:
                return pq.read_schema(file)
        except (pa.ArrowException, OSError) as error:
            raise PipelineError("output.not_readable", path=path, reason=error) from error

    def columns(self, schema: pa.Schema) -> Columns:
        """Return the columns of the inputs that the run read.

        Kept columns are among them: a value that could not be kept has rejected its document.

        Args:
            schema: schema of the documents of a shard.
        """
        return kept_of_identity(Columns.of_identity(self.identity), self.identity, schema)

    def labels_in(self, given: Iterable[str]) -> frozenset[str]:
        """Return the labels that a user names.

        Args:
            given: labels that occur in the output, and lists of such labels with commas between them.

        Raises:
            PipelineError: `export.unknown_label`.
        """
        labels: set[str] = set()
        for value in given:
            labels.update([value] if value in self.labels else (part.strip() for part in value.split(",")))
        unknown = sorted(labels - self.labels.keys())
        if unknown:
            shown = ", ".join(label for label, _ in self.labels.most_common(_SHOWN)) or "none"
            raise PipelineError("export.unknown_label", labels=", ".join(unknown), path=self.folder, known=shown)
        return frozenset(labels)

    def shards_with(self, documents: Collection[str]) -> Counter[str]:
        """Return the number of some documents in each shard that has any of them, by the name of the shard.

        Args:
            documents: ids of the documents.

        Raises:
            PipelineError: `export.unknown_document`, `output.not_readable`.
        """
        given, found, counts = pa.array(sorted(documents), pa.large_string()), set[str](), Counter[str]()
        for shard in self.shards():
            for rows in self.rows(DOCUMENTS, shard.name, ["document_id"]):
                ids = rows["document_id"].filter(pc.is_in(rows["document_id"], value_set=given)).to_pylist()
                if ids:
                    counts[shard.name] += len(ids)
                    found.update(ids)
        missing = sorted(set(documents) - found)
        if missing:
            raise PipelineError(
                "export.unknown_document", count=len(missing), path=self.folder, example=missing[0][:100]
            )
        return counts


def open_output(output: str) -> TaggedOutput:
    """Return an output whose planned shards are all finished.

    Args:
        output: path or URL of the output folder.

    Raises:
        PipelineError: `output.not_a_job`, `export.not_tagged`, `export.not_finished`; errors in reading the manifest.
    """
    folder = absolute(output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    identity = plan_identity(plan_path(folder))
    if ANNOTATIONS not in tables_of(identity):
        raise PipelineError("export.not_tagged", path=folder)
    plan, done = DigestSet.of(shard.name for shard in planned(folder)), find_done(folder).done
    if left := len(plan - done):
        raise PipelineError("export.not_finished", path=folder, left=left, total=len(plan))
    labels: Counter[str] = Counter()
    for entry in read_entries(folder, plan):
        labels.update(entry.labels)
    others = done - plan
    documents = sum(entry.counts["documents"] for entry in read_entries(folder, others)) if len(others) else 0
    return TaggedOutput(folder, identity, labels, len(others), documents)
