"""Model architectures, one a file, under versioned names that a bundle's config holds.

An architecture is a class with

    from_config(config: ModelConfig) -> model      # random weights, to be filled from a bundle
    forward(batch: Batch, gate_threshold: float | None = None) -> Scores
    encode_text(batch: Batch) -> TextPass          # `states`, which a gate is fitted to
    gate: Gate | None                              # which words may start and end an entity

A new one is a file here and a line in `ARCHITECTURES`, which is all that bundles and loading look at.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

#: Name in a config -> "module:class". Names only, so that a config can be checked without torch.
ARCHITECTURES = {"span_marker.v1": "spanmarker_core.models.span_marker:SpanMarkerModel"}


class Scores(NamedTuple):
    """What a model says of a batch.

    Attributes:
        logits: [n_kept, n_labels], of the spans at `kept`.
        kept: int64 [n_kept], rows of the batch's spans, rising; None is all of them.
        gate: [n_words, 2], the gate's logits; None for a model without one.
    """

    logits: "Tensor"
    kept: "np.ndarray | None"
    gate: "Tensor | None"


def architecture(name: str) -> Any:
    """Return the class behind a name of `ARCHITECTURES`. Imports torch."""
    module, _, attribute = ARCHITECTURES[name].partition(":")
    return getattr(import_module(module), attribute)
