"""A linear-chain conditional random field over chains of different lengths (Ji et al. 2022, equations 8 to 11).

The score of a chain of tags y_1 … y_n is the sum over its words of emission(word, y_i) + A[y_{i-1}, y_i], and its
probability is the softmax of the scores of all chains. y_0 is the tag of the token before the text, represented by the
last row of A; there is no transition after the last word.

Chains are stored end to end in one array. They are padded to the longest, and the loops below are over positions, with
one step for all chains. Each word's log-sum-exp is subtracted from its emissions, which does not change probabilities
and keeps sums over long chains small; types of lower precision are converted to float32.

The package pytorch-crf offers no marginals, from which the scores of entities are computed.
"""

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.models.batch import on_device


class Crf(nn.Module):
    """A linear-chain CRF. Transitions are initialised to 0, which is equivalent to a softmax over each word's tags.

    Args:
        n_tags: number of tags.

    Attributes:
        transitions: [n_tags + 1, n_tags], A, from the tag of the row to that of the column; the last row is the start.
    """

    def __init__(self, n_tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(n_tags + 1, n_tags))

    def negative_log_likelihood(self, emissions: Tensor, tags: Tensor, offsets: np.ndarray) -> Tensor:
        """Return the negative log-likelihood of tags, summed over chains: a scalar.

        Args:
            emissions: [n, n_tags].
            tags: int64 [n], from 0.
            offsets: int64 [n_chains + 1]; chain `i` is words `offsets[i]:offsets[i + 1]`.
        """
        emissions = _normalised(emissions)
        grid = _Grid(offsets, emissions.device)
        if len(grid) == 0:
            return emissions.sum() + 0 * self.transitions.sum()
        totals = self._forward(grid.pad(emissions), grid)[-1].logsumexp(dim=-1)
        return totals.sum() - self._steps(emissions, tags, grid).sum()

    def best(self, emissions: Tensor, offsets: np.ndarray) -> Tensor:
        """Return the most probable tags of each chain, by the Viterbi algorithm: int64 [n].

        Args:
            emissions: [n, n_tags].
            offsets: int64 [n_chains + 1]; chain `i` is words `offsets[i]:offsets[i + 1]`. Chains cover all words.
        """
        grid = _Grid(offsets, emissions.device)
        if len(grid) == 0:
            return torch.zeros(0, dtype=torch.int64, device=emissions.device)
        scores = grid.pad(_normalised(emissions))
        begin, between = self._begin_and_between(scores)
        best = scores[:, 0] + begin
        stay = torch.arange(scores.shape[-1], device=scores.device).expand_as(best)
        came_from = []
        for place in range(1, scores.shape[1]):
            values, previous = (best[:, :, None] + between).max(dim=1)
            real = grid.real[:, place, None]
            best = torch.where(real, values + scores[:, place], best)
            came_from.append(torch.where(real, previous, stay))
        tags = [best.argmax(dim=1, keepdim=True)]
        for previous in reversed(came_from):
            tags.append(previous.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1)[grid.real]

    def log_probability(
        self, emissions: Tensor, tags: Tensor, offsets: np.ndarray, first: Tensor, last: Tensor
    ) -> Tensor:
        """Return the log of the probability that the words of each span have the given tags: [n_spans].

        It is the marginal over the tags of other words: the sum over all chains that agree with `tags` in the span,
        computed from the forward sums up to the first word, the span's own score, and the backward sums after the
        last word.

        Args:
            emissions: [n, n_tags].
            tags: int64 [n], from 0.
            offsets: int64 [n_chains + 1]; chain `i` is words `offsets[i]:offsets[i + 1]`. Chains cover all words.
            first: int64 [n_spans], index of each span's first word.
            last: int64 [n_spans], inclusive, in the same chain.
        """
        grid = _Grid(offsets, emissions.device)
        if len(grid) == 0:
            return emissions.new_zeros(len(first))
        emissions = _normalised(emissions)
        scores = grid.pad(emissions)
        forward = torch.stack(self._forward(scores, grid), dim=1)[grid.real]
        backward = torch.stack(self._backward(scores, grid), dim=1)[grid.real]
        total = (forward + backward).logsumexp(dim=-1)  # of the chain, at each of its words
        own = self._steps(emissions, tags, grid).cumsum(0)
        before = forward.gather(1, tags[:, None])[first, 0]
        after = backward.gather(1, tags[:, None])[last, 0]
        return before + own[last] - own[first] + after - total[first]

    def _forward(self, scores: Tensor, grid: "_Grid") -> list[Tensor]:
        """Return the forward log-sums at each position, with its emission: tensors [n_chains, n_tags].

        They remain constant after the end of a chain.
        """
        begin, between = self._begin_and_between(scores)
        sums = [scores[:, 0] + begin]
        for place in range(1, scores.shape[1]):
            step = (sums[-1][:, :, None] + between).logsumexp(dim=1) + scores[:, place]
            sums.append(torch.where(grid.real[:, place, None], step, sums[-1]))
        return sums

    def _backward(self, scores: Tensor, grid: "_Grid") -> list[Tensor]:
        """Return the backward log-sums at each position, without its emission: tensors [n_chains, n_tags]."""
        _, between = self._begin_and_between(scores)
        sums = [torch.zeros_like(scores[:, 0])]
        for place in range(scores.shape[1] - 1, 0, -1):
            step = (between + (sums[-1] + scores[:, place])[:, None, :]).logsumexp(dim=2)
            sums.append(torch.where(grid.real[:, place, None], step, sums[-1]))
        return sums[::-1]

    def _steps(self, emissions: Tensor, tags: Tensor, grid: "_Grid") -> Tensor:
        """Return the contribution of each word to the score of its chain with the given tags: [n]."""
        previous = tags.roll(1).index_fill(0, grid.begins, self.transitions.shape[1])
        return emissions.gather(1, tags[:, None])[:, 0] + self.transitions.to(emissions.dtype)[previous, tags]

    def _begin_and_between(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        transitions = self.transitions.to(scores.dtype)
        return transitions[-1], transitions[:-1]


class _Grid:
    """Conversion of chains, stored end to end, to one padded row per chain; chains without words are left out.

    Attributes:
        real: bool [n_chains, longest], False in padding.
        begins: int64 [n_chains], index of the first word of each chain.
    """

    def __init__(self, offsets: np.ndarray, device: torch.device) -> None:
        offsets = np.unique(offsets)
        places = offsets[:-1, None] + np.arange(np.diff(offsets).max(initial=0))
        ends = offsets[1:, None]
        made = (np.minimum(places, ends - 1), places < ends, offsets[:-1])
        self._words, self.real, self.begins = (on_device(x, device) for x in made)

    def __len__(self) -> int:
        return len(self.begins)

    def pad(self, packed: Tensor) -> Tensor:
        """Convert values of words to padded rows: [n, n_tags] -> [n_chains, longest, n_tags]."""
        return packed[self._words]


def _normalised(emissions: Tensor) -> Tensor:
    return emissions.to(torch.promote_types(emissions.dtype, torch.float32)).log_softmax(dim=-1)
