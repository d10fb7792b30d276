"""The span Transformer of DSpERT (Zhu et al. 2023, section 3): spans climb the encoder's layers beside its tokens.

At each layer a span's state is the only query, over the keys and values of the span's own tokens (equation 3):

    s^l = SpanTrBlock(s^(l-1), H^(l-1)[span], H^(l-1)[span])

A block is an encoder layer as it is, run on the tokens' states H^(l-1) and the spans' s^(l-1) packed end to end, with
an attention of its own: its projections make the keys and values of tokens and the queries of spans, wherever a kind of
encoder has them and its norms, and the rows of tokens come out unused. Beside the paper's work that is a row a token,
where the spans of up to K tokens are K rows a token.

Spans that begin at one token share its gather of keys and values, so that a layer's memory grows with K·T and not with
K²·T, and its attention is small dense products, K rows a token over K keys: the paper's O(K²Td + KTd²).
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
    """Attention of text within its own window; keeps what layers are given in place of their keys and values.

    Attributes:
        inputs: what each layer that a span Transformer runs was given: states, [n_tokens, hidden], and all else.
        top: [n_tokens, size], what a model without a span Transformer aggregates.
    """

    top: Tensor

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.inputs: list[tuple[Tensor, tuple[Any, ...], dict[str, Any]]] = []


def _keep_inputs(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    text = kwargs.get("levitated")
    if isinstance(text, LayeredText):
        # But for the pass itself, which would hold on to all states in a circle.
        others = {name: value for name, value in kwargs.items() if value is not text}
        text.inputs.append((args[0][0], args[1:], others))


class SpanAttention:
    """Attention of spans over their own tokens, for the packed rows of some tokens and then the spans.

    Args:
        first, last: int64 [n_spans], inclusive, into the packed text; at least one, in the order of their first token.
        heads: attention heads.
        device: where the tensors are.

    Attributes:
        tokens: int64 [n], places in the packed text of the tokens that any span has: the rows before those of spans.
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
        # Unused places of a row repeat its first span, as `Rows` does.
        place = np.arange(self._queries.shape[2])
        span = groups[:, None] + np.where(place < sizes[:, None], place, 0)
        sees = column < (last - first + 1)[span][..., None]
        self.tokens = on_device(np.flatnonzero(is_covered), device)
        self._keys = on_device(keys.ravel(), device)
        self._shape = keys.shape
        self._sees = on_device(sees[:, None], device)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Attend from spans: [tokens + spans, heads, size] -> the same, zeros for tokens."""
        n_tokens = len(self.tokens)
        q = self._queries.pad(query[n_tokens:])
        k, v = (x.index_select(0, self._keys).view(*self._shape, *x.shape[1:]).transpose(1, 2) for x in (key, value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self._sees, dropout_p=dropout, scale=scaling)
        attended = self._queries.pack(attended)
        return torch.cat([attended.new_zeros(n_tokens, *attended.shape[1:]), attended])


class SpanTransformer(nn.Module):
    """The top layers of an encoder as a span Transformer: copies of them that learn apart, or they themselves.

    Args:
        encoder: its layers keep their inputs from now on, for texts that `LayeredText` reads.
        n_layers: how many of the top ones; at least 1.
        share_weights: run the encoder's own layers in place of copies.
        position_offset: position id of a text's first token.

    Attributes:
        layers: the copies; none with shared weights.
        norm: a copy of what the encoder has after its last layer, if it has that and it is copied.

    Raises:
        UnusableError: if it has no list of layers, or too few; if they turn tokens by their places, which spans don't
            have; if what comes after them isn't one module.
    """

    def __init__(self, encoder: PreTrainedModel, n_layers: int, share_weights: bool, position_offset: int) -> None:
        super().__init__()
        own = encoder_layers(encoder, "a span Transformer")
        if n_layers > len(own):
            raise UnusableError(f"span_layers is {n_layers}, and the encoder has {len(own)} layers")
        top = list(own[len(own) - n_layers :])
        norm = _norm_after(encoder, own, position_offset)
        self.layers, self.norm = nn.ModuleList(), None
        if not share_weights:
            self.layers = nn.ModuleList(copy.deepcopy(layer) for layer in top)
            self.norm = copy.deepcopy(norm)
        # In a tuple, where they are no parts of this module.
        self._shared = (top, norm) if share_weights else None
        for layer in top:
            layer.register_forward_pre_hook(_keep_inputs, with_kwargs=True)

    def forward(self, states: Tensor, attention: SpanAttention, text: LayeredText) -> Tensor:
        """Lead spans through the layers: [n_spans, hidden] -> the same."""
        layers, norm = self._shared or (self.layers, self.norm)
        for layer, (token_states, args, kwargs) in zip(layers, text.inputs, strict=True):
            tokens = token_states.index_select(0, attention.tokens)
            output = layer(torch.cat([tokens, states])[None], *args, **{**kwargs, "levitated": attention})
            states = _first(output)[0, len(tokens) :]
        return states if norm is None else norm(states)


@torch.no_grad()
def _norm_after(encoder: PreTrainedModel, layers: nn.ModuleList, position_offset: int) -> nn.Module | None:
    """Return what the encoder applies to the output of its last layer, found by running it on two tokens."""
    calls: list[tuple[nn.Module, dict[str, Any], Tensor, Tensor]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if args and isinstance(args[0], Tensor) and isinstance(_first(output), Tensor):
            calls.append((module, kwargs, args[0], _first(output)))

    inside = {inner for layer in layers for inner in layer.modules() if inner is not layer}
    hooks = [each.register_forward_hook(note, with_kwargs=True) for each in encoder.modules() if each not in inside]
    training = encoder.training
    encoder.eval()
    with wrap_errors("its encoder can't run on packed texts"):
        ids = torch.zeros(1, 2, dtype=torch.int64)
        rows = Rows(np.array([2]), encoder.config.num_attention_heads, ids.device)
        places = torch.arange(2)[None] + position_offset
        states = encoder(input_ids=ids, position_ids=places, levitated=StatesPass(rows)).last_hidden_state
    encoder.train(training)
    for hook in hooks:
        hook.remove()
    kwargs, top = next((kwargs, output) for module, kwargs, _, output in reversed(calls) if module is layers[-1])
    if kwargs.get("position_embeddings") is not None:
        raise UnusableError("its layers turn queries and keys by their places, and a span has none")
    if torch.equal(top, states):
        return None
    for module, _, given, made in calls:
        if torch.equal(given, top) and torch.equal(made, states):
            return module
    raise UnusableError(f"after its last layer {type(encoder).__name__} does more than one module")


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output
