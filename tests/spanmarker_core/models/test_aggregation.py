"""Aggregation of token states: by hand, and against the formulas span by span."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanmarker_core.models.aggregation import AGGREGATIONS, Aggregation, pool


def naive(aggregation: Aggregation, states: torch.Tensor, first, last) -> torch.Tensor:
    """Appendix A, one span and one token at a time."""
    rows = []
    for i, j in zip(first.tolist(), last.tolist(), strict=True):
        h = states[i : j + 1]
        if aggregation.kind == "max":
            rows.append(h.max(dim=0).values)
        elif aggregation.kind == "mean":
            rows.append(h.mean(dim=0))
        else:
            w, b = aggregation.project.weight, aggregation.project.bias
            seen = (
                h if aggregation.kind == "multiplicative" else torch.stack([torch.cat([x, aggregation.v]) for x in h])
            )
            scores = torch.stack([aggregation.u @ torch.tanh(w @ x + b) for x in seen])
            rows.append(sum(weight * x for weight, x in zip(scores.softmax(dim=0), h, strict=True)))
    return torch.stack(rows)


def test_attention_by_hand():
    """States 0 and ln 3, u = W = 1: scores tanh(0) and tanh(ln 3) = 4/5; with v = 2 and W = (1, 0.5): tanh(h + 1)."""
    states = torch.tensor([[0.0], [np.log(3)]], dtype=torch.float64)
    first, last = np.array([0, 1]), np.array([1, 1])
    one = Aggregation("multiplicative", 1).double()
    with torch.no_grad():
        one.u.fill_(1), one.project.weight.fill_(1), one.project.bias.fill_(0)
    expected = np.log(3) * np.exp(0.8) / (1 + np.exp(0.8))
    torch.testing.assert_close(one(states, first, last)[:, 0], torch.tensor([expected, np.log(3)], dtype=torch.float64))
    other = Aggregation("additive", 1).double()
    with torch.no_grad():
        other.u.fill_(1), other.v.fill_(2), other.project.bias.fill_(0)
        other.project.weight.copy_(torch.tensor([[1.0, 0.5]]))
    weight = np.exp([np.tanh(1), np.tanh(np.log(3) + 1)])
    expected = np.log(3) * weight[1] / weight.sum()
    torch.testing.assert_close(
        other(states, first, last)[:, 0], torch.tensor([expected, np.log(3)], dtype=torch.float64)
    )


@pytest.mark.parametrize("kind", AGGREGATIONS)
@given(data=st.data())
def test_equals_the_formula_span_by_span(kind, data):
    n_tokens = data.draw(st.integers(1, 12))
    edges = st.tuples(st.integers(0, n_tokens - 1), st.integers(0, n_tokens - 1)).map(sorted)
    first, last = np.array(data.draw(st.lists(edges, min_size=1, max_size=8))).T
    torch.manual_seed(data.draw(st.integers(0, 99)))
    aggregation, states = Aggregation(kind, 5).double(), 3 * torch.randn(n_tokens, 5, dtype=torch.float64)
    found = aggregation(states, first, last)
    torch.testing.assert_close(found, naive(aggregation, states, first, last), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_gradients_are_those_of_the_formula(kind):
    torch.manual_seed(0)
    aggregation = Aggregation(kind, 4).double()
    first, last = np.array([0, 0, 1, 5]), np.array([0, 3, 6, 6])
    gradients = []
    for function in (aggregation, lambda *given: naive(aggregation, *given)):
        states = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
        aggregation.zero_grad()
        function(states, first, last).square().sum().backward()
        gradients.append([states.grad, *(parameter.grad for parameter in aggregation.parameters())])
    for found, expected in zip(*gradients, strict=True):
        assert expected.abs().sum() > 0
        torch.testing.assert_close(found, expected)


def test_no_spans():
    none = np.zeros(0, np.int64)
    for kind in AGGREGATIONS:
        assert Aggregation(kind, 4)(torch.randn(3, 4), none, none).shape == (0, 4)


def test_half_precision_is_near():
    states = torch.randn(20, 8)
    first, last = np.array([0, 3, 9]), np.array([4, 3, 19])
    for kind in ("max", "mean"):
        near = pool(states.bfloat16(), first, last, kind).float()
        torch.testing.assert_close(near, pool(states, first, last, kind), atol=0.02, rtol=0.02)
