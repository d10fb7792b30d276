"""Print a sample of the rows that `spanmarker tag` wrote.

python infra/demo/show.py OUTPUT
"""

import sys

import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

TAG_TABLES = 12
COLUMNS = ("document_id", "char_start", "char_end", "label", "score", "text")


def main(output: str) -> None:
    """Print rows from all over the table, evenly spaced."""
    annotations = ds.dataset(f"{output}/annotations").to_table(columns=list(COLUMNS))
    shown = min(TAG_TABLES, annotations.num_rows)
    places = pa.array([number * annotations.num_rows // shown for number in range(shown)], pa.int64())
    table = Table(*COLUMNS, title=f"{shown} of {annotations.num_rows:,} rows")
    for row in annotations.take(places).to_pylist():
        row["document_id"] = row["document_id"].rsplit("/", 1)[-1]  # The last part tells which it is.
        row["score"] = f"{row['score']:.2f}"
        table.add_row(*(str(row[name]) for name in COLUMNS))
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1])
