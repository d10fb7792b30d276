"""Model architectures, one a file, under versioned names that a bundle's config holds.

An architecture is a `network.SpanNetwork` with

    __init__(encoder, config: ModelConfig)      # the pretrained or random encoder, and what the bundle says
    feature_size(options, hidden) -> int
    encode_spans(batch, spans, text, start, end) -> features of these spans, [n, feature_size]

The rest is the same for all: the text pass, the gate, the linear classifier, `forward(batch) -> Scores`, training,
saving, loading, tagging. A new one is a file here, a class in `options` and a line in `ARCHITECTURES`.
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
    """Where an architecture is, "module:class", and what it can be told. Names only, so that needs no torch."""

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
    """What a model says of a batch.

    Attributes:
        logits: [n_kept, n_labels], of the spans at `kept`.
        kept: int64 [n_kept], rows of the batch's spans, rising; None is all of them.
        gate: [n_words, 2], the gate's logits; None for a model without one.
        tags: [n_words, n_tags], the emissions of a head of tags; None for a model without one.
        labels: int64 [n_kept], the class of each span where the model decides it by other means than the largest of
            its logits; None where it doesn't.
    """

    logits: "Tensor"
    kept: "np.ndarray | None"
    gate: "Tensor | None"
    tags: "Tensor | None" = None
    labels: "np.ndarray | None" = None


def architecture_called(name: str) -> str:
    """Return the name in full: without a version it is the last one.

    >>> architecture_called("span_marker")
    'span_marker.v1'

    Raises:
        CoreError: `call.unknown_option`.
    """
    versions = [known for known in ARCHITECTURES if known == name or known.rpartition(".")[0] == name]
    if not versions:
        raise CoreError("call.unknown_option", option="architecture", value=name, choices=", ".join(ARCHITECTURES))
    return versions[-1]


def options_of(architecture: str, options: object) -> Options:
    """Return what an architecture is told; options that are left out have their defaults.

    >>> options_of("dspert.v1", {"lstm": 0}).ffn
    300

    Raises:
        UnusableError: with the option, its value and what fits.
    """
    return read_options(ARCHITECTURES[architecture].options, options)


def bundles_tags(architecture: str, options: Mapping[str, object]) -> bool | None:
    """Say whether tags are learned together with spans, and so have a weight beside them; None if options are bad."""
    try:
        told = options_of(architecture, options)
    except (UnusableError, KeyError):
        return None
    return told.spans and told.tags is not None


def architecture(name: str) -> Any:
    """Return the class behind a name of `ARCHITECTURES`. Imports torch."""
    module, _, attribute = ARCHITECTURES[name].place.partition(":")
    return getattr(import_module(module), attribute)
