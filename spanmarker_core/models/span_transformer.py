"""The span Transformer of DSpERT (Zhu et al. 2023, section 3): encoder layers applied to spans as well as tokens.

At each layer a span's state is the only query, over the keys and values of the span's own tokens (equation 3):

    s^l = SpanTrBlock(s^(l-1), H^(l-1)[span], H^(l-1)[span])

A block is an unmodified encoder layer with its attention replaced, run on the tokens' states H^(l-1) and the spans'
states s^(l-1), packed end to end. Its projections produce the keys and values of tokens and the queries of spans,
wherever the encoder has its projections and norms; the output rows of tokens are not used. Compared with the paper,
this is one extra row per token, while the spans of up to K tokens are K rows per token.

Spans that begin at the same token share one gather of keys and values, so that a layer's memory grows with K·T and not
with K²·T, and attention consists of small dense products, K rows per token over K keys: the paper's O(K²Td + KTd²).
"""

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from spanmarker_core.errors import UnusableError, wrap_errors
from spanmarker_core.models.attention import Rows, StatesPass
from spanmarker_core.models.batch import on_device
from spanmarker_core.models.encoders import encoder_layers


class LayeredText(StatesPass):
    """Attention of text within its window that keeps the inputs of layers instead of their keys and values.

    Args:
        rows: the windows.

    Attributes:
        inputs: inputs of each layer that a span Transformer runs: states, [n_tokens, hidden], and the other arguments.
        top: [n_tokens, size], the states that a model without a span Transformer aggregates.
    """

    top: Tensor

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.inputs: list[tuple[Tensor, tuple[Any, ...], dict[str, Any]]] = []


