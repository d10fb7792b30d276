"""The gate: a filter that predicts from the text's states which words can start and end an entity.

Markers are most of the work, and most candidate spans are far from any entity. The gate computes two probabilities
per word from the states of the text pass; only spans whose first word can start and whose last word can end an
entity get markers. Source: the named-entity-head task of SmartSpanner (section 3.3.3, equations 5 and 6), which has
heads only; ends are an addition.
"""

import numpy as np
import torch
from torch import Tensor, nn

from spanmarker_core.spans.candidates import Spans

#: Units of the hidden layer: the gate costs less than a hundredth of one encoder layer.
GATE_WIDTH = 128
#: A logit whose probability is 1 in float32.
_CERTAIN = 40.0


class Gate(nn.Module):
    """A network with two logits per word, "can start an entity" and "can end one", from its first and last token.

    Args:
        hidden_size: size of the encoder's states.
        width: units of the hidden layer.
        ends: whether it also predicts ends. SmartSpanner's gate does not: there, every word can end an entity.
    """

    def __init__(self, hidden_size: int, width: int = GATE_WIDTH, ends: bool = True) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * hidden_size, width)
        self.output = nn.Linear(width, 2 if ends else 1)
        self.ends = ends

    def forward(self, states: Tensor, first_token: Tensor, last_token: Tensor) -> Tensor:
        """Return logits [n_words, 2].

        Args:
            states: [n_tokens, hidden_size], the encoder's output for the packed text.
            first_token: int64 [n_words], index of each word's first token in `states`.
            last_token: int64 [n_words], inclusive.
        """
        word = torch.cat([states.index_select(0, first_token), states.index_select(0, last_token)], dim=-1)
        logits: Tensor = self.output(nn.functional.gelu(self.hidden(word)))
        return logits if self.ends else torch.cat([logits, torch.full_like(logits, _CERTAIN)], dim=1)


def passing(spans: Spans, probabilities: np.ndarray, threshold: float) -> np.ndarray:
    """Return the rows of the spans whose first word can start and whose last word can end an entity, int64.

    Args:
        spans: candidate spans.
        probabilities: [n_words, 2], start and end.
        threshold: minimum probability for both.
    """
    may = probabilities >= threshold
    return np.flatnonzero(may[spans.first_word, 0] & may[spans.last_word, 1])


def least_probability(spans: Spans, probabilities: np.ndarray) -> np.ndarray:
    """Return the highest threshold at which each span passes, [n_spans].

    Args:
        spans: candidate spans.
        probabilities: [n_words, 2], start and end.
    """
    return np.minimum(probabilities[spans.first_word, 0], probabilities[spans.last_word, 1])


def gate_targets(spans: Spans, entity: np.ndarray, n_words: int) -> np.ndarray:
    """Return the gate's target for each word, float32 [n_words, 2]: the highest value of its spans in `entity`.

    Args:
        spans: candidate spans.
        entity: [n_spans], probability that a span is an entity: 0 or 1 for gold, between them for a model's output.
        n_words: number of words in the batch.
    """
    targets = np.zeros((n_words, 2), np.float32)
    np.maximum.at(targets[:, 0], spans.first_word, entity)
    np.maximum.at(targets[:, 1], spans.last_word, entity)
    return targets


def select_spans(spans: Spans, is_gold: np.ndarray, share: float, draws: np.ndarray) -> np.ndarray:
    """Return the rows of the spans to train on: those that start at a gold head, and a share of the others, int64.

    Source: SmartSpanner, equation 8; `share` is its sp.

    Args:
        spans: candidate spans.
        is_gold: bool [n_spans], whether a span is a gold entity.
        share: probability of selecting a span that starts at another word.
        draws: [n_spans], from [0, 1); such a span is selected if its draw is below `share`.
    """
    is_head = np.zeros(int(spans.first_word.max(initial=-1)) + 1, np.bool_)
    is_head[spans.first_word[is_gold]] = True
    return np.flatnonzero(is_head[spans.first_word] | (draws < share))
