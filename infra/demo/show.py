"""Print a sample of the rows written by `spanmarker tag`.

python infra/demo/show.py OUTPUT
"""

import sys

import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

N_SHOWN = 12
COLUMNS = ("document_id", "text", "label", "score")


def main(output: str) -> None:
    """Print evenly spaced rows of the whole table.

    Args:
        output: output folder of `spanmarker tag`.
    """
    annotations = ds.dataset(f"{output}/annotations").to_table(columns=list(COLUMNS))
    shown = min(N_SHOWN, annotations.num_rows)
    places = pa.array([number * annotations.num_rows // shown for number in range(shown)], pa.int64())
    rows = annotations.take(places).to_pylist()
    table = Table(title=f"{shown} of {annotations.num_rows:,} rows")
    for name in COLUMNS:  # Ids may be cut. Labels may not, since many begin alike.
        table.add_column(name, no_wrap=name != "text", max_width=18 if name == "document_id" else None)
    for row in rows:
        row["document_id"] = row["document_id"].rsplit("/", 1)[-1]  # The last component identifies the document.
        row["score"] = f"{row['score']:.2f}"
        table.add_row(*(str(row[name]) for name in COLUMNS))
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1])
