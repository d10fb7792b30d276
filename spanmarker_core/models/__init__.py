"""Model architectures, one a file, under versioned names that a bundle's config holds.

An architecture is a class with

    from_config(config: ModelConfig) -> model      # random weights, to be filled from a bundle
    forward(batch: Batch) -> Tensor                # [n_spans, n_labels] logits, spans as in the batch

A new one is a file here and a line in `ARCHITECTURES`, which is all that bundles and loading look at.
"""

from importlib import import_module
from typing import Any

#: Name in a config -> "module:class". Names only, so that a config can be checked without torch.
ARCHITECTURES = {"span_marker.v1": "spanmarker_core.models.span_marker:SpanMarkerModel"}


def architecture(name: str) -> Any:
    """Return the class behind a name of `ARCHITECTURES`. Imports torch."""
    module, _, attribute = ARCHITECTURES[name].partition(":")
    return getattr(import_module(module), attribute)
