"""For those who have a Beam pipeline already: split, pack and tag as transforms, the model as a handler.

Files are better tagged by `spanmarker tag --engine beam`, which resumes, and writes each row once. Here documents
come out of a pipeline and go on in it:

>>> from apache_beam.options.pipeline_options import PipelineOptions
>>> with beam.Pipeline("FnApiRunner", PipelineOptions([])) as pipeline:
...     tagged = (
...         pipeline
...         | beam.Create([("a", "Barack Obama was in Paris.")])
...         | SplitSentences("en")
...         | PackSamples()
...         | TagSamples()
...     )
...     rows = tagged | beam.FlatMap(lambda document: document["annotations"])
...     _ = rows | beam.Map(lambda row: print(row["document_id"], row["char_start"], row["char_end"], row["text"]))
a 0 12 Barack Obama
a 20 25 Paris

or, in one step, `documents | RunInference(SpanMarkerModelHandler())`.

Elements: a document is `(document_id, text)`, two strings. Its sentences are `(document_id, RecordBatch)` with the
rows of SENTENCES, its samples the same with those of SAMPLES (`schemas`), and what comes of it is a dict, `Tagged`.
One that fails goes on as `(document_id, Reject)` and ends as a `Tagged` that says why: as many come out as went in.
An element is a whole document; one of many megabytes is for `spanmarker tag`, which takes it in parts.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypedDict

import apache_beam as beam
import pyarrow as pa
from apache_beam.ml.inference.base import ModelHandler, RunInference

from pipelines.errors import PipelineError, describe
from pipelines.processes.isolated import isolate
from pipelines.stages.pack import pack
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from schemas import SAMPLES
from spanmarker_core.bundle.reader import read_info, read_packer
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CodedError
from spanmarker_core.inference.tagger import Tagger, load
from spanmarker_core.windows.packer import Context, Packer

#: Characters of text that go through the model together, about: enough to fill its batches.
BATCH_CHARACTERS = 1 << 16
_busy = threading.Lock()  # A model is made for one thread at a time, and runners have several.


class Reject(TypedDict):
    """Why a document has no annotations; as in the columns of REJECTS."""

    stage: str
    code: str
    message: str


class Tagged(TypedDict):
    """What comes of a document: rows of ANNOTATIONS as dicts; `reject` is None or says why there are none."""

    document_id: str
    annotations: list[dict[str, Any]]
    reject: Reject | None


Part: TypeAlias = pa.RecordBatch | Reject


class SplitSentences(beam.PTransform):
    """Documents -> their sentences.

    Args:
        language: as `--language`.
    """

    def __init__(self, language: str = "en") -> None:
        super().__init__()
        self.language = language

    def expand(self, documents: beam.PCollection) -> beam.PCollection:
        """Apply it."""
        return documents | beam.Map(_sentences, self.language)


class PackSamples(beam.PTransform):
    """Sentences of a document -> its samples. Needs no GPU, and of the model only its tokenizer.

    Args:
        model: folder of the bundle, there on every worker; None is the bundled one.
    """

    def __init__(self, model: str | None = None) -> None:
        super().__init__()
        self.model = model

    def expand(self, sentences: beam.PCollection) -> beam.PCollection:
        """Apply it."""
        return sentences | beam.Map(_samples, self.model)


class SpanMarkerModelHandler(ModelHandler[tuple[str, str], Tagged, Tagger]):
    """The model for Beam's `RunInference`: a document in, a `Tagged` out.

    Args:
        model: folder of the bundle, there on every worker; None is the bundled one.
        device, dtype, gate: as in `spanmarker_core.load`.
        language, decoder, threshold: as in `Tagger.tag_text`.
        threads: CPU threads of a worker process; 0 leaves them as they are.
        batch_characters: characters of text that go through the model together, about.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        gate: str = "auto",
        language: str = "en",
        decoder: str | None = None,
        threshold: float | None = None,
        threads: int = 0,
        batch_characters: int = BATCH_CHARACTERS,
    ) -> None:
        super().__init__()
        self.model, self.device, self.dtype, self.gate = model, device, dtype, gate
        self.language, self.decoder, self.threshold = language, decoder, threshold
        self.threads, self.batch_characters = threads, batch_characters

    def load_model(self) -> Tagger:
        """Load the model; Beam keeps it for all that runs in the process.

        Raises:
            CodedError: what is wrong with the bundle or the device.
        """
        if self.threads:
            import torch

            torch.set_num_threads(self.threads)
        return load(self.model or bundled_model_path(), self.device, self.dtype, self.gate)

    def run_inference(
        self, batch: Sequence[Any], model: Tagger, inference_args: dict[str, Any] | None = None
    ) -> Iterator[Tagged]:
        """Yield what comes of each document, in order. One that fails costs no other.

        Raises:
            CodedError: `model.broken`, or what is wrong with the decoder or the threshold: no document is to blame.
        """
        with _busy:
            parts = [(document_id, part) for document_id, part in map(self.prepare, batch)]
            good = [part for _, part in parts if isinstance(part, pa.RecordBatch)]
            results = iter(list(self._tag(good, model)))  # while the lock is held
        for document_id, part in parts:
            found = next(results) if isinstance(part, pa.RecordBatch) else part
            if isinstance(found, list):
                yield Tagged(
                    document_id=document_id,
                    annotations=[row | {"document_id": document_id} for row in found],
                    reject=None,
                )
            else:
                yield Tagged(document_id=document_id, annotations=[], reject=found)

    def prepare(self, element: Any) -> tuple[str, Part]:
        """Return the samples of an element."""
        return _samples(_sentences(element, self.language), self.model)

    def size(self, element: Any) -> int:
        """Return about how many characters the model will read for an element."""
        return len(element[1]) if isinstance(element[1], str) else 1

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Batches of so many characters, not so many documents."""
        size: Callable[[Any], int] = self.size
        return {
            "min_batch_size": self.batch_characters,
            "max_batch_size": self.batch_characters,
            "element_size_fn": size,
        }

    def get_num_bytes(self, batch: Sequence[Any]) -> int:
        """Return about the size of a batch; Beam itself would pickle it to find out."""
        return sum(map(self.size, batch))

    def get_metrics_namespace(self) -> str:
        """Return the name under which Beam counts."""
        return "spanmarker"

    def _tag(self, samples: list[pa.RecordBatch], model: Tagger) -> Iterator[list[dict[str, Any]] | Reject]:
        """Yield the rows of each document; where tagging fails, that of halves, until who fails is alone."""

        def work(start: int, end: int) -> list[list[dict[str, Any]]]:
            # Documents are told apart by their places: ids need not be unique.
            placed = [_with_id(part, str(place)) for place, part in enumerate(samples[start:end])]
            found = tag(pa.concat_batches([SAMPLES.empty(), *placed]), model, self.decoder, self.threshold)
            rows: list[list[dict[str, Any]]] = [[] for _ in placed]
            for row in found.to_pylist():
                rows[int(row["document_id"])].append(row)
            return rows

        for start, end, outcome in isolate(len(samples), work):
            if isinstance(outcome, Exception):
                self._check(model)
                yield Reject(stage="tag", code="tag_failed", message=describe(outcome))
            else:
                yield from outcome[: end - start]

    def _check(self, model: Tagger) -> None:
        try:
            model.tag_text(["Marie Curie lived in Paris."], decoder=self.decoder, threshold=self.threshold)
        except CodedError:
            raise
        except Exception as error:
            raise PipelineError("model.broken", reason=describe(error)) from error


class _SamplesHandler(SpanMarkerModelHandler):
    """The same for documents that are packed already."""

    def prepare(self, element: Any) -> tuple[str, Part]:
        return element

    def size(self, element: Any) -> int:
        part = element[1]
        return len(part["token_ids"].flatten()) * 4 if isinstance(part, pa.RecordBatch) else 1  # about 4 letters each


class TagSamples(beam.PTransform):
    """Samples of a document -> a `Tagged`, with the rows that `spanmarker tag` writes.

    Args:
        model, options: as in `SpanMarkerModelHandler`.
    """

    def __init__(self, model: str | None = None, **options: Any) -> None:
        super().__init__()
        self.handler = _SamplesHandler(model, **options)

    def expand(self, samples: beam.PCollection) -> beam.PCollection:
        """Apply it."""
        return samples | RunInference(self.handler)


def _sentences(document: tuple[str, Any], language: str) -> tuple[str, Part]:
    """Split a document."""
    document_id, text = document
    if not isinstance(text, str):
        code, what = ("null_text", "null") if text is None else ("not_text", f"{type(text).__name__}, not a string")
        return document_id, Reject(stage="read", code=code, message=f"the text is {what}")
    try:
        rows = pa.RecordBatch.from_pydict({"document_id": [str(document_id)], "text": [text]})
        return document_id, split(rows, language)
    except Exception as error:
        return document_id, Reject(stage="split", code="split_failed", message=describe(error))


def _samples(sentences: tuple[str, Part], model: str | None) -> tuple[str, Part]:
    """Pack a document."""
    document_id, part = sentences
    if not isinstance(part, pa.RecordBatch):
        return sentences
    packer, context = _packer(model)
    try:
        return document_id, pack(part, packer, context)
    except Exception as error:
        return document_id, Reject(stage="pack", code="pack_failed", message=describe(error))


@lru_cache(maxsize=4)
def _packer(model: str | None) -> tuple[Packer, Context]:
    """Return the packer of a bundle, read once a process."""
    config = read_info(model or bundled_model_path()).config
    return read_packer(model or bundled_model_path(), config), config.context


def _with_id(samples: pa.RecordBatch, document_id: str) -> pa.RecordBatch:
    ids = pa.array([document_id] * len(samples), pa.large_string())
    return samples.set_column(0, SAMPLES.schema.field(0), ids)
