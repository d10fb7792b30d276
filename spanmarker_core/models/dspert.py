"""DSpERT: deep span representations, and the paper's shallow baselines (Zhu et al., ACL 2023 findings).

The initial state of a span of several tokens is an aggregate of its tokens' states below the top `span_layers` layers.
It passes through these layers by attending to its own tokens; the state of a span of one token is that of the token
(equations 2 to 4). Without span layers, a span's state is an aggregate of the top states, the paper's shallow baseline.
Then

    BiLSTM                      over the spans of one length in order, as in the paper (appendix C)
    z = ReLU(W (s ⊕ w) + b)     with w an embedding of the length in words (equation 5)

and z, the pre-logit representation, is the input of the classifier (equation 6).
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

#: Total tokens of the spans that are encoded at once, which bounds memory; and the minimum number of spans.
TOKENS_A_CHUNK = {"cpu": 8_192, "cuda": 262_144}
LEAST_SPANS_A_CHUNK = 64


class DSpERT(SpanNetwork):
    """An encoder, a span Transformer of its top layers, optional LSTM and FFN layers, and a linear classifier.

    Args:
        encoder: a transformers encoder that takes position ids; with span layers, its layers must be in a list.
        config: the model's config.

    Attributes:
        span_transformer: the span Transformer; None for a shallow model.
        aggregation: the initial aggregation.
        lstms: one for spans of one word and one for the others, or one for all with shared weights, as in the
            authors' code; for a shallow model one over the text of each sentence, as in their code; or empty.
        widths: embeddings of lengths, row `i` for `i + 1` words; None without them.
        ffn: the layer that computes z.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: the encoder can't run on packed texts, or is not suitable for a span Transformer.
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
        """Return the size of a span's features: the units of the FFN or, without an FFN, the size of its input.

        Args:
            options: the architecture's options.
            hidden: size of the encoder's states.
        """
        return options.ffn or (options.lstm or hidden) + options.width_size

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return the number of spans that are encoded at once.

        Args:
            text: the pass over the text.
            spans: the spans to encode.
        """
        longest = int((spans.last_token - spans.first_token).max(initial=0)) + 1
        return max(TOKENS_A_CHUNK[text.states.device.type] // longest, LEAST_SPANS_A_CHUNK)

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of spans for `encode_spans`; of whole windows if an LSTM runs over their spans.

        Args:
            spans: the spans to encode.
            size: approximate number of spans per range.
        """
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
        """Yield the encoder and the layers copied from it."""
        yield from super().pretrained_parts()
        if self.span_transformer is not None:
            yield self.span_transformer

    def encode_text(self, batch: Batch) -> TextPass:
        """Encode the text of all windows; in a shallow model, also run the LSTM over each sentence.

        Args:
            batch: the batch.
        """
        text = super().encode_text(batch)
        if self.span_transformer is None:
            assert isinstance(text, LayeredText)
            text.top = self._over_sentences(batch, text.states) if self.lstms else text.states
        return text

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Return the features z of spans, [end - start, feature_size].

        Args:
            batch: the windows.
            spans: the spans to score.
            text: the pass over the text.
            start: first span.
            end: last span plus one.
        """
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
        """Return an empty tensor of features, [0, feature_size]; in training it is connected to all weights.

        Args:
            text: the pass over the text.
        """
        if not self.training:
            return super().no_features(text)
        assert isinstance(text, LayeredText)
        # Layers and LSTMs need at least one row: a span of the first token, which is discarded at the end.
        one = np.zeros(1, np.int64)
        if self.span_transformer is None:
            states = self.aggregation(text.top, one, one)
        else:
            states = torch.cat([self._climb(text, one, one), text.states[:1]])
            if self.lstms:
                states = torch.cat([lstm(states)[0] for lstm in self.lstms])
        return self._reduce(states[:0], one[:0])

    def _deep_states(self, text: LayeredText, first: np.ndarray, last: np.ndarray) -> Tensor:
        """Return S^L of the spans from token `first` to token `last` of the packed text: [n_spans, hidden]."""
        device = text.states.device
        states = text.states.index_select(0, on_device(first, device))
        several = np.flatnonzero(last > first)
        if len(several):
            climbed = self._climb(text, first[several], last[several])
            states = states.index_copy(0, on_device(several, device), climbed.to(states.dtype))
        return states

    def _climb(self, text: LayeredText, first: np.ndarray, last: np.ndarray) -> Tensor:
        """Return S^L of spans of several tokens, computed by the span Transformer."""
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
        """Run the LSTM over each sentence with words that a window owns: [n_tokens, hidden] -> [n_tokens, lstm]."""
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
        """Return z for the states of spans of `width + 1` words (equation 5)."""
        if self.widths is not None:
            # Only the probe of a new model uses spans longer than `entity_max_length`.
            known = np.minimum(width, self.widths.num_embeddings - 1)
            states = torch.cat([states, self.widths(on_device(known, states.device))], dim=-1)
        return self.ffn(states)


def over_sequences(lstm: nn.Module, states: Tensor, sequence: np.ndarray) -> Tensor:
    """Run an LSTM over sequences of any lengths, without padding: [n, size] -> [n, units].

    Args:
        lstm: an `nn.LSTM`.
        states: [n, size]; the states of a sequence are in order, but sequences may be interleaved.
        sequence: int64 [n], number of the sequence that each state belongs to.
    """
    number = np.unique(sequence, return_inverse=True)[1]
    lengths = np.bincount(number)
    by_sequence = np.argsort(number, kind="stable")
    place = np.empty(len(number), np.int64)
    place[by_sequence] = ragged_ranges(np.zeros_like(lengths), lengths)[0]
    # torch's packed order: the first state of all sequences, with the longest sequence first, then the second ones, …
    rank = np.argsort(np.argsort(-lengths, kind="stable"))
    order = np.lexsort((rank[number], place))
    packed = PackedSequence(states[on_device(order, states.device)], torch.from_numpy(np.bincount(place)))
    return lstm(packed)[0].data.index_select(0, on_device(np.argsort(order), states.device))
