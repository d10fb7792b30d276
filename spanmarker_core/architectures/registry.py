"""The registry of model architectures, by the versioned name that a bundle's config stores.

An architecture is a subclass of `spanmarker_core.models.network.SpanNetwork` with

    __init__(encoder, config: ModelConfig)      # the pretrained or random encoder, and the bundle's config
    feature_size(options, hidden) -> int
    encode_spans(batch, spans, text, start, end) -> features of these spans, [n, feature_size]

Everything else is common to all: the text pass, the gate, the linear classifier, `forward(batch) -> NetworkScores`,
training, saving, loading, tagging. To add one, write a module in `spanmarker_core.models`, a class in
`spanmarker_core.architectures.options` and an entry in `ARCHITECTURES`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from spanmarker_core.architectures.options import (
    BlNerOptions,
    DSpERTOptions,
    Options,
    PLMarkerOptions,
    SeqNerOptions,
    SpanMarkerOptions,
    SpanNerOptions,
    read_options,
)
from spanmarker_core.errors import CoreError, UnusableError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Architecture(NamedTuple):
    """The location and the options of an architecture. The class is given by name, so that torch isn't imported.

    Attributes:
        place: the network's class, as "module:class".
        options: the class of its options.
    """

    place: str
    options: type[Options]


ARCHITECTURES = {
    "span_marker.v1": Architecture("spanmarker_core.models.span_marker:SpanMarkerModel", SpanMarkerOptions),
    "pl_marker.v1": Architecture("spanmarker_core.models.pl_marker:PLMarkerModel", PLMarkerOptions),
    "dspert.v1": Architecture("spanmarker_core.models.dspert:DSpERT", DSpERTOptions),
    "span_ner.v1": Architecture("spanmarker_core.models.span_ner:SpanNerModel", SpanNerOptions),
    "bl_ner.v1": Architecture("spanmarker_core.models.bl_ner:BlNerModel", BlNerOptions),
    "seq_ner.v1": Architecture("spanmarker_core.models.seq_ner:SeqNerModel", SeqNerOptions),
}


class NetworkScores(NamedTuple):
    """Outputs of a network for a batch.

    Attributes:
        logits: [n_kept, n_labels], of the spans at `kept`.
        kept: int64 [n_kept], rows of the batch's spans that were scored, increasing; None for all spans.
        gate: [n_words, 2], the gate's logits; None for a model without a gate.
        tags: [n_words, n_tags], the emissions of the sequence head; None for a model without one.
        labels: int64 [n_kept], the class of each span, if the model does not choose the class with the largest
            logit; None if it does.
    """

    logits: "Tensor"
    kept: "np.ndarray | None"
    gate: "Tensor | None"
    tags: "Tensor | None" = None
    labels: "np.ndarray | None" = None


def architecture_called(name: str) -> str:
    """Return the full name of an architecture; a name without a version means the latest one.

    >>> architecture_called("span_marker")
    'span_marker.v1'

    Args:
        name: a name in `ARCHITECTURES`, with or without its version.

    Raises:
        CoreError: `call.unknown_option`.
    """
    versions = [known for known in ARCHITECTURES if known == name or known.rpartition(".")[0] == name]
    if not versions:
        raise CoreError("call.unknown_option", option="architecture", value=name, choices=", ".join(ARCHITECTURES))
    return versions[-1]


def options_of(architecture: str, options: object) -> Options:
    """Return the options of an architecture, with defaults for those left out.

    >>> options_of("dspert.v1", {"lstm": 0}).ffn
    300

    Args:
        architecture: a name in `ARCHITECTURES`.
        options: a mapping from option to value, as stored in a bundle's config.

    Raises:
        UnusableError: an option is unknown or its value is invalid; names the option, its value and the valid values.
    """
    return read_options(ARCHITECTURES[architecture].options, options)


def bundles_tags(architecture: str, options: Mapping[str, object]) -> bool | None:
    """Return whether the model learns tags together with spans, so that their losses are weighted.

    Args:
        architecture: a name in `ARCHITECTURES`.
        options: a mapping from option to value.

    Returns:
        None if the architecture is unknown or the options are invalid.
    """
    try:
        parsed = options_of(architecture, options)
    except (UnusableError, KeyError):
        return None
    return parsed.spans and parsed.tags is not None


def architecture(name: str) -> Any:
    """Return the class of an architecture. Imports torch.

    Args:
        name: a name in `ARCHITECTURES`.
    """
    module, _, attribute = ARCHITECTURES[name].place.partition(":")
    return getattr(import_module(module), attribute)
