"""The base class of all architectures: an encoder, an optional gate, features of spans, a linear classifier.

Any architecture can also have a sequence head on the same states (bundling, Ji et al. 2022, section 3.1.4).
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, PreTrainedModel

from spanmarker_core.architectures.registry import NetworkScores, options_of
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.bundle.pretrained import encoder_config
from spanmarker_core.errors import wrap_errors
from spanmarker_core.models.attention import ATTENTION, Rows, TextPass
from spanmarker_core.models.batch import Batch, on_device
from spanmarker_core.models.encoders import check_encoder
from spanmarker_core.models.gate import Gate, passing
from spanmarker_core.models.tags import TagHead
from spanmarker_core.spans.candidates import Spans


class SpanNetwork(nn.Module):
    """An encoder, an optional gate, and a linear classifier over features of spans, which the architecture computes.

    With option `output` "tags", entities are decoded from the sequence head, and spans are scored in training only.

    The `__init__` of an architecture must end with `smoke_test()`.

    Args:
        encoder: a transformers encoder that takes position ids; its attention is replaced.
        config: the model's config.

    Attributes:
        text_pass: class of the pass over the text, which keeps the layers' states that spans need.
        encoder: the encoder.
        options: the architecture's options.
        classifier: linear layer from features to logits; not defined if `feature_size` is 0.
        outside: column of "O" in the logits.
        types: int64 [n_types], column of each entity type in the logits.
        tags: the sequence head; None for a model without one.
        gate: the gate; None for a model without one.
        checkpoint_spans: recompute the states of spans in the backward pass instead of storing them.

    Raises:
        CoreError: `encoder.no_position_ids`.
    """

    text_pass: type[TextPass] = TextPass

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__()
        check_encoder(encoder)
        # A pooler reads the first token of the batch, which is meaningless in a packed batch.
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        encoder.config._attn_implementation = ATTENTION
        encoder.config.return_dict = True
        self.encoder = encoder
        self.options: Any = options_of(config.architecture, config.options)
        self.initializer_range: float = getattr(encoder.config, "initializer_range", 0.02)
        dropout = getattr(encoder.config, "hidden_dropout_prob", getattr(encoder.config, "dropout", 0.1))
        self.dropout = nn.Dropout(dropout)
        hidden = encoder.config.hidden_size
        if size := self.feature_size(self.options, hidden):
            self.classifier = nn.Linear(size, len(config.labels))
            nn.init.normal_(self.classifier.weight, std=self.initializer_range)
            nn.init.zeros_(self.classifier.bias)
        #: Columns of the logits: of "O", and of each entity type.
        self.outside = config.outside_index
        self.types = np.delete(np.arange(len(config.labels)), self.outside)
        self.tags: TagHead | None = None
        if self.options.tags is not None:
            self.tags = TagHead(hidden, len(self.types), self.options.tags, dropout, self.initializer_range)
        self.gate: Gate | None = None
        if config.gate is not None:
            self.gate = Gate(hidden, config.gate["width"], config.gate.get("ends", True))
        self.checkpoint_spans = False
        self.heads: int = encoder.config.num_attention_heads
        self.position_offset = config.position_offset

    @staticmethod
    def feature_size(options: Any, hidden: int) -> int:
        """Return the size of a span's features; 0 for an architecture that does not classify spans.

        Args:
            options: the architecture's options.
            hidden: size of the encoder's states.
        """
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Build the model that a bundle's config describes, with random weights.

        Args:
            config: the model's config.
        """
        encoder = encoder_config(config.encoder)
        return cls(AutoModel.from_config(encoder, trust_remote_code=False, attn_implementation="eager"), config)

    @torch.no_grad()
    def smoke_test(self) -> None:
        """Score a span of two tokens, to detect an unsuitable encoder before the first text.

        Raises:
            UnusableError: the encoder can't run on packed texts; with the encoder's own message.
        """
        self.eval()
        word, token = np.zeros(1, np.int64), torch.tensor([0])
        spans = Spans(np.array([0, 1]), word, word, word, word + 1)
        with wrap_errors("its encoder cannot run on packed texts"):
            ids, runs, yes = torch.zeros(2, dtype=torch.int64), np.array([0, 1]), np.ones(1, np.bool_)
            self(Batch(ids, np.array([0, 2]), token, token + 1, spans, runs, ~yes, yes, yes))
        self.train()

    def forward(
        self, batch: Batch, gate_threshold: float | None = None, spans_a_chunk: int | None = None
    ) -> NetworkScores:
        """Score candidate spans: all spans of the batch or, with a threshold, those that pass the gate.

        If entities are decoded from tags, evaluation mode returns only those spans of the batch that are entities.

        Args:
            batch: the batch.
            gate_threshold: minimum probability of the gate; None scores all spans.
            spans_a_chunk: number of spans per call of `encode_spans`; None for the architecture's default.
        """
        text = self.read(batch)
        spans, kept, gate = batch.spans, None, None
        tags = None if self.tags is None else self.tags.emissions(text.states, batch)
        if tags is not None and self.options.output == "tags" and not self.training:
            return self._tagged(batch, tags)
        if self.gate is not None:
            gate = self.gate(text.states, batch.first_token, batch.last_token)
        if gate is not None and gate_threshold is not None:
            kept = passing(spans, gate.float().sigmoid().cpu().numpy(), gate_threshold)
            spans = spans.take(kept)
        # Empty features, so that the outputs always depend on every weight, as distributed training requires.
        logits = [self.classifier(self.no_features(text))]
        for start, end in self.chunks(spans, spans_a_chunk or self.spans_a_chunk(text, spans)):
            if self.checkpoint_spans and self.training:
                # By chunk, because each chunk creates its own pass: a pass counts layers and can't be reused.
                features = checkpoint(self.encode_spans, batch, spans, text, start, end, use_reentrant=False)
            else:
                features = self.encode_spans(batch, spans, text, start, end)
            logits.append(self.classifier(self.dropout(features)))
        return NetworkScores(torch.cat(logits), kept, gate, tags)

    def read(self, batch: Batch) -> TextPass:
        """Return the text pass for the gate and `encode_spans`.

        Args:
            batch: the batch.
        """
        return self.encode_text(batch)

    def encode_text(self, batch: Batch) -> TextPass:
        """Encode the text of all windows once.

        Args:
            batch: the batch.

        Returns:
            The finished pass, with the states of the last layer.
        """
        lengths = np.diff(batch.token_offsets)
        positions = np.arange(len(batch.token_ids)) - np.repeat(batch.token_offsets[:-1], lengths)
        text = self.text_pass(Rows(lengths, self.heads, batch.token_ids.device))
        text.states = self._encode(batch.token_ids, positions, text)
        return text

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Return the features of spans, [end - start, feature_size]; this defines an architecture.

        Args:
            batch: the windows.
            spans: the spans to score.
            text: the pass over the text.
            start: first span.
            end: last span plus one.
        """
        raise NotImplementedError

    def no_features(self, text: TextPass) -> Tensor:
        """Return an empty tensor of features, [0, feature_size].

        In training it must be connected to every weight that features of spans depend on. The default is connected to
        the classifier only.

        Args:
            text: the pass over the text.
        """
        return text.states.new_zeros((0, self.classifier.in_features))

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return the number of spans per call of `encode_spans`, which bounds memory for any number of spans.

        Args:
            text: the pass over the text.
            spans: the spans to encode.
        """
        raise NotImplementedError

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield consecutive half-open ranges of spans for `encode_spans`.

        Args:
            spans: the spans to encode.
            size: approximate number of spans per range.
        """
        for start in range(0, len(spans), size):
            yield start, min(start + size, len(spans))

    def pretrained_parts(self) -> Iterator[nn.Module]:
        """Yield the modules of the pretrained encoder, which do most of the work and can be quantised to int8."""
        yield self.encoder

    def pretrained_weights(self) -> Iterator[nn.Parameter]:
        """Yield the weights of the pretrained encoder, which have their own learning rate."""
        for part in self.pretrained_parts():
            yield from part.parameters()

    def _tagged(self, batch: Batch, tags: Tensor) -> NetworkScores:
        """Return the spans decoded from tags, with their probability at their label and the remainder at "O"."""
        assert self.tags is not None
        found = self.tags.decode(tags, batch)
        rows = batch.spans.rows_of(found.first_word, found.last_word)
        there = rows >= 0
        labels, probability = self.types[found.type_number[there]], found.probability[there]
        logits = np.full((len(labels), len(self.types) + 1), -np.inf)
        with np.errstate(divide="ignore"):
            logits[:, self.outside] = np.log1p(-probability)
            logits[np.arange(len(labels)), labels] = np.log(probability)
        # Finite, with an exponential of 0.
        made = torch.from_numpy(logits.clip(min=-1000.0).astype(np.float32)).to(tags.device)
        return NetworkScores(made, rows[there], None, tags, labels)

    def _encode(self, token_ids: Tensor, positions: np.ndarray, levitated: object) -> Tensor:
        position_ids = on_device(positions + self.position_offset, token_ids.device)
        output = self.encoder(input_ids=token_ids[None], position_ids=position_ids[None].long(), levitated=levitated)
        states: Tensor = output.last_hidden_state[0]
        return states
