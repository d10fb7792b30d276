"""A sequence head: BIO tags of words, and entities put together from them (SeqNER; Ji et al. 2022, section 3.1.2).

Of m types there are 2m + 1 tags: 0 is O, 1 + 2c begins an entity of type number c (B), 2 + 2c goes on in one (I). Types
are a model's labels without "O", in their order.

Words without a token, such as a zero-width space, have no states of their own: they have no tag, and the words around
them are neighbours.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.arrays.ragged import ragged_offsets, ragged_take
from spanmarker_core.models.batch import Batch, on_device
from spanmarker_core.models.crf import Crf
from spanmarker_core.models.word_states import word_maxima


class TaggedSpans(NamedTuple):
    """Entities that tags make up, by their first words.

    Attributes:
        first_word, last_word: int64 [n], inclusive, into the batch's words.
        type_number: int64 [n].
        probability: float64 [n], see `TagHead.decode`.
    """

    first_word: np.ndarray
    last_word: np.ndarray
    type_number: np.ndarray
    probability: np.ndarray


class TagHead(nn.Module):
    """Words' states, one linear layer (equation 5), and a softmax a word (6, 7) or a CRF over a sentence (8 to 11).

    Args:
        hidden: width of the encoder's states.
        n_types: entity types, m.
        kind: "softmax" or "crf".
        dropout: of the words' states, in training.
        spread: standard deviation of the linear layer's first weights.
    """

    def __init__(self, hidden: int, n_types: int, kind: str, dropout: float = 0.1, spread: float = 0.02) -> None:
        super().__init__()
        n_tags = 2 * n_types + 1
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, n_tags)
        nn.init.normal_(self.output.weight, std=spread)
        nn.init.zeros_(self.output.bias)
        self.crf = Crf(n_tags) if kind == "crf" else None

    def emissions(self, states: Tensor, batch: Batch) -> Tensor:
        """Return what each tag's score is at each word, before transitions: [n_words, n_tags].

        Args:
            states: [n_tokens, hidden], the encoder's output over the packed text.
            batch: says where the words are.
        """
        words = word_maxima(states, batch.first_token, batch.last_token)
        emissions: Tensor = self.output(self.dropout(words))
        return emissions

    def loss(self, emissions: Tensor, tags: Tensor, chains: np.ndarray) -> Tensor:
        """Return the sum of the losses of all `units`: a scalar.

        Cross-entropy of the words that have a tag, or the negative log-likelihood of the chains.

        Args:
            emissions: [n_words, n_tags].
            tags: int64 [n_words], -100 where a word has none.
            chains: int64 [n_words], the chain that each of the others is in: from 0, rising, -1 in none.
        """
        if self.crf is None:
            emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
            return nn.functional.cross_entropy(emissions, tags, ignore_index=-100, reduction="sum")
        words = np.flatnonzero(chains >= 0)
        rows = on_device(words, emissions.device)
        return self.crf.negative_log_likelihood(emissions[rows], tags[rows], ragged_offsets(np.bincount(chains[words])))

    def units(self, tags: Tensor, chains: np.ndarray) -> int:
        """Return what `loss` is the sum over: words with a tag of a softmax, chains of a CRF."""
        return int((tags >= 0).sum()) if self.crf is None else int(chains.max(initial=-1)) + 1

    @torch.no_grad()
    def decode(self, emissions: Tensor, batch: Batch) -> TaggedSpans:
        """Return the entities of the best tags that begin at words which their window owns.

        The probability of an entity is that of its words' tags under the head: the product of theirs for a softmax;
        for a CRF the sum of the probabilities of all chains that have these tags at these words. Neither asks
        what the word after it is tagged.

        Args:
            emissions: [n_words, n_tags].
            batch: says what is a sentence in a window, which words are owned, and which have a token.
        """
        # Below, words are counted among those with a token.
        words = np.flatnonzero(batch.has_token)
        runs = ragged_offsets(batch.has_token)[batch.runs]
        # Sums over chains of any length, of which differences are taken; a fraction of the encoder's work.
        emissions = emissions[on_device(words, emissions.device)].double()
        tags = emissions.argmax(dim=-1) if self.crf is None else self.crf.best(emissions, runs)
        first, last, type_number = join_tags(tags.cpu().numpy(), runs, batch.continues)
        owned = batch.owned[words[first]]
        first, last, type_number = first[owned], last[owned], type_number[owned]
        if self.crf is None:
            own = emissions.log_softmax(dim=-1).gather(1, tags[:, None])[:, 0]
            through = own.cumsum(0)
            begin, end = (on_device(places, emissions.device) for places in (first, last))
            logs = through[end] - through[begin] + own[begin]
        else:
            logs = self._log_probability(emissions, tags, runs, first, last)
        return TaggedSpans(words[first], words[last], type_number, np.minimum(logs.exp().cpu().numpy(), 1.0))

    def _log_probability(
        self, emissions: Tensor, tags: Tensor, runs: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> Tensor:
        """Return what `Crf.log_probability` does, by the runs alone that have one of the spans: [n_spans]."""
        assert self.crf is not None
        # The two passes over a chain cost several times what its best tags do, and many sentences have no entity.
        taken, place = np.unique(np.searchsorted(runs, first, "right") - 1, return_inverse=True)
        words, offsets = ragged_take(runs, taken)
        shift = (offsets[:-1] - runs[taken])[place]
        rows, begin, end = (on_device(places, emissions.device) for places in (words, first + shift, last + shift))
        return self.crf.log_probability(emissions[rows], tags[rows], offsets, begin, end)


def join_tags(tags: np.ndarray, runs: np.ndarray, continues: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entities that tags make up: (first word, last word, type number), int64 [n] each.

    A B and the I of its type that follow. An I that continues nothing begins an entity, as in conlleval and seqeval;
    but where a run continues its sentence, one at its first word goes on in an entity that begins out of sight.

    Args:
        tags: int64 [n_words].
        runs: int64 [n_runs + 1]; no entity goes over the edges of these runs of words.
        continues: bool [n_runs], whether its sentence has words before it.

    Two sentences with B-0 I-0 I-1 O and I-1 B-1, both whole or the second one cut:

    >>> tags, runs = np.array([1, 2, 4, 0, 4, 3]), np.array([0, 4, 6])
    >>> [column.tolist() for column in join_tags(tags, runs, np.array([False, False]))]
    [[0, 2, 4, 5], [1, 2, 4, 5], [0, 1, 1, 1]]
    >>> [column.tolist() for column in join_tags(tags, runs, np.array([False, True]))]
    [[0, 2, 5], [1, 2, 5], [0, 1, 1]]
    """
    kind = (tags - 1) // 2  # -1 for O
    goes_on = np.zeros(len(tags) + 1, np.bool_)
    goes_on[1:-1] = (tags[1:] > 0) & (tags[1:] % 2 == 0) & (kind[1:] == kind[:-1])
    goes_on[runs] = False
    entity = tags > 0
    first, last = np.flatnonzero(entity & ~goes_on[:-1]), np.flatnonzero(entity & ~goes_on[1:])
    begun_before = np.isin(first, runs[:-1][continues & (np.diff(runs) > 0)]) & (tags[first] % 2 == 0)
    first, last = first[~begun_before], last[~begun_before]
    return first, last, kind[first]
