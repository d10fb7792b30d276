"""Joint passes: text and markers of a sample encoded together, under a square mask.

A sample is a copy of a window's text and the markers of a group of its spans. Separate passes for text and markers are
cheaper, but only possible if the text does not attend to markers, nor spans to other spans. Joint passes are for the
other attention masks (thesis 3.5, ablations 2a and 2e) and for PL-Marker, which uses samples by definition.

A window's spans are divided into groups of fixed size, in order, independently of the rest of the batch and of chunks.
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

#: Samples that go through the encoder at once; each has length² attention scores per head.
SAMPLES_A_CHUNK = {"cpu": 4, "cuda": 64}


class Sampling(NamedTuple):
    """The composition of samples.

    Attributes:
        attention: the attention mask: "paired" (a marker attends to the text, itself and its partner),
            "text_to_markers" (the text also attends to markers) or "all_markers" (a marker attends to all markers of
            its sample).
        group: maximum marker pairs per sample.
        text_tokens: length to which the text of each sample is padded; its markers are then padded to 2 · `group`. None
            for no padding.
    """

    attention: str
    group: int
    text_tokens: int | None = None


class SampledSpans:
    """The samples of spans [start, end), packed end to end as items: text, then markers start, end, start, end, ….

    Args:
        batch: the windows.
        spans: their candidate spans.
        start: first span, which must be the first one of a sample.
        end: last span plus one, which must be the end of a sample.
        sampling: the composition of samples.

    Attributes:
        lengths: int64 [n_samples], number of items of each sample, padding included.
        text: int64 [n_text], indices of the items that are text.
        tokens: int64 [n_text], index of the batch's token at each of them.
        markers: int64 [2 · (end - start)], indices of the items that are markers, in the order of the spans.
        begin: int64 [end - start], index of the first item in the sample of each span.
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
        """Return the attention mask, bool [n_samples, longest, longest]: [i, j] is True if item i attends to item j.

        Args:
            device: device of the mask.

        A window of two tokens and two spans with "paired" attention: all items attend to text, and markers to their
        pair.

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
        # Padding attends to the text, because each row needs at least one item; no item attends to padding.
        return is_text[:, None, :] | (sees_marker & is_marker[:, None, :])


class JointPass:
    """Attention within samples of text and markers, under a mask.

    Args:
        rows: the samples.
        mask: bool [n_samples, longest, longest], True where the first item attends to the second.
    """

    def __init__(self, rows: Rows, mask: Tensor) -> None:
        self._rows = rows
        self._mask = mask[:, None]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within samples.

        Args:
            query: [n_items, heads, size].
            key: of the same shape.
            value: of the same shape.
            scaling: factor for the scores.
            dropout: dropout rate for the attention weights.

        Returns:
            A tensor of the same shape.
        """
        q, k, v = (self._rows.pad(x) for x in (query, key, value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask, dropout_p=dropout, scale=scaling)
        return self._rows.pack(attended)


def sample_starts(offsets: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the window and the first span of each sample, int64 [n_samples] each.

    Args:
        offsets: int64 [n_windows + 1]; the spans of window `i` are `offsets[i]:offsets[i + 1]`.
        group: maximum spans per sample.

    Three windows of 5, 0 and 2 spans, with two spans per sample:

    >>> window, first = sample_starts(np.array([0, 5, 5, 7]), 2)
    >>> window.tolist(), first.tolist()
    ([0, 0, 0, 2], [0, 2, 4, 5])
    """
    samples = ragged_offsets(-(-np.diff(offsets) // group))
    window = np.repeat(np.arange(len(offsets) - 1), np.diff(samples))
    return window, offsets[window] + group * (np.arange(samples[-1]) - samples[window])
