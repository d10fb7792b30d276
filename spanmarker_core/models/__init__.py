"""Model architectures, one a file, under versioned names that a bundle's config holds.

An architecture is a class with

    from_config(config: ModelConfig) -> model      # empty weights, to be filled from a bundle
    forward(batch: Batch) -> Tensor                # [n_spans, n_labels] logits, spans as in the batch

A new one is a file here and a line in `ARCHITECTURES`.
"""

from spanmarker_core.models.span_marker import SpanMarkerModel

ARCHITECTURES = {"span_marker.v1": SpanMarkerModel}

__all__ = ["ARCHITECTURES", "SpanMarkerModel"]
