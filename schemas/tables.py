"""A stored table: a name, a version, and columns that say what they mean."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Table:
    """A named, versioned Arrow schema.

    `schema` carries `spanmarker.table` and `spanmarker.schema_version` in its metadata, and each
    field its `description`, so that a Parquet file explains itself.
    """

    name: str
    version: int
    schema: pa.Schema

    @classmethod
    def define(cls, name: str, version: int, *columns: tuple[str, pa.DataType, str]) -> "Table":
        """Build a table from `(column, type, meaning)`; a column whose meaning begins with "null" is nullable.

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

    def empty(self) -> pa.RecordBatch:
        """Return a batch of no rows."""
        return pa.RecordBatch.from_pylist([], schema=self.schema)
