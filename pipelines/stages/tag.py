"""Tag: samples -> annotations. Every window is scored, every sentence decoded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipelines.stages.samples import Samples, document_edges, text_bounds
from schemas import ENTITIES
from spanmarker_core.spans.decoding import Threshold, decode

if TYPE_CHECKING:  # It imports torch, which preparing samples does not need.
    from spanmarker_core.inference.tagger import Tagger


def tag(
    samples: Samples,
    model: "Tagger",
    decoder: str | None = None,
    threshold: Threshold = None,
    labels: Sequence[str] = (),
) -> pa.RecordBatch:
    """Find the entities of packed sentences.

    Args:
        samples: packed sentences, with all windows of each.
        model: a loaded model.
        decoder: name of a decoder in `spanmarker_core.spans.decoding.DECODERS`; None uses the bundle's.
        threshold: least score of an entity, for all labels or by label; None uses the bundle's.
        labels: labels of the entities to return, which the model has; those of others are left out after decoding. ()
            returns all.

    Returns:
        ENTITIES rows, sorted by document, then by position in its text; `entity_id` counts among these rows.
    """
    found = decode(model.score(samples.windows, threshold), decoder or model.config.decoder)
    if labels:
        wanted = [index for index, label in enumerate(model.config.labels) if label in labels]
        found = found.take(np.flatnonzero(np.isin(found.label, wanted)))
    text_starts = text_bounds(samples.windows)[0][found.window]
    surfaces = [
        samples.texts[window][start:end]
        for window, start, end in zip(
            found.window.tolist(),
            (found.char_start - text_starts).tolist(),
            (found.char_end - text_starts).tolist(),
            strict=True,
        )
    ]
    names = pa.array(model.config.labels, pa.large_string())
    rows = pa.RecordBatch.from_arrays(
        [
            samples.document_ids.take(pa.array(found.window)),
            pa.array(found.sentence),
            pa.array(np.zeros(len(found), np.int32)),
            names.take(pa.array(found.label)),
            pa.array(found.score),
            pa.array(surfaces, pa.large_string()),
            pa.array(found.char_start),
            pa.array(found.char_end),
            pa.array(found.word_start),
            pa.array(found.word_end),
        ],
        schema=ENTITIES,
    )
    return numbered(rows)


def numbered(annotations: pa.RecordBatch) -> pa.RecordBatch:
    """Return annotations with `entity_id` counted from 0 in each document.

    Args:
        annotations: ENTITIES rows, each document's together.
    """
    edges = document_edges(annotations["document_id"])
    numbers = np.arange(len(annotations)) - np.repeat(edges[:-1], np.diff(edges))
    place = ENTITIES.get_field_index("entity_id")
    return annotations.set_column(place, ENTITIES.field(place), pa.array(numbers.astype(np.int32)))
