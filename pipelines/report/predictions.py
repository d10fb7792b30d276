"""The predictions file of an evaluation: one row per sentence, written as a stream and validated like input data."""

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

#: Maximum numbers of sentences and characters per row group.
_ROWS, _CHARACTERS = 4096, 4_000_000


def is_predictions(file: IO[bytes]) -> bool:
    """Return whether a file contains predictions written by `writing_predictions`.

    Args:
        file: a file, opened for reading.
    """
    try:
        metadata = pq.read_schema(file).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return metadata.get(b"spanmarker.table") == EVALUATED.name.encode()


class PredictionsWriter:
    """Writer of rows of `EVALUATED`; it holds one row group in memory.

    Args:
        url: URL of the file, for errors.
        writer: Parquet writer of the file.
    """

    def __init__(self, url: str, writer: pq.ParquetWriter) -> None:
        self._url = url
        self._writer = writer
        self._rows: list[dict[str, Any]] = []
        self._characters = 0

    def add(self, sentence: Sentence, predictions: Mapping[Span, float]) -> None:
        """Add a sentence with its gold entities and predictions.

        Args:
            sentence: the annotated sentence.
            predictions: score by predicted span.
        """
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
        """Write the rows added since the last call as a row group."""
        if self._rows:
            with writing(self._url):
                self._writer.write_table(pa.Table.from_pylist(self._rows, schema=EVALUATED.schema))
            self._rows, self._characters = [], 0


@contextlib.contextmanager
def writing_predictions(folder: str) -> Iterator[PredictionsWriter]:
    """Write the predictions of a report. The file is published only if the block succeeds.

    Args:
        folder: a path or URL.

    Raises:
        PipelineError: `output.not_writable`.
    """
    url = join(folder, PREDICTIONS)
    with publish(url) as file, pq.ParquetWriter(file, EVALUATED.schema, compression="zstd") as parquet:
        writer = PredictionsWriter(url, parquet)
        yield writer
        writer.flush()


def read_predictions(folder: str) -> Iterator[tuple[Sentence, dict[Span, float]]]:
    """Yield each sentence of a report with its predictions and their scores, reading one row group at a time.

    Args:
        folder: a path or URL.

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
            reason = f"cannot use {PREDICTIONS}: {error}"
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
