"""SpanNER: spans classified from the states of their words and an embedding of their length.

With e_i and e_j for the states of the first and the last word, e_0 for those of the window's first token, such as
[CLS], and W for the embedding of the length in words, a span's representation is (Ji et al. 2022, equations 13 to 15)

    boundary    [e_i; e_j; W]
    pooling     [max(e_i … e_j); e_0; W]
    hybrid      [e_i; e_j; max(e_i … e_j); e_0; W]

It is classified by one linear layer, or by two with GELU between them. The states of a word are the maximum over its
tokens (equation 3) or, at the edges, those of the first and the last token (Fu et al. 2021, github.com/neulab/SpanNER).

SmartSpanner is this model with the gate, trained to predict the first words of entities.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.models.attention import StatesPass, TextPass
from spanmarker_core.models.batch import Batch, on_device
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.models.word_states import range_max, word_maxima
from spanmarker_core.spans.candidates import Spans

#: Total size of the representations in a chunk, which bounds memory for any number of spans.
NUMBERS_A_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 26}


class SpanNerModel(SpanNetwork):
    """An encoder, span representations built from its states, and a classifier of one or two layers.

    Args:
        encoder: a transformers encoder that takes position ids.
        config: the model's config. Lengths beyond `entity_max_length` share the last embedding.

    Attributes:
        widths: embeddings of lengths, row `i` for `i + 1` words.
        hidden: the layer before the classifier, whose outputs are the features; None if the representation is.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: the encoder can't run on packed texts.
    """

    text_pass = StatesPass

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__(encoder, config)
        options, size = self.options, self._representation_size(self.options, encoder.config.hidden_size)
        self.widths = nn.Embedding(config.entity_max_length, options.width_size)
        nn.init.normal_(self.widths.weight, std=self.initializer_range)
        self.hidden: nn.Linear | None = None
        if options.mlp_layers == 2:
            self.hidden = nn.Linear(size, options.mlp_size or size)
            nn.init.normal_(self.hidden.weight, std=self.initializer_range)
            nn.init.zeros_(self.hidden.bias)
        self.smoke_test()

    @classmethod
    def feature_size(cls, options: Any, hidden: int) -> int:
        """Return the size of a span's features: that of its representation, or of the layer after it.

        Args:
            options: the architecture's options.
            hidden: size of the encoder's states.
        """
        size = cls._representation_size(options, hidden)
        return size if options.mlp_layers == 1 else options.mlp_size or size

    @staticmethod
    def _representation_size(options: Any, hidden: int) -> int:
        return (4 if options.representation == "hybrid" else 2) * hidden + options.width_size

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Return the features of spans, [end - start, feature_size].

        Args:
            batch: the windows.
            spans: the spans to score.
            text: the pass over the text.
            start: first span.
            end: last span plus one.
        """
        device = text.states.device
        windows = np.searchsorted(spans.offsets, np.arange(start, end), "right") - 1
        begin = batch.token_offsets[windows]
        first_word, last_word = spans.first_word[start:end], spans.last_word[start:end]
        # The part of the batch that these spans need: the tokens of their windows, and the words from first to last.
        tokens = slice(int(begin[0]), int(batch.token_offsets[windows[-1] + 1]))
        low, high = int(first_word[0]), int(last_word.max()) + 1
        states = text.states[tokens]
        first, last, cls = (
            on_device(where, device) for where in (first_word - low, last_word - low, begin - tokens.start)
        )
        of_words = states
        if self.options.word == "max" or self.options.representation != "boundary":
            places = (batch.first_token[low:high] - tokens.start, batch.last_token[low:high] - tokens.start)
            of_words = word_maxima(states, *places)
        parts = []
        if self.options.representation != "pooling":
            if self.options.word == "max":
                parts += [of_words.index_select(0, first), of_words.index_select(0, last)]
            else:
                edges = (spans.first_token[start:end], spans.last_token[start:end])
                parts += [states.index_select(0, cls + on_device(edge, device)) for edge in edges]
        lengths = last_word - first_word + 1
        if self.options.representation != "boundary":
            parts += [range_max(of_words, first, last, int(lengths.max())), states.index_select(0, cls)]
        widths = self.widths(on_device(np.minimum(lengths, self.widths.num_embeddings) - 1, device))
        return self._layered(torch.cat([*parts, widths], dim=-1))

    def no_features(self, text: TextPass) -> Tensor:
        """Return an empty tensor of features, [0, feature_size], connected to all weights.

        Args:
            text: the pass over the text.
        """
        widths = self.widths(torch.zeros(0, dtype=torch.int64, device=text.states.device))
        parts = 4 if self.options.representation == "hybrid" else 2
        return self._layered(torch.cat([text.states[:0]] * parts + [widths], dim=-1))

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return the number of spans that are represented at once.

        Args:
            text: the pass over the text.
            spans: the spans to encode.
        """
        size = self._representation_size(self.options, text.states.shape[1])
        return max(1, NUMBERS_A_CHUNK[text.states.device.type] // size)

    def _layered(self, representation: Tensor) -> Tensor:
        return representation if self.hidden is None else nn.functional.gelu(self.hidden(representation))
