"""Shallow aggregation of token states into one state per span (Zhu et al. 2023, DSpERT, appendix A).

For the states H of a span's tokens, one per row: their elementwise maximum or mean, or a weighted mean with

    softmax(u^T tanh(W H^T))               multiplicative attention
    softmax(u^T tanh(W (H + v)^T))         additive attention; + appends v to each row

where u, W and v are learned. As in the authors' code, W has a bias. The inputs of the softmax depend only on the token,
not on the span, and are computed once per token.
"""

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.models.batch import on_device

POOLINGS = ("max", "mean")
ATTENTIONS = ("multiplicative", "additive")
AGGREGATIONS = (*POOLINGS, *ATTENTIONS)


class Aggregation(nn.Module):
    """An aggregation function with its weights.

    Args:
        kind: one of `AGGREGATIONS`.
        size: size of a state.
    """

    def __init__(self, kind: str, size: int) -> None:
        super().__init__()
        self.kind = kind
        if kind in ATTENTIONS:
            self.project = nn.Linear(size if kind == "multiplicative" else 2 * size, size)
            self.u = nn.Parameter(torch.empty(size))
            nn.init.normal_(self.u, std=size**-0.5)
        if kind == "additive":
            self.v = nn.Parameter(torch.empty(size))
            nn.init.normal_(self.v, std=size**-0.5)

    def forward(self, states: Tensor, first: np.ndarray, last: np.ndarray) -> Tensor:
        """Return one state per span, [n_spans, size].

        Args:
            states: [n_tokens, size].
            first: int64 [n_spans], index of each span's first token in `states`.
            last: int64 [n_spans], inclusive.
        """
        if self.kind in POOLINGS:
            return pool(states, first, last, self.kind)
        if self.kind == "multiplicative":
            projected = self.project(states)
        else:
            projected = self.project(torch.cat([states, self.v.expand_as(states)], dim=-1))
        places, outside = _places(first, last, states.device)
        scores = (projected.tanh() @ self.u)[places].masked_fill(outside, float("-inf"))
        return torch.einsum("nk,nkd->nd", scores.softmax(dim=-1), states[places])


def pool(states: Tensor, first: np.ndarray, last: np.ndarray, kind: str) -> Tensor:
    """Return the maximum or mean of each span's states, [n_spans, size].

    Args:
        states: [n_tokens, size].
        first: int64 [n_spans], index of each span's first token in `states`.
        last: int64 [n_spans], inclusive.
        kind: "max" or "mean".

    >>> states = torch.tensor([[1.0, 4.0], [3.0, 0.0], [2.0, 8.0]])
    >>> pool(states, np.array([0, 1, 2]), np.array([1, 2, 2]), "max").tolist()
    [[3.0, 4.0], [3.0, 8.0], [2.0, 8.0]]
    >>> pool(states, np.array([0]), np.array([2]), "mean").tolist()
    [[2.0, 4.0]]
    """
    places, outside = _places(first, last, states.device)
    values = states[places]
    if kind == "max":
        return values.masked_fill(outside[..., None], float("-inf")).amax(dim=1)
    total = values.masked_fill(outside[..., None], 0.0).sum(dim=1)
    return total / (~outside).sum(dim=1, keepdim=True)


def _places(first: np.ndarray, last: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the indices of each span's tokens, [n_spans, longest], and a mask of those beyond its end."""
    column = np.arange(int((last - first).max(initial=0)) + 1)
    places = np.minimum(first[:, None] + column, last[:, None])
    outside = column > (last - first)[:, None]
    return on_device(places, device), on_device(outside, device)
