"""Tables of Iceberg. Their metadata are in `iceberg/` of the output, with a SQLite catalogue if the output is local.

A catalogue that is called `spanmarker` in pyiceberg's own configuration takes the place of that one.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.utils.concurrent import ExecutorFactory
from sqlalchemy import URL

from pipelines.errors import PipelineError
from pipelines.snapshots.table import (
    SnapshotTable,
    check_store,
    described,
    described_columns,
    library_errors,
    s3_settings,
    shard_of,
)
from pipelines.storage import join, make_folder

#: Name of the catalogue in pyiceberg's configuration, and of the namespace unless the catalogue sets `namespace`.
NAME = "spanmarker"
#: Properties of a table: the folder of its files, and its columns. A table without them is not ours.
_OWNER, _COLUMNS = "spanmarker.files", "spanmarker.columns"
_OPTIONS = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
    "key": "s3.access-key-id",
    "secret": "s3.secret-access-key",
    "token": "s3.session-token",
}


def check(output: str) -> None:
    """Check that an Iceberg table can be in an output: there is a store, and a catalogue.

    Args:
        output: the output folder.

    Raises:
        PipelineError: `snapshot.no_store`, `snapshot.no_catalogue`.
    """
    check_store(output)
    if "://" in output and NAME not in list_catalogs():
        raise PipelineError("snapshot.no_catalogue", path=output, name=NAME)


def open_tables(output: str, names: Iterable[str]) -> dict[str, SnapshotTable]:
    """Return the Iceberg tables of an output; see `pipelines.snapshots.table.Format`.

    Args:
        output: the output folder, whose lock is held.
        names: names of the tables.

    Raises:
        PipelineError: `snapshot.foreign`, `snapshot.not_readable`.
    """
    root = output if "://" in output else f"file://{output}"
    with library_errors("snapshot.not_readable", join(output, "iceberg")):
        if NAME in list_catalogs():
            catalogue = load_catalog(NAME, **{_OPTIONS[key]: value for key, value in s3_settings().items()})
        else:
            make_folder(join(output, "iceberg"))
            uri = URL.create("sqlite", database=join(output, "iceberg", "catalog.db")).render_as_string()
            catalogue = SqlCatalog(NAME, uri=uri, warehouse=join(root, "iceberg"))
    return {name: _Table(catalogue, root, name) for name in names}


class _Table:
    """An Iceberg table; see `pipelines.snapshots.table.SnapshotTable`.

    Args:
        catalogue: the catalogue that has it or will have it.
        root: URL of the output folder.
        name: name of the table.
    """

    def __init__(self, catalogue: Catalog, root: str, name: str) -> None:
        self._catalogue, self._identifier = catalogue, (catalogue.properties.get("namespace", NAME), name)
        self._folder, self._location = join(root, name, ""), join(root, "iceberg", name)
        self._table: PyIcebergTable | None = None
        self._data: dict[str, DataFile] = {}
        self.columns = ""
        with library_errors("snapshot.not_readable", self._location):
            try:
                self._table = table = catalogue.load_table(self._identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                table = None
            if table is not None:
                self._read(table)
        self.files = {shard: file.file_size_in_bytes for shard, file in self._data.items()}

    def _read(self, table: PyIcebergTable) -> None:
        owner = table.properties.get(_OWNER)
        if owner != self._folder:
            reason = f"its files are in {owner}" if owner else "another program created it"
            raise PipelineError("snapshot.foreign", path=".".join(self._identifier), reason=reason)
        self.columns = table.properties.get(_COLUMNS, "")
        snapshot = table.current_snapshot()
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            if manifest.content == ManifestContent.DELETES:
                raise PipelineError("snapshot.foreign", path=self._location, reason="another program deleted rows")
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                self._data[shard_of(entry.data_file.file_path, self._folder, self._location)] = entry.data_file

    def commit(
        self, schema: pa.Schema | None, added: Collection[str], removed: Collection[str], properties: Mapping[str, str]
    ) -> None:
        """Publish one snapshot more, and create the table if there is none."""
        with library_errors("snapshot.not_committed", self._location):
            if self._table is None:
                assert schema is not None
                self._catalogue.create_namespace_if_not_exists(self._identifier[0])
                transaction: Any = self._catalogue.create_table_transaction(
                    self._identifier,
                    described(schema, "doc"),
                    self._location,
                    properties={_OWNER: self._folder, _COLUMNS: described_columns(schema)},
                )
                # The files have no field ids, so readers find the columns by their names.
                names = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
            else:
                transaction = self._table.transaction()
            io, metadata = load_file_io(self._catalogue.properties, self._location), transaction.table_metadata
            files = list(
                ExecutorFactory.get_or_create().map(
                    lambda shard: parquet_file_to_data_file(io, metadata, f"{self._folder}{shard}.parquet"), added
                )
            )
            gone = [self._data[shard] for shard in (*removed, *added) if shard in self._data]
            update = transaction.update_snapshot(snapshot_properties=dict(properties))
            with update.overwrite() if gone else update.merge_append() as snapshot:
                for file in files:
                    snapshot.append_data_file(file)
                for file in gone:
                    snapshot.delete_data_file(file)
            transaction.commit_transaction()
