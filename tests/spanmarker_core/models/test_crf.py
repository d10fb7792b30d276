"""The CRF against the enumeration of all chains."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from spanmarker_core.arrays.ragged import ragged_offsets
from spanmarker_core.models.crf import Crf


def crf_of(lengths, n_tags, seed=0, spread=1.5):
    """A CRF with random transitions, emissions of chains of these lengths, tags and offsets; all in float64."""
    generator = torch.Generator().manual_seed(seed)
    crf = Crf(n_tags).double()
    with torch.no_grad():
        crf.transitions.copy_(spread * torch.randn(n_tags + 1, n_tags, generator=generator, dtype=torch.float64))
    n = sum(lengths)
    emissions = spread * torch.randn(n, n_tags, generator=generator, dtype=torch.float64)
    tags = torch.randint(n_tags, (n,), generator=generator)
    return crf, emissions, tags, ragged_offsets(np.array(lengths))


def all_chains(crf, emissions):
    """Every tag sequence of one chain with its score (equation 9): [n_tags ** n, n], [n_tags ** n]."""
    n, n_tags = emissions.shape
    a = crf.transitions.detach()
    paths, scores = [], []
    for path in product(range(n_tags), repeat=n):
        paths.append(path)
        steps = pairwise((n_tags, *path))  # row n_tags of A is the begin
        scores.append(sum(emissions[i, y] + a[x, y] for i, (x, y) in enumerate(steps)))
    return torch.tensor(paths), torch.stack(scores)


RAGGED = [[1], [2], [5], [3, 1, 4], [1, 1], [2, 5, 1, 3]]


@pytest.mark.parametrize("lengths", RAGGED)
@pytest.mark.parametrize("n_tags", [3, 5])
def test_crf_equals_the_enumeration_of_all_chains(lengths, n_tags):
    crf, emissions, tags, offsets = crf_of(lengths, n_tags)
    found = crf.best(emissions, offsets)
    expected_nll = torch.zeros((), dtype=torch.float64)
    for start, end in pairwise(offsets.tolist()):
        paths, scores = all_chains(crf, emissions[start:end])
        assert found[start:end].tolist() == paths[scores.argmax()].tolist()
        is_gold = (paths == tags[start:end]).all(dim=1)
        expected_nll += scores.logsumexp(0) - scores[is_gold].squeeze()
        # Of every span of the chain, with tags drawn at random: all chains that agree with them there.
        for first in range(start, end):
            for last in range(first, end):
                agrees = (paths[:, first - start : last - start + 1] == tags[first : last + 1]).all(dim=1)
                probability = scores.softmax(0)[agrees].sum()
                asked = torch.tensor([first]), torch.tensor([last])
                log = crf.log_probability(emissions, tags, offsets, *asked)
                torch.testing.assert_close(log.exp(), probability[None], atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(crf.negative_log_likelihood(emissions, tags, offsets), expected_nll)


def test_crf_by_hand():
    """Two tags, two words: A is 1 from 0 to 1 and 2 from the begin to 0, emissions 0 and 3 for tag 0 at word 1.

    Chains (0,0) (0,1) (1,0) (1,1) score 2+0+3, 2+1+0, 0+0+3, 0+0+0.
    """
    crf = Crf(2).double()
    with torch.no_grad():
        crf.transitions.copy_(torch.tensor([[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]))
    emissions = torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    share = np.exp([5, 3, 3, 0]) / np.exp([5, 3, 3, 0]).sum()
    offsets = np.array([0, 2])
    assert crf.best(emissions, offsets).tolist() == [0, 0]
    for place, tags in enumerate(product((0, 1), repeat=2)):
        found = crf.negative_log_likelihood(emissions, torch.tensor(tags), offsets).detach()
        assert float((-found).exp()) == pytest.approx(share[place])
    second = crf.log_probability(emissions, torch.tensor([0, 1]), offsets, torch.tensor([1]), torch.tensor([1]))
    assert float(second.detach().exp()) == pytest.approx(share[1] + share[3])


@pytest.mark.parametrize("lengths", [[1], [3, 1, 2]])
def test_gradients_of_the_crf(lengths):
    crf, emissions, tags, offsets = crf_of(lengths, 3)
    emissions.requires_grad_()

    def loss(emissions, transitions):
        return torch.func.functional_call(_Loss(crf), {"crf.transitions": transitions}, (emissions, tags, offsets))

    assert torch.autograd.gradcheck(loss, (emissions, crf.transitions))


class _Loss(torch.nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, *arguments):
        return self.crf.negative_log_likelihood(*arguments)


def test_a_crf_that_has_learned_nothing_is_a_softmax():
    _, emissions, tags, offsets = crf_of([3, 1, 4], 5)
    crf = Crf(5).double()
    expected = torch.nn.functional.cross_entropy(emissions, tags, reduction="sum")
    torch.testing.assert_close(crf.negative_log_likelihood(emissions, tags, offsets), expected)
    assert crf.best(emissions, offsets).tolist() == emissions.argmax(1).tolist()


def test_crf_is_safe_in_float32():
    """500 words with emissions of hundreds: the loss and its gradient are those of float64."""
    crf, emissions, tags, offsets = crf_of([500, 1, 60], 9, spread=10.0)
    emissions = 30 * emissions
    results = []
    for dtype in (torch.float64, torch.float32):
        near = Crf(9).to(dtype)
        near.transitions.data.copy_(crf.transitions)
        given = emissions.to(dtype).detach().clone().requires_grad_()
        loss = near.negative_log_likelihood(given, tags, offsets)
        loss.backward()
        results.append((loss.detach().double(), given.grad.double(), near.transitions.grad.double()))
    for exact, found in zip(*results, strict=True):
        assert torch.isfinite(found).all()
        torch.testing.assert_close(found, exact, atol=2e-3, rtol=1e-5)
    # A confident chain: the sum is far smaller than its terms.
    sure = torch.full((400, 3), -30.0).index_fill(1, torch.tensor([1]), 30.0)
    loss = Crf(3).negative_log_likelihood(sure, torch.ones(400, dtype=torch.int64), np.array([0, 400]))
    assert 0 <= float(loss.detach()) < 1e-4


def test_crf_takes_half_precision_as_float32():
    crf, emissions, tags, offsets = crf_of([3, 2], 3)
    crf = crf.float()
    half = emissions.bfloat16()
    found = crf.negative_log_likelihood(half, tags, offsets)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, crf.negative_log_likelihood(half.float(), tags, offsets))


def test_chains_do_not_see_each_other():
    crf, emissions, tags, offsets = crf_of([4, 1, 7, 2], 5)
    alone = [
        (crf.negative_log_likelihood(emissions[a:b], tags[a:b], np.array([0, b - a])),
         crf.best(emissions[a:b], np.array([0, b - a])))
        for a, b in pairwise(offsets.tolist())
    ]  # fmt: skip
    losses, best = zip(*alone, strict=True)
    torch.testing.assert_close(crf.negative_log_likelihood(emissions, tags, offsets), sum(losses))
    assert crf.best(emissions, offsets).tolist() == torch.cat(best).tolist()


def test_no_chains():
    crf, nothing, empty = Crf(3), torch.zeros(0, 3, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    for offsets in (np.zeros(1, np.int64), np.zeros(3, np.int64)):
        loss = crf.negative_log_likelihood(nothing, empty, offsets)
        loss.backward()
        assert float(loss.detach()) == 0
        assert crf.transitions.grad.abs().sum() == 0
        assert crf.best(nothing, offsets).shape == (0,)
        assert crf.log_probability(nothing, empty, offsets, empty, empty).shape == (0,)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
def test_gpu_equals_cpu():
    crf, emissions, tags, offsets = crf_of([4, 1, 7, 2], 5)
    here = crf.negative_log_likelihood(emissions, tags, offsets)
    there = crf.cuda().negative_log_likelihood(emissions.cuda(), tags.cuda(), offsets)
    torch.testing.assert_close(there.cpu(), here)
    assert crf.best(emissions.cuda(), offsets).tolist() == crf.cpu().best(emissions, offsets).tolist()
