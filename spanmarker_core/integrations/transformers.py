"""The transformers pipeline `span-marker`.

    from spanmarker_core.integrations.transformers import pipeline
    ner = pipeline("bundle/")
    ner("Ada Lovelace lived in London.")

After this module is imported, transformers' own function also works, but only with a loaded model (it reads a path as
one of its own checkpoints, and a bundle is not one):

    transformers.pipeline("span-marker", model=load("bundle/"))

Results have the form of the token-classification pipeline: entity_group, score, word, start, end.
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
#: Default number of texts of a list, generator or data set that are tagged per call.
BATCH_SIZE = 64

_SPLITTING = ("split", "language", "sentence_breaks")
_OPTIONS = (*_SPLITTING, "context", "max_prev_context", "max_next_context", "decoder", "threshold")


class SpanMarkerPipeline(Pipeline):
    """Pipeline from one or more texts to entities.

    Args:
        model: the loaded model; its device and number format are fixed when it is loaded.
        device: None, or the model's device.
        options: options of transformers pipelines, and split, language, sentence_breaks, context, max_prev_context,
            max_next_context, decoder and threshold of `Tagger.tag_text`, which can also be given to each call.

    Raises:
        CoreError: `call.settled_when_loaded` for another device or dtype than the model's; `call.unknown_option`, here
            and in calls.
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
        """Copy the model's bundle to a folder.

        Args:
            save_directory: the folder.
            options: keyword arguments of `Tagger.save_pretrained`.
        """
        return self.model.save_pretrained(save_directory, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the model's bundle to a model hub.

        Args:
            repo_id: name of the repository, such as "owner/name".
            options: keyword arguments of `Tagger.push_to_hub`.
        """
        return self.model.push_to_hub(repo_id, **options)

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        for option in options.keys() - set(_OPTIONS):
            raise CoreError("call.unknown_option", option="option", value=option, choices=", ".join(_OPTIONS))
        return {}, options, {}

    def preprocess(self, input_: str, **parameters: Any) -> list[str]:
        """Wrap a text in a list.

        Args:
            input_: the text.
            parameters: unused.
        """
        return [input_]

    def _forward(self, input_tensors: list[str], **parameters: Any) -> list[list[Entity]]:
        return self.model.tag_text(input_tensors, **parameters)

    def postprocess(self, model_outputs: list[list[Entity]], **parameters: Any) -> list[dict[str, Any]]:
        """Convert the entities of one text into dicts.

        Args:
            model_outputs: a list with the entities of the text.
            parameters: unused.
        """
        (entities,) = model_outputs
        return [
            {"entity_group": e.label, "score": e.score, "word": e.text, "start": e.char_start, "end": e.char_end}
            for e in entities
        ]

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """Tag a text, a list of texts, or lazily a generator or data set."""
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
        """Yield the result of each text, tagging a batch of texts per call; the model packs the batch itself.

        Args:
            inputs: the texts.
            num_workers: unused.
            batch_size: number of texts per call; 1 means `BATCH_SIZE`.
            preprocess_params: unused.
            forward_params: options of `Tagger.tag_text`.
            postprocess_params: unused.
        """
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
    """Create a pipeline from a bundle's folder or a repository on a model hub.

    Args:
        model: a bundle's folder, or a repository, such as "owner/name" or "owner/name@revision".
        revision: commit, tag or branch of a repository; None for that of the name, or else the main branch.
        device: "cpu", "cuda", "cuda:1", …; "auto" uses a GPU if there is one.
        dtype: number format of the computation: "float32", "bfloat16" or "int8".
        gate: "auto" uses a gate that was trained with the model, "on" any gate, "off" none.
        options: as in `SpanMarkerPipeline`.

    Raises:
        CoreError: `call.unknown_option`. If the model cannot be loaded: the `hub.*` of
            `Tagger.from_pretrained`, `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`,
            `bundle.bad_file`, `bundle.bad_config`, `bundle.format_too_new`, `bundle.weights_mismatch`,
            `bundle.nan_weight`, `checkpoint.no_outside_label`, `encoder.entity_too_long`, `encoder.no_position_ids`,
            `device.not_available`, `call.no_gate`.
    """
    tagger = Tagger.from_pretrained(model, revision=revision, device=device, dtype=dtype, gate=gate)
    return transformers.pipeline(TASK, model=tagger, **options)
