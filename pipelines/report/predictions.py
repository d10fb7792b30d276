"""The predictions beside an evaluation: a row a sentence, written as they come and read as strictly as data."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import PipelineError
from pipelines.storage import exists, join, open_input, publish, writing
from schemas import EVALUATED
from spanmarker_core.data.records import RecordProblem, Sentence, Span, check_span, check_words

PREDICTIONS = "predictions.parquet"

#: A row group ends after so many sentences or characters.
_ROWS, _CHARACTERS = 4096, 4_000_000


def is_predictions(file: IO[bytes]) -> bool:
    """Tell whether a file holds predictions that `writing_predictions` wrote."""
    try:
        metadata = pq.read_schema(file).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return metadata.get(b"spanmarker.table") == EVALUATED.name.encode()


class PredictionsWriter:
    """Writes rows of `EVALUATED`; memory is that of a row group."""

    def __init__(self, url: str, writer: pq.ParquetWriter) -> None:
        self._url = url
        self._writer = writer
        self._rows: list[dict[str, Any]] = []
        self._characters = 0

    def add(self, sentence: Sentence, predictions: Mapping[Span, float]) -> None:
        """Add a sentence with its gold entities and its predictions."""
        self._rows.append(
            {
                "document_id": sentence.document_id,
                "sentence_id": sentence.sentence_id,
                "words": sentence.words,
                "gold": [_entity(span) for span in sorted(set(sentence.entities))],
                "predicted": [{**_entity(span), "score": score} for span, score in sorted(predictions.items())],
            }
        )
        self._characters += sum(map(len, sentence.words))
        if len(self._rows) >= _ROWS or self._characters >= _CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Write a row group of what was added since the last one."""
        if self._rows:
            with writing(self._url):
                self._writer.write_table(pa.Table.from_pylist(self._rows, schema=EVALUATED.schema))
            self._rows, self._characters = [], 0


@contextlib.contextmanager
def writing_predictions(folder: str) -> Iterator[PredictionsWriter]:
    """Write the predictions of a report, which appear when the block ends well, or not at all.

    Raises:
        PipelineError: `output.not_writable`.
    """
    url = join(folder, PREDICTIONS)
    with publish(url) as file, pq.ParquetWriter(file, EVALUATED.schema, compression="zstd") as parquet:
        writer = PredictionsWriter(url, parquet)
        yield writer
        writer.flush()


def read_predictions(folder: str) -> Iterator[tuple[Sentence, dict[Span, float]]]:
    """Yield each sentence of a report with its predictions and their scores; a row group is held at once.

    Raises:
        PipelineError: `report.not_readable`.
    """
    url = join(folder, PREDICTIONS)
    if not exists(url):
        raise PipelineError("report.not_readable", path=folder, problem=f"it has no {PREDICTIONS}")
    with open_input(url) as file:
        try:
            parquet = pq.ParquetFile(file)
            if not parquet.schema_arrow.equals(EVALUATED.schema):
                raise ValueError(f"its columns are not those of version {EVALUATED.version}")
            for number in range(parquet.num_row_groups):
                for row in parquet.read_row_group(number).to_pylist():
                    yield _checked(row)
        except (pa.ArrowException, ValueError, RecordProblem) as error:
            reason = f"{PREDICTIONS} can't be used: {error}"
            raise PipelineError("report.not_readable", path=folder, problem=reason) from error


def _entity(span: Span) -> dict[str, Any]:
    return {"start": span.start, "end": span.end, "label": span.label}


def _checked(row: dict[str, Any]) -> tuple[Sentence, dict[Span, float]]:
    words = check_words(row["words"])
    gold = [check_span(each["start"], each["end"], each["label"], len(words)) for each in row["gold"]]
    predicted = {
        check_span(each["start"], each["end"], each["label"], len(words)): each["score"] for each in row["predicted"]
    }
    return Sentence(row["document_id"], row["sentence_id"], words, gold), predicted
