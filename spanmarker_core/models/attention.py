"""Levitated-marker attention: text is encoded once, markers are queries over its keys and values.

Text tokens see text and nothing else, so a window's text states don't depend on its markers. One
pass over the text keeps each layer's keys and values; marker passes then run any number of markers
against them, in chunks, where a marker sees the window's text, itself and its partner (thesis 2.2.5).
The outputs equal those of one padded pass with a square mask, and the cost is T² + M·T instead of
samples · (T + M)².

Everything in the encoder but attention runs on sequences packed end to end in a batch of one, without
padding. For attention they are laid out in `Rows`, one window each; no mask is ever square. The attention
function is registered with transformers under `ATTENTION`, and is handed its `TextPass` or `MarkerPass`
through the encoder's keyword arguments.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.batch import on_device

#: Name to put in an encoder config's `_attn_implementation`.
ATTENTION = "levitated_markers"


class Rows:
    """Items packed end to end <-> one padded row a window and attention head.

    Args:
        lengths: int64 [n_rows], items of each row.
        heads: attention heads.
        device: where the tensors to lay out are.

    Attributes:
        offsets: int64 [n_rows + 1]; row `i` is items `offsets[i]:offsets[i + 1]`.
        shape: (n_rows, heads, longest).
        padding: bool [n_rows, longest], True where a row has no item; None where all are equally long.

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
        # Padding repeats the row's first item: any finite value does, and this one is near in memory.
        items = self.offsets[:-1, None] + np.where(real, column, 0)
        row, place = np.nonzero(real)
        slots = (row[:, None] * heads + head.T) * self.shape[2] + place[:, None]
        self._places = on_device((items[:, None] * heads + head).ravel(), device)
        self._slots = on_device(slots.ravel(), device)
        self.padding = None if real.all() else on_device(~real, device)

    def pad(self, packed: Tensor) -> Tensor:
        """[items, heads, size] -> [rows, heads, longest, size]."""
        return packed.flatten(0, 1).index_select(0, self._places).view(*self.shape, -1)

    def pack(self, padded: Tensor) -> Tensor:
        """[rows, heads, longest, size] -> [items, heads, size]."""
        return padded.flatten(0, 2).index_select(0, self._slots).view(-1, self.shape[1], padded.shape[-1])


class TextPass:
    """Attention of text within its own window; keeps keys and values for the marker passes.

    Args:
        rows: the windows.

    Attributes:
        keys: of each layer, scaled, [windows, heads, size, longest].
        values: of each layer, [windows, heads, longest, size].
        states: [n_tokens, hidden], the encoder's output, once the pass is done.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.states: Tensor
        self._mask = None if rows.padding is None else ~rows.padding[:, None, None, :]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within windows: [tokens, heads, size] -> the same."""
        q, k, v = (self.rows.pad(x) for x in (query, key, value))
        self._keep(k, v, scaling)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask, dropout_p=dropout, scale=scaling)
        return self.rows.pack(attended)

    def _keep(self, key: Tensor, value: Tensor, scaling: float) -> None:
        # Laid out once as the products of all marker chunks need them.
        self.keys.append((key.transpose(2, 3) * scaling).contiguous())
        self.values.append(value)


class StatesPass(TextPass):
    """Attention of text within its own window; keeps no layer's keys and values, for models without markers."""

    def _keep(self, key: Tensor, value: Tensor, scaling: float) -> None:
        pass


class MarkerPass:
    """Attention of markers over the text of their window and, unless told otherwise, themselves and their partner.

    Paired markers are packed as start, end, start, end, …: the partner of marker `i` is `i ^ 1`. Below the
    layer where pairing begins a marker depends on its own word alone, so that one start and one end marker a
    word stand for all spans; `pair_up` makes the pairs out of them.

    Args:
        text: the finished pass over the text.
        windows: half-open range of the windows that have markers here.
        pairs: a row of paired markers for each of these windows.
        singles: a row of single markers for each of these windows; None where all layers pair.
        members: int64 [pairs], the single marker that each paired one continues.
        itself, partner: whether a marker sees itself and, where it is paired, its partner.
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
        """[1, singles, hidden] -> [1, pairs, hidden], where pairing begins."""
        assert self._members is not None
        self.rows, self.paired = self._pairs, True
        return states.index_select(1, self._members)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from markers: [markers, heads, size] -> the same."""
        keys = self.text.keys[self.layer][self.windows, :, :, : self._text_length].flatten(0, 1)
        values = self.text.values[self.layer][self.windows, :, : self._text_length].flatten(0, 1)
        self.layer += 1
        # Which markers each sees beside the text, as what puts them in the places of those that see them.
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
        """Return what is added to scores: -inf where a window's text has ended, [windows · heads, 1, text] or a 0."""
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
    """Attend as transformers' attention interface asks: [1, heads, n, size] -> ([1, n, heads, size], None)."""
    if levitated is None:
        raise TypeError(f"{type(module).__name__} did not hand on the 'levitated' argument")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (x.transpose(1, 2)[0] for x in (query, key, value))
    return levitated.attend(query, key, value, scaling, dropout)[None].contiguous(), None


AttentionInterface.register(ATTENTION, levitated_marker_attention)


def pair_late(layer: nn.Module) -> None:
    """Let markers pair up on their way into `layer` of an encoder, if their pass has them pair from there on."""
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
    """[markers, …], exchanging neighbours: start, end, … -> end, start, …."""
    return markers.view(-1, 2, *markers.shape[1:]).flip(1).view(markers.shape)
