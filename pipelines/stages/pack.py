"""Sentences -> samples: windows of subword tokens with their words' places in the document."""

from itertools import groupby

import numpy as np
import pyarrow as pa

from schemas import SAMPLES
from spanmarker_core.windows import Context, Packer, Windows


def pack(sentences: pa.RecordBatch, packer: Packer, context: Context) -> pa.RecordBatch:
    """Pack sentences into windows.

    Args:
        sentences: SENTENCES rows, whole documents, each document's rows together and in order.
        packer: the bundle's packer.
        context: what a window shows around its sentence.

    Returns:
        SAMPLES rows, each document's together, in order.
    """
    texts = sentences.column("text").to_pylist()
    char_starts = sentences.column("char_start").to_pylist()
    sentence_ids = sentences.column("sentence_id").to_pylist()
    document_ids = sentences.column("document_id").to_pylist()
    encoded = packer.encode_texts(texts)
    parts: list[Windows] = []
    ids: list[str] = []
    window_ids: list[int] = []
    rows_of_sentence: list[int] = []
    for document_id, places in groupby(range(len(texts)), key=document_ids.__getitem__):
        rows = list(places)
        windows = packer.pack(
            [encoded[row] for row in rows],
            context,
            sentence_ids=[sentence_ids[row] for row in rows],
            char_starts=[char_starts[row] for row in rows],
        )
        first_words = windows.word_offsets[:-1]
        rows_of_sentence += [
            rows[place]
            for place in np.searchsorted([sentence_ids[row] for row in rows], windows.word_sentence[first_words])
        ]
        parts.append(windows)
        ids += [document_id] * len(windows)
        window_ids += range(len(windows))
    if not parts:
        return SAMPLES.empty()
    windows = Windows.concatenate(parts)
    # Only the text under a window's own words: a sentence of megabytes has thousands of windows.
    starts = windows.word_char_start[windows.word_offsets[:-1]]
    ends = windows.word_char_end[windows.word_offsets[1:] - 1]
    covered = [
        texts[row][start - char_starts[row] : end - char_starts[row]]
        for row, start, end in zip(rows_of_sentence, starts.tolist(), ends.tolist(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.large_string()),
            pa.array(window_ids, pa.int32()),
            pa.array(covered, pa.large_string()),
            pa.array(starts),
            _lists(windows.token_offsets, windows.token_ids),
            *(_lists(windows.word_offsets, getattr(windows, name)) for name in WORD_COLUMNS),
        ],
        schema=SAMPLES.schema,
    )


WORD_COLUMNS = tuple(name for name in SAMPLES.schema.names if name.startswith("word_"))


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.LargeListArray:
    item = pa.field("item", pa.from_numpy_dtype(values.dtype), nullable=False)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), type=pa.large_list(item))
