"""Samples -> annotations: every window scored, every sentence decoded."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.stages.pack import WORD_COLUMNS
from schemas import ANNOTATIONS
from spanmarker_core.decoding import Threshold, decode
from spanmarker_core.tagger import Tagger
from spanmarker_core.windows import Windows


def tag(
    samples: pa.RecordBatch, model: Tagger, decoder: str | None = None, threshold: Threshold = None
) -> pa.RecordBatch:
    """Find the entities of packed documents.

    Args:
        samples: SAMPLES rows, whole documents, each document's rows together and in order.
        model: a loaded model.
        decoder, threshold: as in `Tagger.tag_words`; None is as the bundle says.

    Returns:
        ANNOTATIONS rows in the order of the documents, then of their text.
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
    return pa.RecordBatch.from_arrays(
        [
            ids.take(pa.array(found.window)),
            pa.array(found.sentence),
            pa.array(_count_within(found.document)),
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


def windows_of(samples: pa.RecordBatch) -> Windows:
    """Return the windows that SAMPLES rows hold; documents are numbered in the order of the rows."""
    ids = samples.column("document_id").to_numpy(zero_copy_only=False)
    new = np.ones(len(ids), np.bool_)
    new[1:] = ids[1:] != ids[:-1]
    token_offsets, token_ids = _flat(samples.column("token_ids"))
    columns: dict[str, Any] = {}
    word_offsets = np.zeros(1, np.int64)
    for name in WORD_COLUMNS:
        word_offsets, columns[name] = _flat(samples.column(name))
    return Windows(
        document=(np.cumsum(new) - 1).astype(np.int32),
        token_offsets=token_offsets,
        token_ids=token_ids,
        word_offsets=word_offsets,
        **columns,
    )


def _flat(lists: pa.LargeListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return (offsets from 0, values) of a list column, also when the batch is a slice."""
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], values.to_numpy(zero_copy_only=False)


def _count_within(documents: np.ndarray) -> np.ndarray:
    """Number equal neighbours from 0.

    >>> _count_within(np.array([4, 4, 7])).tolist()
    [0, 1, 0]
    """
    new = np.ones(len(documents), np.bool_)
    new[1:] = documents[1:] != documents[:-1]
    starts = np.flatnonzero(new)
    return (np.arange(len(documents)) - np.repeat(starts, np.diff(np.append(starts, len(documents))))).astype(np.int32)
