"""Joint passes: text and markers of one sample together, under a square mask.

A sample is a copy of a window's text and the markers of a group of its spans. `TextPass` and `MarkerPass` do the same
for less where the text sees no marker and no span another; this is for attention where they do (thesis 3.5, ablations
2a and 2e), and for PL-Marker, which works so.

Groups are a window's spans in their order, so many a group, whatever else is in a batch and however it is worked off.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spanmarker_core.arrays.ragged import ragged_offsets, ragged_ranges
from spanmarker_core.models.attention import Rows
from spanmarker_core.models.batch import Batch
from spanmarker_core.spans.candidates import Spans

#: Samples that go through the encoder at once: each has scores of its length squared, a head.
SAMPLES_A_CHUNK = {"cpu": 4, "cuda": 64}


class Sampling(NamedTuple):
    """How samples are made.

    Attributes:
        attention: "paired", "text_to_markers" or "all_markers", see `options.SpanMarkerOptions`.
        group: marker pairs of a sample, at most.
        text_tokens: places for the text of each sample, which is padded to them, and its markers to 2 · `group`. None
            pads neither.
    """

    attention: str
    group: int
    text_tokens: int | None = None


class SampledSpans:
    """The samples of spans [start, end), laid out end to end as items: each its text, then start, end, start, end, ….

    Args:
        batch: the windows.
        spans: theirs.
        start, end: where a sample begins, and where one ends.
        sampling: how samples are made.

    Attributes:
        lengths: int64 [n_samples], items of each, padding included.
        text: int64, items that are text.
        tokens: int64, the batch's token at each of them.
        markers: int64 [2 · (end - start)], items that are markers, in the order of the spans.
        begin: int64 [end - start], the first item of the sample of each span.
    """

    def __init__(self, batch: Batch, spans: Spans, start: int, end: int, sampling: Sampling) -> None:
        window, first = sample_starts(spans.offsets, sampling.group)
        inside = slice(*np.searchsorted(first, [start, end]))
        window, first = window[inside], first[inside]
        n_spans = np.diff(np.append(first, end))
        text_start, text_end = batch.token_offsets[window], batch.token_offsets[window + 1]
        self._n_text, self._n_markers = text_end - text_start, 2 * n_spans
        self._marker_place, marker_places = self._n_text, self._n_markers
        if sampling.text_tokens is not None:
            self._marker_place = np.maximum(self._n_text, sampling.text_tokens)
            marker_places = np.full_like(n_spans, 2 * sampling.group)
        self.lengths = self._marker_place + marker_places
        begin = ragged_offsets(self.lengths)[:-1]
        self.tokens, _ = ragged_ranges(text_start, text_end)
        self.text, _ = ragged_ranges(begin, begin + self._n_text)
        self.markers, _ = ragged_ranges(begin + self._marker_place, begin + self._marker_place + self._n_markers)
        self.begin = np.repeat(begin, n_spans)
        self._attention = sampling.attention

    def mask(self, device: torch.device) -> Tensor:
        """Return who sees whom, bool [n_samples, longest, longest]: [i, j] is True where item i sees item j.

        A window of two tokens and two spans, "paired": text is seen by all, a marker by its pair.

        >>> offsets = np.array([0, 2])
        >>> spans = Spans(offsets, *[np.zeros(2, np.int64)] * 4)
        >>> empty = torch.zeros(2, dtype=torch.int64)
        >>> yes = np.ones(2, np.bool_)
        >>> batch = Batch(empty, offsets, empty, empty, spans, offsets, np.array([False]), yes, yes)
        >>> SampledSpans(batch, spans, 0, 2, Sampling("paired", 128)).mask(torch.device("cpu"))[0].int()
        tensor([[1, 1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0, 0],
                [1, 1, 1, 1, 0, 0],
                [1, 1, 1, 1, 0, 0],
                [1, 1, 0, 0, 1, 1],
                [1, 1, 0, 0, 1, 1]], dtype=torch.int32)
        """
        columns = (self._n_text, self._marker_place, self._n_markers)
        n_text, place, n_markers = (torch.from_numpy(column).to(device)[:, None] for column in columns)
        item = torch.arange(int(self.lengths.max(initial=0)), device=device)
        is_text, marker = item < n_text, item - place
        is_marker = (marker >= 0) & (marker < n_markers)
        sees_marker = is_marker[:, :, None]
        if self._attention != "all_markers":
            pair = marker // 2
            sees_marker = sees_marker & (pair[:, :, None] == pair[:, None, :])
        if self._attention == "text_to_markers":
            sees_marker = sees_marker | is_text[:, :, None]
        # Padding sees the text too: it must see something, and nothing sees it.
        return is_text[:, None, :] | (sees_marker & is_marker[:, None, :])


class JointPass:
    """Attention within samples: of text and markers, as a mask says.

    Args:
        rows: the samples.
        mask: bool [n_samples, longest, longest], True where the first item sees the second.
    """

    def __init__(self, rows: Rows, mask: Tensor) -> None:
        self._rows = rows
        self._mask = mask[:, None]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within samples: [items, heads, size] -> the same."""
        q, k, v = (self._rows.pad(x) for x in (query, key, value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask, dropout_p=dropout, scale=scaling)
        return self._rows.pack(attended)


def sample_starts(offsets: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the window and the first span of each sample, int64 each.

    Args:
        offsets: int64 [n_windows + 1], the spans of window `i` are `offsets[i]:offsets[i + 1]`.
        group: spans of a sample, at most.

    Three windows of 5, 0 and 2 spans, two a sample:

    >>> window, first = sample_starts(np.array([0, 5, 5, 7]), 2)
    >>> window.tolist(), first.tolist()
    ([0, 0, 0, 2], [0, 2, 4, 5])
    """
    samples = ragged_offsets(-(-np.diff(offsets) // group))
    window = np.repeat(np.arange(len(offsets) - 1), np.diff(samples))
    return window, offsets[window] + group * (np.arange(samples[-1]) - samples[window])
