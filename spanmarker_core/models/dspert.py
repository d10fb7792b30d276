"""DSpERT: deep span representations, and the shallow ones that it is compared with (Zhu et al., ACL 2023 findings).

A span of several tokens begins as an aggregate of its tokens' states below the top `span_layers` layers, and climbs
these by attending to its own tokens (`span_transformer`); a span of one token is that token's state (equations 2 to 4).
With no span layers it is an aggregate of the top states, the paper's shallow baseline. Then

    BiLSTM                      over the spans of one length in order, where the paper has it (appendix C)
    z = ReLU(W (s ⊕ w) + b)     with w an embedding of the length in words (equation 5)

and z, the pre-logit representation, is what the classifier takes (equation 6).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from transformers import PreTrainedModel

from spanmarker_core.arrays.ragged import ragged_ranges
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.models.aggregation import Aggregation
from spanmarker_core.models.attention import TextPass
from spanmarker_core.models.batch import Batch, on_device
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.models.span_transformer import LayeredText, SpanAttention, SpanTransformer
from spanmarker_core.spans.candidates import Spans

#: Tokens of all spans that are encoded at once, each with its own, which bounds memory; and spans, at least.
TOKENS_A_CHUNK = {"cpu": 8_192, "cuda": 262_144}
LEAST_SPANS_A_CHUNK = 64


class DSpERT(SpanNetwork):
    """An encoder, its top layers once more for spans, and what is between these and a linear classifier.

    Args:
        encoder: any that takes position ids; with span layers, one whose layers are in a list.
        config: `options` are a `DSpERTOptions`.

    Attributes:
        span_transformer: None for a shallow model.
        lstms: one for spans of one word and one for the others, or one for all where weights are shared, as in the
            authors' code; one over the text of each sentence for a shallow model, again as theirs; none without.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: see `SpanTransformer`.
    """

    text_pass = LayeredText

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__(encoder, config)
        options, size = self.options, encoder.config.hidden_size
        n_layers = encoder.config.num_hidden_layers if options.span_layers is None else options.span_layers
        self.span_transformer: SpanTransformer | None = None
        if n_layers:
            self.span_transformer = SpanTransformer(encoder, n_layers, options.share_weights, self.position_offset)
        n_lstms = 0 if not options.lstm else 1 if options.share_weights or not n_layers else 2
        self.lstms = nn.ModuleList(
            nn.LSTM(size, options.lstm // 2, batch_first=True, bidirectional=True) for _ in range(n_lstms)
        )
        self.lstm_dropout = nn.Dropout(options.lstm_dropout)
        size_after = options.lstm or size
        self.aggregation = Aggregation(options.aggregation, size if n_layers else size_after)
        self.widths: nn.Embedding | None = None
        if options.width_size:
            self.widths = nn.Embedding(config.entity_max_length, options.width_size)
            nn.init.normal_(self.widths.weight, std=options.width_size**-0.5)
        self.ffn: nn.Module = nn.Identity()
        if options.ffn:
            wide = nn.Linear(size_after + options.width_size, options.ffn)
            self.ffn = nn.Sequential(nn.Dropout(options.ffn_dropout), wide, nn.ReLU())
        self.smoke_test()

    @staticmethod
    def feature_size(options: Any, hidden: int) -> int:
        """Return how many numbers stand for a span: the units of the FFN, or without it what it would take."""
        return options.ffn or (options.lstm or hidden) + options.width_size

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return how many spans are encoded at once."""
        longest = int((spans.last_token - spans.first_token).max(initial=0)) + 1
        return max(TOKENS_A_CHUNK[text.states.device.type] // longest, LEAST_SPANS_A_CHUNK)

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of about `size` spans; of whole windows where an LSTM runs over their spans."""
        if not self.lstms or self.span_transformer is None:
            yield from super().chunks(spans, size)
            return
        start = 0
        while start < len(spans):
            fits = np.searchsorted(spans.offsets, start + size, "right") - 1
            next_window = np.searchsorted(spans.offsets, start, "right")
            end = int(spans.offsets[max(fits, next_window)])
            yield start, end
            start = end

    def pretrained_parts(self) -> Iterator[nn.Module]:
        """Yield the encoder and the layers that were copied from it."""
        yield from super().pretrained_parts()
        if self.span_transformer is not None:
            yield self.span_transformer

    def encode_text(self, batch: Batch) -> TextPass:
        """Run the text of all windows once; and over that of each sentence an LSTM, if the model is shallow."""
        text = super().encode_text(batch)
        if self.span_transformer is None:
            assert isinstance(text, LayeredText)
            text.top = self._over_sentences(batch, text.states) if self.lstms else text.states
        return text

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Return z of spans [start, end): [end - start, feature_size]."""
        assert isinstance(text, LayeredText)
        window = np.searchsorted(spans.offsets, np.arange(start, end), "right") - 1
        first, last = (
            batch.token_offsets[window] + token[start:end] for token in (spans.first_token, spans.last_token)
        )
        first_word = spans.first_word[start:end]
        width = spans.last_word[start:end] - first_word
        if self.span_transformer is None:
            states = self.aggregation(text.top, first, last)
        else:
            states = self._deep_states(text, first, last)
            if self.lstms:
                run = np.searchsorted(batch.runs, first_word, "right") - 1
                states = self._over_lengths(states, run, width)
        return self._reduce(states, width)

    def no_features(self, text: TextPass) -> Tensor:
        """Return features of no spans, [0, feature_size]; in training by way of all weights."""
        if not self.training:
            return super().no_features(text)
        assert isinstance(text, LayeredText)
        # Layers and LSTMs take one row at least; of the span that is the first token nothing is kept.
        one = np.zeros(1, np.int64)
        if self.span_transformer is None:
            states = self.aggregation(text.top, one, one)
        else:
            states = torch.cat([self._climb(text, one, one), text.states[:1]])
            if self.lstms:
                states = torch.cat([lstm(states)[0] for lstm in self.lstms])
        return self._reduce(states[:0], one[:0])

    def _deep_states(self, text: LayeredText, first: np.ndarray, last: np.ndarray) -> Tensor:
        """Return S^L of spans of the packed tokens `first` to `last`: [n_spans, hidden]."""
        device = text.states.device
        states = text.states.index_select(0, on_device(first, device))
        several = np.flatnonzero(last > first)
        if len(several):
            climbed = self._climb(text, first[several], last[several])
            states = states.index_copy(0, on_device(several, device), climbed.to(states.dtype))
        return states

    def _climb(self, text: LayeredText, first: np.ndarray, last: np.ndarray) -> Tensor:
        """Return S^L of spans of several tokens, by way of the span Transformer."""
        assert self.span_transformer is not None
        begun = self.aggregation(text.inputs[0][0], first, last)
        return self.span_transformer(begun, SpanAttention(first, last, self.heads, begun.device), text)

    def _over_lengths(self, states: Tensor, run: np.ndarray, width: np.ndarray) -> Tensor:
        """Run the LSTMs over the spans of each length of each sentence: [n_spans, hidden] -> [n_spans, lstm]."""
        states = self.lstm_dropout(states)
        sequence = run * (int(width.max(initial=0)) + 1) + width
        which = np.minimum(width, len(self.lstms) - 1)
        parts, members = [], []
        for number, lstm in enumerate(self.lstms):
            mine = np.flatnonzero(which == number)
            if len(mine):
                parts.append(
                    over_sequences(lstm, states.index_select(0, on_device(mine, states.device)), sequence[mine])
                )
                members.append(mine)
        back = np.argsort(np.concatenate(members))
        return torch.cat(parts).index_select(0, on_device(back, states.device))

    def _over_sentences(self, batch: Batch, states: Tensor) -> Tensor:
        """Run the LSTM over each sentence that a window is there for: [n_tokens, hidden] -> [n_tokens, lstm]."""
        runs = np.stack([batch.runs[:-1], batch.runs[1:]])
        runs = runs[:, np.add.reduceat(batch.owned, batch.runs[:-1], dtype=np.int64) > 0] if runs.size else runs
        start = batch.first_token.cpu().numpy()[runs[0]]
        end = batch.last_token.cpu().numpy()[runs[1] - 1] + 1
        tokens, offsets = ragged_ranges(start, np.maximum(start, end))
        top = states.new_zeros(len(states), self.options.lstm)
        if not len(tokens):
            return top
        places = on_device(tokens, states.device)
        sentence = np.repeat(np.arange(len(start)), np.diff(offsets))
        read = over_sequences(self.lstms[0], self.lstm_dropout(states.index_select(0, places)), sentence)
        return top.index_copy(0, places, read.to(top.dtype))

    def _reduce(self, states: Tensor, width: np.ndarray) -> Tensor:
        """Return z of states of spans whose last word is the first plus `width` (equation 5)."""
        if self.widths is not None:
            # Longer ones than a bundle's are only asked for where an encoder is tried out.
            known = np.minimum(width, self.widths.num_embeddings - 1)
            states = torch.cat([states, self.widths(on_device(known, states.device))], dim=-1)
        return self.ffn(states)


def over_sequences(lstm: nn.Module, states: Tensor, sequence: np.ndarray) -> Tensor:
    """Run an LSTM over sequences of any lengths, without padding: [n, size] -> [n, units].

    Args:
        lstm: an `nn.LSTM`.
        states: [n, size], those of one sequence in order, with those of others between.
        sequence: int64 [n], which one each is of.
    """
    number = np.unique(sequence, return_inverse=True)[1]
    lengths = np.bincount(number)
    by_sequence = np.argsort(number, kind="stable")
    place = np.empty(len(number), np.int64)
    place[by_sequence] = ragged_ranges(np.zeros_like(lengths), lengths)[0]
    # As torch packs them: the first of all sequences, the longest sequence first, then the second of all, …
    rank = np.argsort(np.argsort(-lengths, kind="stable"))
    order = np.lexsort((rank[number], place))
    packed = PackedSequence(states[on_device(order, states.device)], torch.from_numpy(np.bincount(place)))
    return lstm(packed)[0].data.index_select(0, on_device(np.argsort(order), states.device))
