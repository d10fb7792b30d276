"""The sequence head: BIO tags of words, and decoding of tags into entities (SeqNER; Ji et al. 2022, section 3.1.2).

For m types there are 2m + 1 tags: 0 is O, 1 + 2c begins an entity of type number c (B), 2 + 2c continues one (I). Types
are the model's labels without "O", in the same order.

Words without a token, such as a zero-width space, don't have states: they have no tag, and the words before and after
them count as neighbours.
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
    """Entities decoded from tags, sorted by first word.

    Attributes:
        first_word: int64 [n], index into the batch's words.
        last_word: int64 [n], inclusive.
        type_number: int64 [n], number of the type.
        probability: float64 [n], see `TagHead.decode`.
    """

    first_word: np.ndarray
    last_word: np.ndarray
    type_number: np.ndarray
    probability: np.ndarray


class TagHead(nn.Module):
    """A linear layer over words' states (equation 5), and a softmax per word (6, 7) or a CRF per sentence (8 to 11).

    Args:
        hidden: size of the encoder's states.
        n_types: number of entity types, m.
        kind: "softmax" or "crf".
        dropout: dropout rate for the words' states.
        spread: standard deviation of the linear layer's initial weights.
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
        """Return the score of each tag at each word, without transitions: [n_words, n_tags].

        Args:
            states: [n_tokens, hidden], the encoder's output for the packed text.
            batch: the batch.
        """
        words = word_maxima(states, batch.first_token, batch.last_token)
        emissions: Tensor = self.output(self.dropout(words))
        return emissions

    def loss(self, emissions: Tensor, tags: Tensor, chains: np.ndarray) -> Tensor:
        """Return the sum of the losses of all `units`: a scalar.

        The loss is the cross-entropy of words with a tag, or the negative log-likelihood of chains.

        Args:
            emissions: [n_words, n_tags].
            tags: int64 [n_words], -100 for a word without a tag.
            chains: int64 [n_words], number of the chain of each word, from 0, increasing; -1 for a word without a tag.
        """
        if self.crf is None:
            emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
            return nn.functional.cross_entropy(emissions, tags, ignore_index=-100, reduction="sum")
        words = np.flatnonzero(chains >= 0)
        rows = on_device(words, emissions.device)
        return self.crf.negative_log_likelihood(emissions[rows], tags[rows], ragged_offsets(np.bincount(chains[words])))

    def units(self, tags: Tensor, chains: np.ndarray) -> int:
        """Return the number of terms in the sum of `loss`: words with a tag for a softmax, chains for a CRF.

        Args:
            tags: int64 [n_words], -100 for a word without a tag.
            chains: int64 [n_words], number of the chain of each word; -1 for a word without a tag.
        """
        return int((tags >= 0).sum()) if self.crf is None else int(chains.max(initial=-1)) + 1

    @torch.no_grad()
    def decode(self, emissions: Tensor, batch: Batch) -> TaggedSpans:
        """Return the entities of the best tags that begin at words owned by their window.

        The probability of an entity is that of its words' tags: for a softmax the product of their probabilities;
        for a CRF the sum of the probabilities of all chains with these tags at these words. Neither depends on
        the tag of the following word.

        Args:
            emissions: [n_words, n_tags].
            batch: the batch.
        """
        # From here on, word indices count only words with a token.
        words = np.flatnonzero(batch.has_token)
        runs = ragged_offsets(batch.has_token)[batch.runs]
        # Double precision, because differences are taken of sums over chains of any length; the cost is small.
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
        """Return `Crf.log_probability` for each span, [n_spans], computed only for runs that contain spans."""
        assert self.crf is not None
        # The two passes over a chain cost several times as much as its best tags, and many sentences lack entities.
        taken, place = np.unique(np.searchsorted(runs, first, "right") - 1, return_inverse=True)
        words, offsets = ragged_take(runs, taken)
        shift = (offsets[:-1] - runs[taken])[place]
        rows, begin, end = (on_device(places, emissions.device) for places in (words, first + shift, last + shift))
        return self.crf.log_probability(emissions[rows], tags[rows], offsets, begin, end)


def join_tags(tags: np.ndarray, runs: np.ndarray, continues: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decode tags into entities: (first word, last word, type number), int64 [n] each.

    An entity is a B and the following I of its type. An I without a preceding entity of its type begins an entity, as
    in conlleval and seqeval. But if a run continues its sentence, an I at its first word belongs to an entity that
    begins before the run, and is ignored.

    Args:
        tags: int64 [n_words].
        runs: int64 [n_runs + 1]; run `i` is words `runs[i]:runs[i + 1]`, and entities don't cross its edges.
        continues: bool [n_runs], whether earlier words of the sentence are not in the run.

    Two sentences with B-0 I-0 I-1 O and I-1 B-1, first both complete, then with the second one cut:

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
