"""Stored tables: a name, a version and columns with descriptions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa


@dataclass(frozen=True)
class Table:
    """A named, versioned Arrow schema.

    The metadata of `schema` contain `spanmarker.table` and `spanmarker.schema_version`, and those of each field its
    `description`, so that a Parquet file documents itself.

    Attributes:
        name: name of the table.
        version: version of the table; any change of a column increments it.
        schema: the Arrow schema.
    """

    name: str
    version: int
    schema: pa.Schema

    @classmethod
    def define(cls, name: str, version: int, *columns: tuple[str, pa.DataType, str]) -> "Table":
        """Build a table from its columns.

        Args:
            name: name of the table.
            version: version of the table.
            columns: (column, type, meaning); a column is nullable if its meaning begins with "null".

        >>> table = Table.define("points", 1, ("x", pa.int32(), "metres east"))
        >>> table.schema.field("x").nullable
        False
        """
        fields = [
            pa.field(column, kind, nullable=meaning.startswith("null"), metadata={"description": meaning})
            for column, kind, meaning in columns
        ]
        metadata = {"spanmarker.table": name, "spanmarker.schema_version": str(version)}
        return cls(name, version, pa.schema(fields, metadata=metadata))

    def extended(self, columns: Iterable[pa.Field]) -> "Table":
        """Return the table with further columns, which do not change its version.

        Args:
            columns: columns kept from the input of a job.
        """
        return replace(self, schema=pa.schema([*self.schema, *columns], metadata=self.schema.metadata))

    def empty(self) -> pa.RecordBatch:
        """Return a batch without rows."""
        return pa.RecordBatch.from_pylist([], schema=self.schema)
