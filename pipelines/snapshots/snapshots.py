"""The snapshots of an output: each run that changed rows publishes one for each table, after its last shard.

Until then the current snapshots name files that the run would remove, and readers use them: such files are held back,
and removed when no current snapshot names them any more.
"""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import PipelineError
from pipelines.output.digest_set import DigestSet
from pipelines.output.layout import tag_tables
from pipelines.output.manifest import entry_rows, identity_digest
from pipelines.snapshots.columns import unfit_columns
from pipelines.snapshots.table import Format, SnapshotTable, described_columns
from pipelines.storage import exists, join
from schemas import ANNOTATIONS, DOCUMENTS

TableFormat = Literal["delta", "iceberg"]
_LIBRARIES: dict[TableFormat, str] = {"delta": "deltalake", "iceberg": "pyiceberg"}
#: Names of the tables in the order of their commits. Annotations are last: all that they refer to is there by then.
_ORDER = sorted((table.name for table in tag_tables("offsets")), key=lambda name: name == ANNOTATIONS.name)
#: A folder that an output with tables of a format has, and the folders that hold the metadata of these tables.
_SIGNS: dict[TableFormat, tuple[str, str]] = {
    "delta": (f"{DOCUMENTS.name}/_delta_log", "the folders _delta_log"),
    "iceberg": (f"iceberg/{DOCUMENTS.name}", "in the catalogue, and the folder iceberg"),
}


def refuse_other_formats(output: str, format_name: TableFormat | None) -> None:
    """Refuse an output with tables that a run would not commit to: they would name files that it removes.

    Args:
        output: the output folder.
        format_name: the format to which the run commits, if any.

    Raises:
        PipelineError: `snapshot.commit_needed`.
    """
    for other, (sign, folder) in _SIGNS.items():
        if other != format_name and exists(join(output, sign)):
            raise PipelineError("snapshot.commit_needed", path=output, format=other, folder=folder)


class Snapshots:
    """The tables of an output in one format.

    Args:
        output: the output folder.
        format_name: the format.
        schemas: columns of the tables that the job writes, by name.
        identity: identity of the job.

    Raises:
        PipelineError: `snapshot.no_library`, `snapshot.no_store`, `snapshot.no_catalogue`, `snapshot.bad_columns`.
    """

    def __init__(
        self, output: str, format_name: TableFormat, schemas: Mapping[str, pa.Schema], identity: dict[str, str]
    ) -> None:
        self._output, self._format_name, self._schemas, self._identity = output, format_name, schemas, identity
        self._format = _format(format_name)
        self._format.check(output)
        self._tables: dict[str, SnapshotTable] = {}
        unfit = [line for schema in schemas.values() for line in unfit_columns(schema, format_name)]
        if unfit:
            lines = "\n".join(dict.fromkeys(unfit))
            raise PipelineError("snapshot.bad_columns", format=format_name, columns=lines)

    def open(self) -> DigestSet:
        """Read the current snapshots, and return the shards whose files they name. The caller holds the lock.

        Raises:
            PipelineError: `snapshot.foreign`, `snapshot.not_readable`, `snapshot.other_columns`.
        """
        self._tables = self._format.open_tables(self._output, _ORDER)
        for name, schema in self._schemas.items():
            there, here = self._tables[name].columns, described_columns(schema)
            if there and there != here:
                raise PipelineError("snapshot.other_columns", table=name, path=self._output, there=there, here=here)
        return DigestSet.of(shard for table in self._tables.values() for shard in table.files)

    def drop(self, shards: DigestSet) -> None:
        """Publish snapshots without some files, which are lost or will be replaced by others of the same names.

        Args:
            shards: the shards of these files.

        Raises:
            PipelineError: `snapshot.not_committed`.
        """
        for name, table in self._tables.items():
            if removed := list(shards.among(table.files)):
                self._commit(name, [], removed, list(shards.missing(table.files)))
        self.open()

    def publish(self, before_each: Callable[[], None] = lambda: None) -> str:
        """Publish snapshots that name the files of all finished shards, and return a summary in one line.

        A table whose current snapshot names exactly these gets none.

        Args:
            before_each: called before each commit, to check that the lock is still held.

        Raises:
            PipelineError: `snapshot.not_committed`, `output.not_readable`, `output.table_damaged`.
        """
        finished = self._finished()
        done = []
        for name, table in self._tables.items():
            files = finished.get(name, {})
            added = [shard for shard, n_bytes in files.items() if table.files.get(shard) != n_bytes]
            removed = [shard for shard in table.files if shard not in files]
            if added or removed:
                before_each()
                self._commit(name, added, removed, files)
                done.append(f"{name} +{len(added):,} -{len(removed):,}")
        changes = f"new snapshots, in files: {', '.join(done)}" if done else "no new snapshot, nothing has changed"
        return f"{self._format_name.capitalize()}: {changes}"

    def _commit(self, name: str, added: Collection[str], removed: Collection[str], shards: Collection[str]) -> None:
        """Publish a snapshot of a table that names the files of some shards, given its differences to the last one."""
        properties = {
            "spanmarker.job": identity_digest(self._identity),
            "spanmarker.model": self._identity["model"],
            "spanmarker.shards": str(len(shards)),
            "spanmarker.state": DigestSet.of(shards).digest,
        }
        self._tables[name].commit(self._schemas.get(name), added, removed, properties)

    def _finished(self) -> dict[str, dict[str, int]]:
        """Return the size of each file of the finished shards, by table and shard."""
        found: dict[str, dict[str, int]] = {}
        for rows in entry_rows(self._output, ["shard", "outputs"]):
            outputs = rows["outputs"]
            offsets = outputs.offsets.to_numpy()
            shards = rows["shard"].take(pa.array(np.repeat(np.arange(len(rows)), np.diff(offsets))))
            names, sizes = (part.slice(offsets[0], len(shards)) for part in (outputs.keys, outputs.items))
            for name in names.unique().to_pylist():
                here = pc.equal(names, name)
                pairs = zip(shards.filter(here).to_pylist(), sizes.filter(here).to_pylist(), strict=True)
                found.setdefault(name, {}).update(pairs)
        return found


def _format(format_name: TableFormat) -> Format:
    try:
        return cast(Format, import_module(f"pipelines.snapshots.{format_name}"))
    except ImportError as error:
        library = _LIBRARIES[format_name]
        raise PipelineError("snapshot.no_library", library=library, format=format_name, reason=error) from error
