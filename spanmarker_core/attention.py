"""Levitated-marker attention: text is encoded once, markers are queries over its keys and values.

Text tokens see text and nothing else, so a window's text states don't depend on its markers. One
pass over the text keeps each layer's keys and values; marker passes then run any number of markers
against them, in chunks, where a marker sees the window's text, itself and its partner (thesis 2.2.5).
The outputs equal those of one padded pass with a square mask, and the cost is T² + M·T instead of
samples · (T + M)².

Sequences are packed end to end in a batch of one, so that everything in the encoder but attention
runs without padding. The attention function is registered with transformers under `ATTENTION`, and is
handed its `TextPass` or `MarkerPass` through the encoder's keyword arguments.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

#: Name to put in an encoder config's `_attn_implementation`.
ATTENTION = "levitated_markers"


class TextPass:
    """Attention of text within its own window; keeps keys and values for the marker passes.

    Args:
        offsets: window `i` is tokens `offsets[i]:offsets[i + 1]` of the packed sequence.
    """

    def __init__(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within windows: [1, heads, tokens, size] -> the same. Windows of one length go together."""
        self.keys.append(key)
        self.values.append(value)
        outputs = []
        lengths = [end - start for start, end in zip(self.offsets, self.offsets[1:], strict=False)]
        position = 0
        for length, run in groupby(lengths):
            count = sum(1 for _ in run)
            window = slice(position, position + count * length)
            q, k, v = (_unpack(x[:, :, window], count) for x in (query, key, value))
            attended = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling)
            outputs.append(attended.transpose(0, 1).reshape(1, query.shape[1], count * length, -1))
            position = window.stop
        return torch.cat(outputs, dim=2)


class MarkerPass:
    """Attention of markers over the text of their window, themselves and their partner.

    Markers are packed as start, end, start, end, …: the partner of marker `i` is `i ^ 1`.

    Args:
        text: the finished pass over the text.
        segments: (window, marker_start, marker_end), half-open, for each window that has markers here,
            covering all markers in order.
    """

    def __init__(self, text: TextPass, segments: Sequence[tuple[int, int, int]]) -> None:
        self.text = text
        self.segments = segments
        self.layer = 0

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from markers: [1, heads, markers, size] -> the same."""
        text_key, text_value = self.text.keys[self.layer], self.text.values[self.layer]
        self.layer += 1
        partner_key, partner_value = _swap_pairs(key), _swap_pairs(value)
        pair = torch.stack([(query * key).sum(-1), (query * partner_key).sum(-1)], dim=-1) * scaling
        outputs = []
        for window, start, end in self.segments:
            tokens = slice(self.text.offsets[window], self.text.offsets[window + 1])
            scores = query[:, :, start:end] @ text_key[:, :, tokens].transpose(-1, -2) * scaling
            weights = torch.cat([scores, pair[:, :, start:end]], dim=-1).softmax(dim=-1)
            weights = F.dropout(weights, dropout, training=dropout > 0)
            outputs.append(
                weights[..., :-2] @ text_value[:, :, tokens]
                + weights[..., -2:-1] * value[:, :, start:end]
                + weights[..., -1:] * partner_value[:, :, start:end]
            )
        return torch.cat(outputs, dim=2)


def levitated_marker_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    levitated: TextPass | MarkerPass | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attend as transformers' attention interface asks: [1, heads, n, size] -> ([1, n, heads, size], None)."""
    if levitated is None:
        raise TypeError(f"{type(module).__name__} did not hand on the 'levitated' argument")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return levitated.attend(query, key, value, scaling, dropout).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, levitated_marker_attention)


def _unpack(packed: Tensor, count: int) -> Tensor:
    """[1, heads, count · length, size] -> [count, heads, length, size]."""
    _, heads, total, size = packed.shape
    return packed.reshape(heads, count, total // count, size).transpose(0, 1)


def _swap_pairs(markers: Tensor) -> Tensor:
    """Exchange neighbours along the marker axis: start, end, … -> end, start, …."""
    one, heads, count, size = markers.shape
    return markers.reshape(one, heads, count // 2, 2, size).flip(3).reshape(one, heads, count, size)