def _keep_inputs(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    text = kwargs.get("levitated")
    if isinstance(text, LayeredText):
        # Without the pass itself, which would keep all states alive in a reference cycle.
        others = {name: value for name, value in kwargs.items() if value is not text}
        text.inputs.append((args[0][0], args[1:], others))


class SpanAttention:
    """Attention of spans over their own tokens, for rows of tokens followed by rows of spans.

    Args:
        first: int64 [n_spans], first token of each span in the packed text, in increasing order; at least one span.
        last: int64 [n_spans], last token, inclusive.
        heads: attention heads.
        device: device of the tensors.

    Attributes:
        tokens: int64 [n], positions in the packed text of all tokens of spans: the rows before those of spans.
    """

    def __init__(self, first: np.ndarray, last: np.ndarray, heads: int, device: torch.device) -> None:
        groups = np.flatnonzero(np.diff(first, prepend=-1))
        sizes = np.diff(groups, append=len(first))
        begin = first[groups]
        end = np.maximum.reduceat(last, groups) + 1
        covered = np.zeros(int(end.max()) + 1, np.int64)
        np.add.at(covered, begin, 1)
        np.add.at(covered, end, -1)
        is_covered = np.cumsum(covered) > 0
        row_of_token = np.cumsum(is_covered) - 1
        longest = int((end - begin).max())
        column = np.arange(longest)
        keys = row_of_token[np.minimum(begin[:, None] + column, end[:, None] - 1)]
        self._queries = Rows(sizes, heads, device)
        # Padding of a row repeats its first span, as in `Rows`.
        place = np.arange(self._queries.shape[2])
        span = groups[:, None] + np.where(place < sizes[:, None], place, 0)
        sees = column < (last - first + 1)[span][..., None]
        self.tokens = on_device(np.flatnonzero(is_covered), device)
        self._keys = on_device(keys.ravel(), device)
        self._shape = keys.shape
        self._sees = on_device(sees[:, None], device)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from spans to their tokens.

        Args:
            query: [n_tokens + n_spans, heads, size].
            key: of the same shape.
            value: of the same shape.
            scaling: factor for the scores.
            dropout: dropout rate for the attention weights.

        Returns:
            A tensor of the same shape, with zeros for tokens.
        """
        n_tokens = len(self.tokens)
        q = self._queries.pad(query[n_tokens:])
        k, v = (x.index_select(0, self._keys).view(*self._shape, *x.shape[1:]).transpose(1, 2) for x in (key, value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._sees, dropout_p=dropout, scale=scaling)
        attended = self._queries.pack(attended)
        return torch.cat([attended.new_zeros(n_tokens, *attended.shape[1:]), attended])


class SpanTransformer(nn.Module):
    """The top layers of an encoder as a span Transformer: separately trained copies, or the layers themselves.

    Args:
        encoder: the encoder. A hook is added to its layers that records their inputs for a `LayeredText`.
        n_layers: number of top layers; at least 1.
        share_weights: run the encoder's own layers instead of copies.
        position_offset: position id of a text's first token.

    Attributes:
        layers: the copies; empty with shared weights.
        norm: a copy of the module after the encoder's last layer; None without such a module or with shared weights.

    Raises:
        UnusableError: the encoder has no list of layers or too few; its layers rotate queries and keys by position,
            which spans don't have; or its last layer is followed by more than one module.
    """

    def __init__(self, encoder: PreTrainedModel, n_layers: int, share_weights: bool, position_offset: int) -> None:
        super().__init__()
        own = encoder_layers(encoder, "a span Transformer")
        if n_layers > len(own):
            raise UnusableError(f"span_layers is {n_layers}, but the encoder has {len(own)} layers")
        top = list(own[len(own) - n_layers :])
        norm = _norm_after(encoder, own, position_offset)
        self.layers, self.norm = nn.ModuleList(), None
        if not share_weights:
            self.layers = nn.ModuleList(copy.deepcopy(layer) for layer in top)
            self.norm = copy.deepcopy(norm)
        # A tuple, so that they aren't registered as submodules.
        self._shared = (top, norm) if share_weights else None
        for layer in top:
            layer.register_forward_pre_hook(_keep_inputs, with_kwargs=True)

    def forward(self, states: Tensor, attention: SpanAttention, text: LayeredText) -> Tensor:
        """Run spans through the layers.

        Args:
            states: [n_spans, hidden], initial states of the spans.
            attention: attention of these spans.
            text: the finished pass over the text.

        Returns:
            Final states, [n_spans, hidden].
        """
        layers, norm = self._shared or (self.layers, self.norm)
        for layer, (token_states, args, kwargs) in zip(layers, text.inputs, strict=True):
            tokens = token_states.index_select(0, attention.tokens)
            output = layer(torch.cat([tokens, states])[None], *args, **{**kwargs, "levitated": attention})
            states = _first(output)[0, len(tokens) :]
        return states if norm is None else norm(states)


@torch.no_grad()
def _norm_after(encoder: PreTrainedModel, layers: nn.ModuleList, position_offset: int) -> nn.Module | None:
    """Return the module that the encoder applies after its last layer, found by running it on two tokens."""
    calls: list[tuple[nn.Module, dict[str, Any], Tensor, Tensor]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(_first(output), Tensor):
            calls.append((module, kwargs, args[0], _first(output)))

    inside = {inner for layer in layers for inner in layer.modules() if inner is not layer}
    hooks = [each.register_forward_hook(note, with_kwargs=True) for each in encoder.modules() if each not in inside]
    training = encoder.training
    encoder.eval()
    with wrap_errors("its encoder cannot run on packed texts"):
        ids = torch.zeros(1, 2, dtype=torch.int64)
        rows = Rows(np.array([2]), encoder.config.num_attention_heads, ids.device)
        places = torch.arange(2)[None] + position_offset
        states = encoder(input_ids=ids, position_ids=places, levitated=StatesPass(rows)).last_hidden_state
    encoder.train(training)
    for hook in hooks:
        hook.remove()
    kwargs, top = next((kwargs, output) for module, kwargs, _, output in reversed(calls) if module is layers[-1])
    if kwargs.get("position_embeddings") is not None:
        raise UnusableError("its layers rotate queries and keys by position, but a span has no single position")
    if torch.equal(top, states):
        return None
    for module, _, given, made in calls:
        if torch.equal(given, top) and torch.equal(made, states):
            return module
    raise UnusableError(f"{type(encoder).__name__} applies more than one module after its last layer")


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output
