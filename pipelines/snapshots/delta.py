"""Tables of Delta Lake: the log is in `_delta_log`, beside the files, which it names relative to their folder."""

import json
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

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
from pipelines.storage import join, open_input, size_of

_READERS = 16  # footers read in parallel
_LONGEST = 64  # characters of a text in the statistics
_LAST = "\U0010ffff"  # comes after any other character
_OPTIONS = {
    "endpoint": "aws_endpoint_url",
    "region": "aws_region",
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
}


check = check_store


def open_tables(output: str, names: Iterable[str]) -> dict[str, SnapshotTable]:
    """Return the Delta tables of an output; see `pipelines.snapshots.table.Format`.

    Args:
        output: the output folder, whose lock is held.
        names: names of the tables.

    Raises:
        PipelineError: `snapshot.foreign`, `snapshot.not_readable`.
    """
    options = None
    if "://" in output:
        options = {_OPTIONS[key]: value for key, value in s3_settings().items()}
        if options.get("aws_endpoint_url", "").startswith("http:"):
            options["aws_allow_http"] = "true"
    return {name: _Table(join(output, name), name, options) for name in names}


class _Table:
    """A Delta table; see `pipelines.snapshots.table.SnapshotTable`.

    Args:
        folder: folder of the table.
        name: its name.
        options: how its store is reached; None if it is local.
    """

    def __init__(self, folder: str, name: str, options: dict[str, str] | None) -> None:
        self._folder, self._name, self._options = folder, name, options
        self._table: DeltaTable | None = None
        self.columns = ""
        self.files: dict[str, int] = {}
        with library_errors("snapshot.not_readable", folder):
            if not DeltaTable.is_deltatable(folder, options):
                return
            self._table = DeltaTable(folder, storage_options=options)
            if self._table.metadata().name != _name(name):
                raise PipelineError("snapshot.foreign", path=folder, reason="another program created it")
            if "deletionVectors" in (self._table.protocol().reader_features or ()):
                raise PipelineError("snapshot.foreign", path=folder, reason="another program may delete rows from it")
            self.columns = self._table.metadata().description
            actions = pa.table(self._table.get_add_actions())
            paths, sizes = (actions[column].to_pylist() for column in ("path", "size_bytes"))
        shards = (shard_of(path, "", folder) for path in paths)
        self.files = dict(zip(shards, sizes, strict=True))

    def commit(
        self, schema: pa.Schema | None, added: Collection[str], removed: Collection[str], properties: Mapping[str, str]
    ) -> None:
        """Publish one version more, and create the table if there is none."""
        now = int(time.time() * 1000)
        with library_errors("snapshot.not_committed", self._folder):
            with ThreadPoolExecutor(_READERS if self._options is not None else 1) as pool:
                adds = list(pool.map(lambda shard: self._added(shard, now), added))
            what = CommitProperties(custom_metadata=dict(properties))
            if self._table is None:
                assert schema is not None
                create_table_with_add_actions(
                    self._folder,
                    Schema.from_arrow(described(schema, "comment")),
                    adds,
                    name=_name(self._name),
                    description=described_columns(schema),
                    storage_options=self._options,
                    commit_properties=what,
                )
                return
            # Adding a path again replaces its entry in the log; the same commit must not remove it as well.
            removes = [RemoveAction(f"{shard}.parquet", True, now, self.files[shard], {}) for shard in removed]
            self._table.create_write_transaction(
                [*adds, *removes], "append", self._table.schema(), commit_properties=what
            )

    def _added(self, shard: str, now: int) -> AddAction:
        path = f"{self._folder}/{shard}.parquet"
        with open_input(path) as file:
            statistics = _statistics(pq.ParquetFile(file))
        size = size_of(path)
        assert size is not None
        return AddAction(f"{shard}.parquet", size, {}, now, True, json.dumps(statistics))


def _name(table: str) -> str:
    """Return the name of our table in its metadata, which allow no properties but Delta's own."""
    return f"spanmarker.{table}"


def _statistics(parquet: pq.ParquetFile) -> dict[str, Any]:
    """Return the statistics of a file in Delta's form, of the columns that are not nested.

    Bounds are those of all columns that can have them, or of none: if there is one without, deltalake's reader takes
    its bounds for null, and a filter on that column loses the rows of the file.
    """
    metadata = parquet.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    nulls: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any] | None] = {}
    for field in parquet.schema_arrow if groups else ():
        if field.name not in places:
            continue
        parts = [group.column(places[field.name]).statistics for group in groups]
        if all(part is not None and part.has_null_count for part in parts):
            nulls[field.name] = sum(part.null_count for part in parts)
        if nulls.get(field.name) != metadata.num_rows and not _is_binary(field.type):
            bounds[field.name] = _bounds(field, parts)
    found: dict[str, Any] = {"numRecords": metadata.num_rows, "nullCount": nulls}
    known = {name: each for name, each in bounds.items() if each is not None}
    if known and len(known) == len(bounds):
        found["minValues"] = {name: low for name, (low, _) in known.items()}
        found["maxValues"] = {name: high for name, (_, high) in known.items()}
    return found


def _bounds(field: pa.Field, parts: list[Any]) -> tuple[Any, Any] | None:
    """Return a lower and an upper bound of a column's values; None if there are none that Delta can have.

    `parts` holds the statistics of each row group.
    """
    filled = [part for part in parts if part is None or part.num_values]
    if not all(part is not None and part.has_min_max for part in filled):
        return None
    kind = field.type
    low, high = min(part.min for part in filled), max(part.max for part in filled)
    if isinstance(low, str):
        return low[:_LONGEST], high if len(high) <= _LONGEST else high[:_LONGEST] + _LAST
    if kinds.is_floating(kind) and field.nullable:
        # Parquet's statistics leave out NaN, which a kept column may hold, and which is the largest value to Spark.
        return low, float(np.finfo(kind.to_pandas_dtype()).max)
    if kinds.is_decimal(kind):
        exact = kind.precision <= sys.float_info.dig and all("e" not in repr(float(each)) for each in (low, high))
        return (float(low), float(high)) if exact else None
    if kinds.is_timestamp(kind):
        low, high = (each.isoformat(timespec="microseconds").replace("+00:00", "Z") for each in (low, high))
        return low, high
    return (low.isoformat(), high.isoformat()) if kinds.is_date32(kind) else (low, high)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind))
