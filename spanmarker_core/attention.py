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

from spanmarker_core.ragged import ragged_offsets

#: Name to put in an encoder config's `_attn_implementation`.
ATTENTION = "levitated_markers"


class Rows:
    """Items packed end to end <-> one padded row for each window.

    Args:
        lengths: int64 [n_rows], items of each row.
        device: where the tensors to pad are.

    Attributes:
        offsets: int64 [n_rows + 1]; row `i` is items `offsets[i]:offsets[i + 1]`.
        padding: bool [n_rows, longest], True where a row has no item; None where all are equally long.

    >>> rows = Rows(np.array([1, 2]), torch.device("cpu"))
    >>> padded = rows.pad(torch.tensor([[[[7]], [[8]], [[9]]]]).transpose(1, 2))
    >>> padded.flatten().tolist(), rows.padding.tolist()
    ([7, 7, 8, 9], [[False, True], [False, False]])
    >>> rows.pack(padded).flatten().tolist()
    [7, 8, 9]
    """

    def __init__(self, lengths: np.ndarray, device: torch.device) -> None:
        self.offsets = ragged_offsets(lengths)
        self.shape = (len(lengths), int(lengths.max(initial=0)))
        self.padding: Tensor | None = None
        if (lengths != self.shape[1]).any():
            column = np.arange(self.shape[1])
            real = column < lengths[:, None]
            # Padding repeats the row's first item: any finite value does, and this one is near in memory.
            places = self.offsets[:-1, None] + np.where(real, column, 0)
            self._places = torch.from_numpy(places.ravel()).to(device, non_blocking=True)
            self._slots = torch.from_numpy(np.flatnonzero(real)).to(device, non_blocking=True)
            self.padding = torch.from_numpy(~real).to(device, non_blocking=True)

    def pad(self, packed: Tensor) -> Tensor:
        """[1, heads, items, size] -> [rows, longest, heads, size]."""
        items = packed.transpose(1, 2)[0]
        if self.padding is not None:
            items = items.index_select(0, self._places)
        return items.reshape(*self.shape, *items.shape[1:])

    def pack(self, padded: Tensor) -> Tensor:
        """[rows, longest, …] -> [items, …]."""
        items = padded.reshape(-1, *padded.shape[2:])
        return items if self.padding is None else items.index_select(0, self._slots)


class TextPass:
    """Attention of text within its own window; keeps keys and values for the marker passes.

    Args:
        rows: the windows.

    Attributes:
        keys, values: of each layer, [windows, longest, heads, size].
        states: [n_tokens, hidden], the encoder's output, once the pass is done.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.states: Tensor
        self._mask = None if rows.padding is None else ~rows.padding[:, None, None, :]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend within windows: [1, heads, tokens, size] -> [tokens, heads, size]."""
        query, key, value = (self.rows.pad(x) for x in (query, key, value))
        self.keys.append(key)
        self.values.append(value)
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask, dropout_p=dropout, scale=scaling)
        return self.rows.pack(attended.transpose(1, 2))


class MarkerPass:
    """Attention of markers over the text of their window, themselves and, where they pair, their partner.

    Paired markers are packed as start, end, start, end, …: the partner of marker `i` is `i ^ 1`. Below the
    layer where pairing begins a marker depends on its own word alone, so that one start and one end marker a
    word stand for all spans; `pair_up` makes the pairs out of them.

    Args:
        text: the finished pass over the text.
        windows: half-open range of the windows that have markers here.
        pairs: a row of paired markers for each of these windows.
        singles: a row of single markers for each of these windows; None where all layers pair.
        members: int64 [pairs], the single marker that each paired one continues.
    """

    def __init__(
        self,
        text: TextPass,
        windows: tuple[int, int],
        pairs: Rows,
        singles: Rows | None = None,
        members: Tensor | None = None,
    ) -> None:
        self.text = text
        self.windows = slice(*windows)
        self.rows = pairs if singles is None else singles
        self.paired = singles is None
        self.layer = 0
        self._pairs, self._members = pairs, members
        text_padding = text.rows.padding
        self._text_length = int(np.diff(text.rows.offsets)[self.windows].max(initial=0))
        self._hidden: Tensor | None = None
        if text_padding is not None:
            self._hidden = text_padding[self.windows, None, None, : self._text_length]

    def pair_up(self, states: Tensor) -> Tensor:
        """[1, singles, hidden] -> [1, pairs, hidden], where pairing begins."""
        assert self._members is not None
        self.rows, self.paired = self._pairs, True
        return states.index_select(1, self._members)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from markers: [1, heads, markers, size] -> [markers, heads, size]."""
        text_key, text_value = (
            kept[self.layer][self.windows, : self._text_length].transpose(1, 2)
            for kept in (self.text.keys, self.text.values)
        )
        self.layer += 1
        own = [(query * key).sum(-1)]
        if self.paired:
            own.append((query * _swap_pairs(key)).sum(-1))
        own_scores = self.rows.pad(torch.stack(own, dim=-1) * scaling).transpose(1, 2)
        scores = self.rows.pad(query).transpose(1, 2) @ text_key.transpose(-1, -2) * scaling
        if self._hidden is not None:
            scores = scores.masked_fill(self._hidden, float("-inf"))
        weights = torch.cat([scores, own_scores], dim=-1).softmax(dim=-1)
        weights = F.dropout(weights, dropout, training=dropout > 0)
        seen = weights[..., : self._text_length] @ text_value
        seen = self.rows.pack(seen.transpose(1, 2))
        own_weights = self.rows.pack(weights[..., self._text_length :].transpose(1, 2))
        seen = torch.addcmul(seen, own_weights[..., :1], value.transpose(1, 2)[0])
        if self.paired:
            seen = torch.addcmul(seen, own_weights[..., 1:], _swap_pairs(value).transpose(1, 2)[0])
        return seen


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


def _swap_pairs(markers: Tensor) -> Tensor:
    """Exchange neighbours along the marker axis: start, end, … -> end, start, …."""
    one, heads, count, size = markers.shape
    return markers.reshape(one, heads, count // 2, 2, size).flip(3).reshape(one, heads, count, size)
