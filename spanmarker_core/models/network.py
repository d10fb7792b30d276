"""What all architectures share: an encoder that reads the text once, a gate, features of spans, a linear classifier.

Any of them can carry a sequence head too, on the same states (bundling, Ji et al. 2022, section 3.1.4).
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
    """An encoder, perhaps a gate, and a linear classifier over features of spans, which an architecture computes.

    With option `output` "tags", entities come from the sequence head, and spans are scored in training only.

    Architectures end their `__init__` with `smoke_test()`.

    Args:
        encoder: a transformers encoder that takes position ids; its attention is replaced.
        config: labels, options, gate, position offset.

    Attributes:
        options: what the architecture was told.
        classifier: features -> logits; not there where an architecture has no features, `feature_size` 0.
        tags: the sequence head; None without one.
        text_pass: what reads the text, and keeps of its layers what the spans need.
        checkpoint_spans: in training, keep no states of spans between the layers; compute them again on the way back.

    Raises:
        CoreError: `encoder.no_position_ids`.
    """

    text_pass: type[TextPass] = TextPass

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__()
        check_encoder(encoder)
        # A pooler looks at the first token of the batch, which means nothing in a packed one.
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
        #: Class of "O", and of each type that tags tell, as columns of the logits.
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
        """Return how many numbers stand for a span, before the classifier, with states of `hidden` numbers.

        Of an architecture that classifies no spans, 0.
        """
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Build the model that a bundle's config describes, with random weights."""
        encoder = encoder_config(config.encoder)
        return cls(AutoModel.from_config(encoder, trust_remote_code=False, attn_implementation="eager"), config)

    @torch.no_grad()
    def smoke_test(self) -> None:
        """Score a span of two tokens, so that an encoder that can't run is refused here and not at the first text.

        Raises:
            UnusableError: with its own words.
        """
        self.eval()
        word, token = np.zeros(1, np.int64), torch.tensor([0])
        spans = Spans(np.array([0, 1]), word, word, word, word + 1)
        with wrap_errors("its encoder can't run on packed texts"):
            ids, runs, yes = torch.zeros(2, dtype=torch.int64), np.array([0, 1]), np.ones(1, np.bool_)
            self(Batch(ids, np.array([0, 2]), token, token + 1, spans, runs, ~yes, yes, yes))
        self.train()

    def forward(
        self, batch: Batch, gate_threshold: float | None = None, spans_a_chunk: int | None = None
    ) -> NetworkScores:
        """Score candidate spans: all of the batch's, or with a threshold those that the gate lets pass.

        Where tags give the entities, in use, those of the batch's spans that they make up.
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
        # Of no spans too, so that every weight has a part in the outputs, as processes that share gradients expect.
        logits = [self.classifier(self.no_features(text))]
        for start, end in self.chunks(spans, spans_a_chunk or self.spans_a_chunk(text, spans)):
            if self.checkpoint_spans and self.training:
                # By chunks, each of which makes its pass anew: passes count layers, and can't be gone through twice.
                features = checkpoint(self.encode_spans, batch, spans, text, start, end, use_reentrant=False)
            else:
                features = self.encode_spans(batch, spans, text, start, end)
            logits.append(self.classifier(self.dropout(features)))
        return NetworkScores(torch.cat(logits), kept, gate, tags)

    def read(self, batch: Batch) -> TextPass:
        """Return the text pass that the gate and `encode_spans` go by."""
        return self.encode_text(batch)

    def encode_text(self, batch: Batch) -> TextPass:
        """Run the text of all windows once; keep the last layer's states, and what `text_pass` keeps of the others."""
        lengths = np.diff(batch.token_offsets)
        positions = np.arange(len(batch.token_ids)) - np.repeat(batch.token_offsets[:-1], lengths)
        text = self.text_pass(Rows(lengths, self.heads, batch.token_ids.device))
        text.states = self._encode(batch.token_ids, positions, text)
        return text

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Return features of spans [start, end): [end - start, feature_size]. What an architecture is."""
        raise NotImplementedError

    def no_features(self, text: TextPass) -> Tensor:
        """Return features of no spans, [0, feature_size].

        In training they must come by way of every weight that those of spans come by; these reach the classifier alone.
        """
        return text.states.new_zeros((0, self.classifier.in_features))

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return how many spans `encode_spans` takes at once, which bounds memory for any number of them."""
        raise NotImplementedError

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of about `size` spans that `encode_spans` takes in turn."""
        for start in range(0, len(spans), size):
            yield start, min(start + size, len(spans))

    def pretrained_parts(self) -> Iterator[nn.Module]:
        """Yield the modules that come from a pretrained encoder: the bulk of the work, which int8 replaces."""
        yield self.encoder

    def pretrained_weights(self) -> Iterator[nn.Parameter]:
        """Yield the weights that come from a pretrained encoder, which learn at its rate."""
        for part in self.pretrained_parts():
            yield from part.parameters()

    def _tagged(self, batch: Batch, tags: Tensor) -> NetworkScores:
        """Return the spans that tags make up, with their probability at their label and the rest at "O"."""
        assert self.tags is not None
        found = self.tags.decode(tags, batch)
        rows = batch.spans.rows_of(found.first_word, found.last_word)
        there = rows >= 0
        labels, probability = self.types[found.type_number[there]], found.probability[there]
        logits = np.full((len(labels), len(self.types) + 1), -np.inf)
        with np.errstate(divide="ignore"):
            logits[:, self.outside] = np.log1p(-probability)
            logits[np.arange(len(labels)), labels] = np.log(probability)
        # Finite, and 0 when it is exponentiated.
        made = torch.from_numpy(logits.clip(min=-1000.0).astype(np.float32)).to(tags.device)
        return NetworkScores(made, rows[there], None, tags, labels)

    def _encode(self, token_ids: Tensor, positions: np.ndarray, levitated: object) -> Tensor:
        position_ids = on_device(positions + self.position_offset, token_ids.device)
        output = self.encoder(input_ids=token_ids[None], position_ids=position_ids[None].long(), levitated=levitated)
        states: Tensor = output.last_hidden_state[0]
        return states
