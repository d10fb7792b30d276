"""Transforms for users' own Beam pipelines: splitting, packing and tagging, and a model handler for `RunInference`.

For files, prefer `spanmarker tag --engine beam`, which resumes and writes each row once. These transforms are for
documents that a pipeline produces and whose annotations it processes further:

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

Alternatively, in one step: `documents | RunInference(SpanMarkerModelHandler())`.

Elements: a document is `(document_id, text)`, two strings. Its sentences are `(document_id, RecordBatch)` with rows of
SENTENCES, and its samples the same with rows of SAMPLES (`schemas`). The result is a dict, `Tagged`. A document that
fails continues as `(document_id, Reject)` and ends as a `Tagged` with the reason, so every input element yields one
output element. An element holds a whole document; for documents of many megabytes use `spanmarker tag`, which processes
them in parts.
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
from pipelines.stages.samples import rows_of, samples_of
from pipelines.stages.split import split
from pipelines.stages.tag import tag
from schemas import SAMPLES
from spanmarker_core.bundle.reader import read_info, read_packer
from spanmarker_core.bundle.repositories import find_bundle, repository_of
from spanmarker_core.default_model import bundled_model_path
from spanmarker_core.errors import CodedError
from spanmarker_core.inference.tagger import Tagger, load
from spanmarker_core.text.languages import normalise_language
from spanmarker_core.windows.packer import Context, Packer

#: Approximate number of characters that the model processes together: enough to fill its batches.
BATCH_CHARACTERS = 1 << 16
_busy = threading.Lock()  # A model must be used by one thread at a time, and runners use several.


class Reject(TypedDict):
    """Why a document has no annotations.

    Attributes:
        stage: pipeline stage in which the document failed.
        code: stable error code.
        message: text of the error.
    """

    stage: str
    code: str
    message: str


class Tagged(TypedDict):
    """The result for one document.

    Attributes:
        document_id: id of the document.
        annotations: rows of ENTITIES as dicts; empty if the document was rejected.
        reject: None, or the reason for the rejection.
    """

    document_id: str
    annotations: list[dict[str, Any]]
    reject: Reject | None


Part: TypeAlias = pa.RecordBatch | Reject


class SplitSentences(beam.PTransform):
    """Splits documents into sentences.

    Args:
        language: language of the texts, for the sentence splitter: a code or an English name.

    Raises:
        CoreError: `call.bad_language`.
    """

    def __init__(self, language: str = "en") -> None:
        super().__init__()
        self.language = normalise_language(language)

    def expand(self, documents: beam.PCollection) -> beam.PCollection:
        """Apply the transform.

        Args:
            documents: collection of documents.
        """
        return documents | beam.Map(_sentences, self.language)


class PackSamples(beam.PTransform):
    """Packs the sentences of a document into samples. Needs no GPU, and only the tokenizer of the model.

    Args:
        model: folder of the bundle, available on every worker, or a repository of the hub, "owner/name" or
            "owner/name@revision", of which every worker downloads the same commit; None selects the bundled model.
    """

    def __init__(self, model: str | None = None) -> None:
        super().__init__()
        self.model = _pinned(model)

    def expand(self, sentences: beam.PCollection) -> beam.PCollection:
        """Apply the transform.

        Args:
            sentences: collection of the sentences of documents.
        """
        return sentences | beam.Map(_samples, self.model)


class SpanMarkerModelHandler(ModelHandler[tuple[str, str], Tagged, Tagger]):
    """Model handler for Beam's `RunInference`: takes documents and returns a `Tagged` for each.

    Args:
        model: folder of the bundle, available on every worker, or a repository of the hub, "owner/name" or
            "owner/name@revision", of which every worker downloads the same commit; None selects the bundled model.
        device: "cpu", "cuda", "cuda:1", … or "auto".
        dtype: number format of the model: "float32", "bfloat16" or "int8".
        gate: "auto", "on" or "off": whether only spans that pass the gate are scored.
        language: language of the texts, for the sentence splitter.
        decoder: name of the decoder; None selects that of the bundle.
        threshold: minimum score of an entity; None selects that of the bundle.
        threads: CPU threads per worker process; 0 leaves the setting unchanged.
        batch_characters: approximate number of characters that the model processes together.

    Raises:
        CoreError: `call.bad_language`.
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
        self.model, self.device, self.dtype, self.gate = _pinned(model), device, dtype, gate
        self.language, self.decoder, self.threshold = normalise_language(language), decoder, threshold
        self.threads, self.batch_characters = threads, batch_characters

    def load_model(self) -> Tagger:
        """Load the model. Beam shares it among all threads of the process.

        Raises:
            CodedError: `bundle.*` for an invalid bundle, or the code of an unusable device.
        """
        if self.threads:
            import torch

            torch.set_num_threads(self.threads)
        return load(self.model, self.device, self.dtype, self.gate)

    def run_inference(
        self, batch: Sequence[Any], model: Tagger, inference_args: dict[str, Any] | None = None
    ) -> Iterator[Tagged]:
        """Yield the result for each document, in order. A failed document does not affect the others.

        Args:
            batch: the elements.
            model: the tagger from `load_model`.
            inference_args: unused; Beam passes it to every handler.

        Raises:
            CodedError: `model.broken`, or an invalid decoder or threshold; the cause is not a document.
        """
        with _busy:
            parts = [(document_id, part) for document_id, part in map(self.prepare, batch)]
            good = [part for _, part in parts if isinstance(part, pa.RecordBatch)]
            results = iter(list(self._tag(good, model)))  # complete the list while the lock is held
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
        """Return the samples of an element.

        Args:
            element: a document.
        """
        return _samples(_sentences(element, self.language), self.model)

    def size(self, element: Any) -> int:
        """Return the approximate number of characters that the model reads for an element.

        Args:
            element: a document.
        """
        return len(element[1]) if isinstance(element[1], str) else 1

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Return arguments that limit batches by characters instead of documents."""
        size: Callable[[Any], int] = self.size
        return {
            "min_batch_size": self.batch_characters,
            "max_batch_size": self.batch_characters,
            "element_size_fn": size,
        }

    def get_num_bytes(self, batch: Sequence[Any]) -> int:
        """Return the approximate size of a batch in bytes. Beam would pickle the batch to measure it.

        Args:
            batch: the elements.
        """
        return sum(map(self.size, batch))

    def get_metrics_namespace(self) -> str:
        """Return the namespace of the Beam metrics."""
        return "spanmarker"

    def _tag(self, samples: list[pa.RecordBatch], model: Tagger) -> Iterator[list[dict[str, Any]] | Reject]:
        """Yield the rows of each document. A failing batch is halved until the failing document is alone."""

        def work(start: int, end: int) -> list[list[dict[str, Any]]]:
            # Documents are identified by position, because ids need not be unique.
            placed = [_with_id(part, str(place)) for place, part in enumerate(samples[start:end])]
            found = tag(samples_of(pa.concat_batches(placed)), model, self.decoder, self.threshold)
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
    """Model handler for documents that are already packed."""

    def prepare(self, element: Any) -> tuple[str, Part]:
        return element

    def size(self, element: Any) -> int:
        part = element[1]
        # A token has about 4 characters.
        return len(part["token_ids"].flatten()) * 4 if isinstance(part, pa.RecordBatch) else 1


class TagSamples(beam.PTransform):
    """Tags the samples of a document and returns a `Tagged` with the rows that `spanmarker tag` would write.

    Args:
        model: folder of the bundle, available on every worker, or a repository of the hub, "owner/name" or
            "owner/name@revision", of which every worker downloads the same commit; None selects the bundled model.
        options: keyword arguments of `SpanMarkerModelHandler`.
    """

    def __init__(self, model: str | None = None, **options: Any) -> None:
        super().__init__()
        self.handler = _SamplesHandler(model, **options)

    def expand(self, samples: beam.PCollection) -> beam.PCollection:
        """Apply the transform.

        Args:
            samples: collection of the samples of documents.
        """
        return samples | RunInference(self.handler)


def _pinned(model: str | None) -> str | None:
    """Return the name of a model with the commit in place of a branch or tag; a folder may exist on workers only."""
    return model if model is None or repository_of(model) is None else find_bundle(model).name


def _sentences(document: tuple[str, Any], language: str) -> tuple[str, Part]:
    """Split a document into sentences."""
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
    """Pack the sentences of a document into samples."""
    document_id, part = sentences
    if not isinstance(part, pa.RecordBatch):
        return sentences
    packer, context = _packer(model)
    try:
        return document_id, rows_of(pack(part, packer, context))
    except Exception as error:
        return document_id, Reject(stage="pack", code="pack_failed", message=describe(error))


@lru_cache(maxsize=4)
def _packer(model: str | None) -> tuple[Packer, Context]:
    """Return the packer of a bundle, read once per process."""
    path = bundled_model_path() if model is None else find_bundle(model).path
    config = read_info(path).config
    return read_packer(path, config), config.context


def _with_id(samples: pa.RecordBatch, document_id: str) -> pa.RecordBatch:
    ids = pa.array([document_id] * len(samples), pa.large_string())
    return samples.set_column(0, SAMPLES.schema.field(0), ids)
