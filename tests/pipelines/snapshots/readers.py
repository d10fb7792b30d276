"""Tables as their own libraries read them."""

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, IsNull

FORMATS = ["delta", "iceberg"]


def catalogue(output) -> Catalog:
    return SqlCatalog("spanmarker", uri=f"sqlite:///{output}/iceberg/catalog.db", warehouse=f"file://{output}/iceberg")


class Delta:
    def __init__(self, output, name):
        self.table = DeltaTable(str(output / name))

    def rows(self) -> pa.Table:
        return self.table.to_pyarrow_table()

    def matching(self, column: str, value) -> pa.Table:
        """The rows with a value, read without the files whose statistics rule it out."""
        field = pc.field(column)
        return self.table.to_pyarrow_dataset().to_table(filter=field.is_null() if value is None else field == value)

    def versions(self) -> list[dict]:
        """Properties of all snapshots, newest first."""
        return self.table.history()

    def files(self) -> set[str]:
        return {uri.rpartition("/")[2] for uri in self.table.file_uris()}

    def bounds(self, column: str) -> list[tuple]:
        """Null count, smallest and largest value of a column in each file, sorted."""
        found = pa.table(self.table.get_add_actions(flatten=True)).to_pylist()
        return sorted(tuple(file[f"{key}.{column}"] for key in ("null_count", "min", "max")) for file in found)


class Iceberg:
    def __init__(self, output, name):
        self.table = catalogue(output).load_table(("spanmarker", name))

    def rows(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def matching(self, column: str, value) -> pa.Table:
        if isinstance(value, date):  # or a datetime
            value = value.isoformat()
        return self.table.scan(IsNull(column) if value is None else EqualTo(column, value)).to_arrow()

    def versions(self) -> list[dict]:
        return [snapshot.summary.additional_properties for snapshot in reversed(self.table.snapshots())]

    def files(self) -> set[str]:
        # Not `scan().plan_files()`, which leaves out files without rows.
        return {path.rpartition("/")[2] for path in self.table.inspect.files()["file_path"].to_pylist()}

    def bounds(self, column: str) -> list[tuple]:
        metrics = self.table.inspect.files()["readable_metrics"].to_pylist()
        return sorted(
            tuple(file[column][key] for key in ("null_value_count", "lower_bound", "upper_bound")) for file in metrics
        )


def table(format_name: str, output, name: str) -> Delta | Iceberg:
    return {"delta": Delta, "iceberg": Iceberg}[format_name](output, name)
