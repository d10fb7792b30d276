"""Levitated-marker attention: text is encoded once, and markers are queries over its keys and values.

Text tokens attend to text only, so a window's text states don't depend on its markers. One pass over
the text keeps each layer's keys and values; marker passes then run any number of markers against them,
in chunks, where a marker attends to the window's text, itself and its partner (thesis 2.2.5). The outputs
equal those of one padded pass with a square mask, but the cost is T² + M·T instead of samples · (T + M)².

All parts of the encoder except attention run on sequences packed end to end in a batch of one, without
padding. For attention they are arranged in `Rows`, one per window; masks are never square. The attention
function is registered with transformers under `ATTENTION`, and receives its `TextPass` or `MarkerPass`
through the encoder's keyword arguments.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.batch import on_device

#: Value for an encoder config's `_attn_implementation`.
ATTENTION = "levitated_markers"


class Rows:
    """Conversion between items packed end to end and padded rows, one per window and attention head.

    Args:
        lengths: int64 [n_rows], number of items of each row.
        heads: attention heads.
        device: device of the tensors to convert.

    Attributes:
        offsets: int64 [n_rows + 1]; row `i` is items `offsets[i]:offsets[i + 1]`.
        shape: (n_rows, heads, longest).
        padding: bool [n_rows, longest], True in padding; None if all rows are equally long.

    >>> rows = Rows(np.array([1, 2]), 2, torch.device("cpu"))
    >>> packed = torch.tensor([[[7], [70]], [[8], [80]], [[9], [90]]])
    >>> padded = rows.pad(packed)
    >>> padded.flatten(2).tolist(), rows.padding.tolist()
    ([[[7, 7], [70, 70]], [[8, 9], [80, 90]]], [[False, True], [False, False]])
    >>> torch.equal(rows.pack(padded), packed)
    True
    """

    def __init__(self, lengths: np.ndarray, heads: int, device: torch.device) -> None:
        self.offsets = ragged_offsets(lengths)
        self.shape = (len(lengths), heads, int(lengths.max(initial=0)))
        column, head = np.arange(self.shape[2]), np.arange(heads)[:, None]
        real = column < lengths[:, None]
        # Padding repeats the row's first item: any finite value will do, and this one is close in memory.
        items = self.offsets[:-1, None] + np.where(real, column, 0)
        row, place = np.nonzero(real)
        slots = (row[:, None] * heads + head.T) * self.shape[2] + place[:, None]
        self._places = on_device((items[:, None] * heads + head).ravel(), device)
        self._slots = on_device(slots.ravel(), device)
        self.padding = None if real.all() else on_device(~real, device)

    def pad(self, packed: Tensor) -> Tensor:
        """Convert packed items to padded rows: [items, heads, size] -> [rows, heads, longest, size].

        Args:
            packed: [items, heads, size].
        """
        return packed.flatten(0, 1).index_select(0, self._places).view(*self.shape, -1)

    def pack(self, padded: Tensor) -> Tensor:
        """Convert padded rows to packed items: [rows, heads, longest, size] -> [items, heads, size].

        Args:
            padded: [rows, heads, longest, size].
        """
        return padded.flatten(0, 2).index_select(0, self._slots).view(-1, self.shape[1], padded.shape[-1])


class TextPass:
    """Attention of text within its window that keeps keys and values for the marker passes.

    Args:
        rows: the windows.

    Attributes:
        rows: the windows.
        keys: scaled keys of each layer, [windows, heads, size, longest].
        values: values of each layer, [windows, heads, longest, size].
        states: [n_tokens, hidden], the encoder's output, after the pass.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.states: Tensor
        self._mask = None if rows.padding is None else ~rows.padding[:, None, None, :]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within windows.

        Args:
            query: [n_tokens, heads, size].
            key: of the same shape.
            value: of the same shape.
            scaling: factor for the scores.
            dropout: dropout rate for the attention weights.

        Returns:
            A tensor of the same shape.
        """
        q, k, v = (self.rows.pad(x) for x in (query, key, value))
        self._keep(k, v, scaling)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask, dropout_p=dropout, scale=scaling)
        return self.rows.pack(attended)

    def _keep(self, key: Tensor, value: Tensor, scaling: float) -> None:
        # Arranged once for the matrix products of all marker chunks.
        self.keys.append((key.transpose(2, 3) * scaling).contiguous())
        self.values.append(value)


class StatesPass(TextPass):
    """Attention of text within its window that discards keys and values, for models without markers."""

    def _keep(self, key: Tensor, value: Tensor, scaling: float) -> None:
        pass


class MarkerPass:
    """Attention of markers over the text of their window and, by default, themselves and their partner.

    Paired markers are packed as start, end, start, end, …: the partner of marker `i` is `i ^ 1`. Below the
    layer where pairing begins, a marker depends only on its own word, so one start and one end marker per
    word serve all spans; `pair_up` expands them to pairs.

    Args:
        text: the finished pass over the text.
        windows: half-open range of the windows of the markers.
        pairs: a row of paired markers for each of these windows.
        singles: a row of single markers for each of these windows; None if pairs are used in all layers.
        members: int64 [n_paired], index of the single marker for each paired one.
        itself: whether a marker attends to itself.
        partner: whether a paired marker attends to its partner.

    Attributes:
        rows: the current rows, of single or paired markers.
        paired: whether the markers are paired.
        layer: index of the next layer.
    """

    def __init__(
        self,
        text: TextPass,
        windows: tuple[int, int],
        pairs: Rows,
        singles: Rows | None = None,
        members: Tensor | None = None,
        itself: bool = True,
        partner: bool = True,
    ) -> None:
        self.text = text
        self.windows = slice(*windows)
        self.rows = pairs if singles is None else singles
        self.paired = singles is None
        self._itself, self._partner = itself, partner
        self.layer = 0
        self._pairs, self._members = pairs, members
        self._text_length = int(np.diff(text.rows.offsets)[self.windows].max(initial=0))
        self._hidden: Tensor | None = None
        if text.rows.padding is not None:
            self._hidden = text.rows.padding[self.windows, None, None, : self._text_length]

    def pair_up(self, states: Tensor) -> Tensor:
        """Expand single markers to pairs, at the layer where pairing begins.

        Args:
            states: [1, n_singles, hidden].

        Returns:
            States of the paired markers, [1, n_paired, hidden].
        """
        assert self._members is not None
        self.rows, self.paired = self._pairs, True
        return states.index_select(1, self._members)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from markers.

        Args:
            query: [n_markers, heads, size].
            key: of the same shape.
            value: of the same shape.
            scaling: factor for the scores.
            dropout: dropout rate for the attention weights.

        Returns:
            A tensor of the same shape.
        """
        keys = self.text.keys[self.layer][self.windows, :, :, : self._text_length].flatten(0, 1)
        values = self.text.values[self.layer][self.windows, :, : self._text_length].flatten(0, 1)
        self.layer += 1
        # The markers that each marker attends to besides the text, as functions that align them with it.
        beside = [_same] if self._itself else []
        if self.paired and self._partner:
            beside.append(_swap_pairs)
        scores = torch.baddbmm(self._bias(keys), self.rows.pad(query).flatten(0, 1), keys)
        if beside:
            marker_scores = torch.stack([(query * seen(key)).sum(-1) for seen in beside], dim=-1) * scaling
            scores = torch.cat([scores, self.rows.pad(marker_scores).flatten(0, 1)], dim=-1)
        weights = F.dropout(scores.softmax(dim=-1), dropout, training=dropout > 0)
        attended = self.rows.pack((weights[..., : self._text_length] @ values).view(*self.rows.shape, -1))
        if beside:
            marker_weights = self.rows.pack(weights[..., self._text_length :].reshape(*self.rows.shape, -1))
            for place, seen in enumerate(beside):
                attended = torch.addcmul(attended, marker_weights[..., place : place + 1], seen(value))
        return attended

    def _bias(self, keys: Tensor) -> Tensor:
        """Return the bias for scores: -inf after the end of a window's text, [windows · heads, 1, text]; or one 0."""
        if self._hidden is None:
            return keys.new_zeros(1)
        bias = keys.new_zeros(self._hidden.shape).masked_fill(self._hidden, float("-inf"))
        return bias.expand(-1, self.rows.shape[1], -1, -1).flatten(0, 1)


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
    """Attend through transformers' attention interface.

    Args:
        module: the attention module of a layer.
        query: [1, heads, n, size].
        key: of the same shape.
        value: of the same shape.
        attention_mask: unused; the pass has its own mask.
        scaling: factor for the scores; None for size ** -0.5.
        dropout: dropout rate for the attention weights.
        levitated: the pass over the text or over markers.
        kwargs: unused.

    Returns:
        The output, [1, n, heads, size], and None.

    Raises:
        TypeError: the encoder does not pass the argument `levitated` to its layers.
    """
    if levitated is None:
        raise TypeError(f"{type(module).__name__} did not pass on the 'levitated' argument")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (x.transpose(1, 2)[0] for x in (query, key, value))
    return levitated.attend(query, key, value, scaling, dropout)[None].contiguous(), None


AttentionInterface.register(ATTENTION, levitated_marker_attention)


def pair_late(layer: nn.Module) -> None:
    """Add a hook to an encoder layer that pairs the single markers of a `MarkerPass` at its input.

    Args:
        layer: the first layer in which partners attend to each other.
    """
    layer.register_forward_pre_hook(_pair_up, with_kwargs=True)


def _pair_up(
    layer: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, object]
) -> tuple[tuple[Tensor, ...], dict[str, object]]:
    levitated = kwargs.get("levitated")
    if isinstance(levitated, MarkerPass) and not levitated.paired:
        args = (levitated.pair_up(args[0]), *args[1:])
    return args, kwargs


def _same(markers: Tensor) -> Tensor:
    return markers


def _swap_pairs(markers: Tensor) -> Tensor:
    """Swap the markers of each pair along the first axis: start, end, … -> end, start, …."""
    return markers.view(-1, 2, *markers.shape[1:]).flip(1).view(markers.shape)
