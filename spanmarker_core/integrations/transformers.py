"""The transformers pipeline `span-marker`.

    from spanmarker_core.integrations.transformers import pipeline
    ner = pipeline("bundle/")
    ner("Ada Lovelace lived in London.")

or, once this module was imported, by transformers' own function, which takes the loaded model (a path it reads as a
checkpoint of its own kinds, and a bundle is none; see `bundle`):

    transformers.pipeline("span-marker", model=load("bundle/"))

Answers have the form of the token-classification pipeline's: entity_group, score, word, start, end.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import transformers
from transformers import Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from spanmarker_core.errors import CoreError
from spanmarker_core.inference.tagger import Entity, Tagger

TASK = "span-marker"
#: Texts of a list, a generator or a data set that are tagged in one call, where batch_size isn't named.
BATCH_SIZE = 64

_OPTIONS = ("split", "language", "context", "max_prev_context", "max_next_context", "decoder", "threshold")


class SpanMarkerPipeline(Pipeline):
    """Text, or many, to entities.

    Args:
        model: the loaded model; its device and number format are as it was loaded.
        options: of transformers' pipelines, and those of `Tagger.tag_text`, which may be given to calls too.

    Raises:
        CoreError: `call.settled_when_loaded`; `call.unknown_option`, here and when called.
    """

    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False
    _load_tokenizer = False

    def __init__(self, model: Tagger, device: Any = None, **options: Any) -> None:
        dtype = str(options.get("dtype", "auto")).removeprefix("torch.")
        for option, found, expected in (("device", str(device), str(model.device)), ("dtype", dtype, model.dtype)):
            if found not in ("None", "auto", expected):
                raise CoreError("call.settled_when_loaded", option=option, found=found, expected=expected)
        super().__init__(model, device=model.device, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(device={str(self.model.device)!r}, dtype={self.model.dtype!r})"

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> str:
        """Copy the model's bundle; see `Tagger.save_pretrained`."""
        return self.model.save_pretrained(save_directory, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the model's bundle; see `Tagger.push_to_hub`."""
        return self.model.push_to_hub(repo_id, **options)

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        for option in options.keys() - set(_OPTIONS):
            raise CoreError("call.unknown_option", option="option", value=option, choices=", ".join(_OPTIONS))
        return {}, options, {}

    def preprocess(self, input_: str, **parameters: Any) -> list[str]:
        """Make a list of one."""
        return [input_]

    def _forward(self, input_tensors: list[str], **parameters: Any) -> list[list[Entity]]:
        return self.model.tag_text(input_tensors, **parameters)

    def postprocess(self, model_outputs: list[list[Entity]], **parameters: Any) -> list[dict[str, Any]]:
        """Write the entities of one text."""
        (entities,) = model_outputs
        return [
            {"entity_group": e.label, "score": e.score, "word": e.text, "start": e.char_start, "end": e.char_end}
            for e in entities
        ]

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """Answer for a text; for a list of them; or, as they come, for a generator or a data set."""
        return [] if isinstance(inputs, list) and not inputs else super().__call__(inputs, *args, **options)

    def get_iterator(
        self,
        inputs: Iterable[str],
        num_workers: int,
        batch_size: int,
        preprocess_params: dict[str, Any],
        forward_params: dict[str, Any],
        postprocess_params: dict[str, Any],
    ) -> Iterator[list[dict[str, Any]]]:
        """Answer for text after text, with as many in one call as a batch has; batches are packed by the model."""
        texts = iter(inputs)
        while batch := list(islice(texts, batch_size if batch_size > 1 else BATCH_SIZE)):
            for entities in self._forward(batch, **forward_params):
                yield self.postprocess([entities])


PIPELINE_REGISTRY.register_pipeline(TASK, SpanMarkerPipeline, type="text")


def pipeline(
    model: str | Path,
    *,
    revision: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    gate: str = "auto",
    **options: Any,
) -> SpanMarkerPipeline:
    """Make a pipeline of a bundle's folder or a repository of the hub.

    Args:
        model, revision, device, dtype, gate: as in `Tagger.from_pretrained`.
        options: as in `SpanMarkerPipeline`.

    Raises:
        CoreError: those of both.
    """
    tagger = Tagger.from_pretrained(model, revision=revision, device=device, dtype=dtype, gate=gate)
    return transformers.pipeline(TASK, model=tagger, **options)
