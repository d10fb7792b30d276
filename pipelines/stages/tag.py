"""Tag: samples -> annotations. Every window is scored, every sentence decoded."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.stages.pack import WORD_COLUMNS, document_edges
from schemas import ANNOTATIONS
from spanmarker_core.spans.decoding import Threshold, decode
from spanmarker_core.windows.packer import Windows

if TYPE_CHECKING:  # It imports torch, which preparing samples does not need.
    from spanmarker_core.inference.tagger import Tagger


def tag(
    samples: pa.RecordBatch, model: "Tagger", decoder: str | None = None, threshold: Threshold = None
) -> pa.RecordBatch:
    """Find the entities of packed sentences.

    Args:
        samples: SAMPLES rows, in order: a sentence's rows are together, and so are a document's.
        model: a loaded model.
        decoder: name of a decoder in `spanmarker_core.spans.decoding.DECODERS`; None uses the bundle's.
        threshold: least score of an entity, for all labels or by label; None uses the bundle's.

    Returns:
        ANNOTATIONS rows, sorted by document, then by position in its text; `entity_id` counts among these rows.
    """
    windows = windows_of(samples)
    found = decode(model.score(windows, threshold), decoder or model.config.decoder)
    ids = samples.column("document_id")
    texts = samples.column("text").to_pylist()
    text_starts = samples.column("text_char_start").to_numpy()[found.window]
    surfaces = [
        texts[window][start:end]
        for window, start, end in zip(
            found.window.tolist(),
            (found.char_start - text_starts).tolist(),
            (found.char_end - text_starts).tolist(),
            strict=True,
        )
    ]
    labels = pa.array(model.config.labels, pa.large_string())
    rows = pa.RecordBatch.from_arrays(
        [
            ids.take(pa.array(found.window)),
            pa.array(found.sentence),
            pa.array(np.zeros(len(found), np.int32)),
            labels.take(pa.array(found.label)),
            pa.array(found.score),
            pa.array(surfaces, pa.large_string()),
            pa.array(found.char_start),
            pa.array(found.char_end),
            pa.array(found.word_start),
            pa.array(found.word_end),
        ],
        schema=ANNOTATIONS.schema,
    )
    return numbered(rows)


def numbered(annotations: pa.RecordBatch) -> pa.RecordBatch:
    """Return annotations with `entity_id` counted from 0 in each document.

    Args:
        annotations: ANNOTATIONS rows, each document's together.
    """
    edges = document_edges(annotations["document_id"])
    numbers = np.arange(len(annotations)) - np.repeat(edges[:-1], np.diff(edges))
    place = ANNOTATIONS.schema.get_field_index("entity_id")
    return annotations.set_column(place, ANNOTATIONS.schema.field(place), pa.array(numbers.astype(np.int32)))


def windows_of(samples: pa.RecordBatch) -> Windows:
    """Return the windows of SAMPLES rows, with documents numbered in the order of the rows.

    Args:
        samples: SAMPLES rows, each document's together.
    """
    edges = document_edges(samples.column("document_id"))
    token_offsets, token_ids = flat(samples.column("token_ids"))
    columns: dict[str, Any] = {}
    word_offsets = np.zeros(1, np.int64)
    for name in WORD_COLUMNS:
        word_offsets, columns[name] = flat(samples.column(name))
    return Windows(
        document=np.repeat(np.arange(len(edges) - 1, dtype=np.int32), np.diff(edges)),
        token_offsets=token_offsets,
        token_ids=token_ids,
        word_offsets=word_offsets,
        **columns,
    )


def flat(lists: pa.LargeListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return (offsets from 0, values) of a list column, also of a slice.

    Args:
        lists: the column.
    """
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], values.to_numpy(zero_copy_only=False)
