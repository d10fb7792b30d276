"""The Parquet reader: one sentence per row.

The columns are `document_id`, `sentence_id`, `tokens` and `entities`, a list of {start, end, label} with word ranges
and an exclusive end. A `document_id` may be a number; null `entities` means an empty list. Other columns are ignored.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spanmarker_core.data.jsonl import SENTENCE_KEYS, sentence_of
from spanmarker_core.data.records import DocumentOrder, RecordProblem, Sentence, check_entities
from spanmarker_core.errors import CoreError

_BATCH_ROWS = 256


def read_parquet(path: str | Path) -> Iterator[Sentence]:
    """Read a Parquet file row by row.

    Args:
        path: the file.

    Raises:
        CoreError: `data.bad_dataset` if it is not a Parquet file or lacks a column, `data.bad_row` at the first invalid
            row.
    """
    row, order = 0, DocumentOrder()
    try:
        with pq.ParquetFile(path) as file:
            if missing := [name for name in SENTENCE_KEYS if name not in file.schema_arrow.names]:
                raise CoreError("data.bad_dataset", path=path, problem=f"it has no {', '.join(missing)}")
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(SENTENCE_KEYS)):
                for values in batch.to_pylist():
                    values["entities"] = values["entities"] or []
                    if type(values["document_id"]) is int:
                        values["document_id"] = str(values["document_id"])
                    yield check_entities(sentence_of(values, order))
                    row += 1
    except RecordProblem as error:
        raise CoreError("data.bad_row", path=path, row=row, problem=str(error)) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise CoreError("data.bad_dataset", path=path, problem=f"cannot read it ({error})") from error
