"""Tables of an output, read batch by batch."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.storage import is_storage_error, open_input


def table_batches(path: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file of an output.

    Args:
        path: path or URL of the file.
        columns: names of the columns to read.

    Raises:
        PipelineError: `output.not_readable`, `output.damaged`.
    """
    try:
        with open_input(path) as file:
            yield from pq.ParquetFile(file).iter_batches(columns=columns)
    except (pa.ArrowException, OSError) as error:
        code = "output.not_readable" if is_storage_error(error) else "output.damaged"
        raise PipelineError(code, path=path, reason=error) from error
