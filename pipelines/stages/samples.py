"""Samples: windows with the ids of their documents and their texts, in memory and as SAMPLES rows.

The stages hand on `Samples`. Rows are made only where samples are stored or sent to another process.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import SAMPLES
from spanmarker_core.windows.packer import Windows

_WORD_COLUMNS = tuple(name for name in SAMPLES.schema.names if name.startswith("word_"))


@dataclass(frozen=True, slots=True)
class Samples:
    """Windows of documents. The windows of a document are together and in order.

    Attributes:
        windows: the windows; `windows.document` rises from document to document.
        document_ids: large_string [n], id of each window's document.
        window_ids: int32 [n], number of each window in its document, from 0.
        texts: text of each window, from its first word to its last.
    """

    windows: Windows
    document_ids: pa.Array
    window_ids: np.ndarray
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, indices: np.ndarray) -> "Samples":
        """Return the samples at the given indices.

        Args:
            indices: int64, rising.
        """
        return Samples(
            self.windows.take(indices),
            self.document_ids.take(pa.array(indices)),
            self.window_ids[indices],
            [self.texts[index] for index in indices.tolist()],
        )

    @staticmethod
    def concatenate(parts: Sequence["Samples"]) -> "Samples":
        """Concatenate samples.

        Args:
            parts: samples of successive documents, or of successive parts of a document; possibly none.
        """
        if len(parts) == 1:
            return parts[0]
        parts = parts or [samples_of(SAMPLES.empty())]
        return Samples(
            Windows.concatenate([part.windows for part in parts]),
            pa.concat_arrays([part.document_ids for part in parts]),
            np.concatenate([part.window_ids for part in parts]),
            [text for part in parts for text in part.texts],
        )


def rows_of(samples: Samples) -> pa.RecordBatch:
    """Return samples as SAMPLES rows.

    Args:
        samples: the samples.
    """
    windows = samples.windows
    return pa.RecordBatch.from_arrays(
        [
            samples.document_ids,
            pa.array(samples.window_ids),
            pa.array(samples.texts, pa.large_string()),
            pa.array(text_bounds(windows)[0]),
            _lists(windows.token_offsets, windows.token_ids),
            *(_lists(windows.word_offsets, getattr(windows, name)) for name in _WORD_COLUMNS),
        ],
        schema=SAMPLES.schema,
    )


def samples_of(rows: pa.RecordBatch) -> Samples:
    """Return SAMPLES rows as samples.

    Args:
        rows: the rows, each document's together.
    """
    return Samples(windows_of(rows), rows["document_id"], rows["window_id"].to_numpy(), rows["text"].to_pylist())


def windows_of(rows: pa.RecordBatch) -> Windows:
    """Return the windows of SAMPLES rows, with documents numbered in the order of the rows.

    Args:
        rows: the rows, each document's together. `word_char_start` and `word_char_end` may be missing, like all columns
            outside the windows but `document_id`; they are -1 then.
    """
    edges = document_edges(rows["document_id"])
    token_offsets, token_ids = flat(rows["token_ids"])
    words = {name: flat(rows[name]) for name in _WORD_COLUMNS if name in rows.schema.names}
    word_offsets, sentences = words["word_sentence"]
    nowhere = np.full(len(sentences), -1, np.int64)
    without_text = {"word_char_start": nowhere, "word_char_end": nowhere}
    return Windows(
        document=np.repeat(np.arange(len(edges) - 1, dtype=np.int32), np.diff(edges)),
        token_offsets=token_offsets,
        token_ids=token_ids,
        word_offsets=word_offsets,
        **without_text | {name: values for name, (_, values) in words.items()},
    )


def document_edges(ids: pa.Array) -> np.ndarray:
    """Return the row at which each document begins, and the number of rows.

    Args:
        ids: the document id of each row; the rows of a document are together.

    >>> document_edges(pa.array(["a", "a", "b"])).tolist()
    [0, 2, 3]
    """
    if len(ids) == 0:
        return np.zeros(1, np.int64)
    new = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(new) + 1, [len(ids)]])


def text_bounds(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the character at which each window's first word begins, and the one at which its last word ends.

    Args:
        windows: the windows.
    """
    return windows.word_char_start[windows.word_offsets[:-1]], windows.word_char_end[windows.word_offsets[1:] - 1]


def flat(lists: pa.LargeListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return (offsets from 0, values) of a list column, also of a slice.

    Args:
        lists: the column.
    """
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], values.to_numpy(zero_copy_only=False)


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.LargeListArray:
    item = pa.field("item", pa.from_numpy_dtype(values.dtype), nullable=False)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), type=pa.large_list(item))
