"""SpanMarker: spans classified through pairs of levitated markers (Aarsen 2023, the thesis, chapter 2).

For a candidate span, a `<start>` marker carries the position id of its first token and an `<end>`
marker that of its last. Their final states, concatenated, go through one linear layer.
"""

import inspect
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from spanmarker_core.attention import ATTENTION, MarkerPass, TextPass
from spanmarker_core.bundle import ModelConfig
from spanmarker_core.errors import CoreError, unusable
from spanmarker_core.models.batch import Batch
from spanmarker_core.pretrained import encoder_config

#: Marker pairs that go through the encoder at once: bounds memory for any number of spans.
MARKER_PAIRS_A_CHUNK = 512


class SpanMarkerModel(nn.Module):
    """An encoder whose text pass is shared by any number of marker pairs, and a linear classifier.

    Args:
        encoder: a transformers encoder that takes position ids; its attention is replaced.
        n_labels: classes, "O" included.
        start_marker_id, end_marker_id: rows of the embedding matrix for `<start>` and `<end>`.
        position_offset: position id of a window's first token (0 for BERT, 2 for RoBERTa, and 2 for
            every checkpoint of the `span_marker` library).

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: if the encoder can't run.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        n_labels: int,
        start_marker_id: int,
        end_marker_id: int,
        position_offset: int,
    ) -> None:
        super().__init__()
        check_encoder(encoder)
        # A pooler looks at the first token of the batch, which means nothing in a packed one.
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None
        encoder.config._attn_implementation = ATTENTION
        encoder.config.return_dict = True
        self.encoder = encoder
        config = encoder.config
        dropout = getattr(config, "hidden_dropout_prob", getattr(config, "dropout", 0.1))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * config.hidden_size, n_labels)
        nn.init.normal_(self.classifier.weight, std=getattr(config, "initializer_range", 0.02))
        nn.init.zeros_(self.classifier.bias)
        self.position_offset = position_offset
        self.markers: Tensor
        self.register_buffer("markers", torch.tensor([start_marker_id, end_marker_id]), persistent=False)
        self._try_out()

    @torch.no_grad()
    def _try_out(self) -> None:
        """Score one span, so that an encoder that can't run is refused here and not at the first text."""
        self.eval()
        with unusable("its encoder can't run with levitated markers"):
            self(Batch(self.markers, [0, 2], [0, 1], torch.tensor([0]), torch.tensor([1])))
        self.train()

    @classmethod
    def from_config(cls, config: ModelConfig) -> "SpanMarkerModel":
        """Build the model that a bundle's config describes, with random weights."""
        return cls(
            AutoModel.from_config(encoder_config(config.encoder), trust_remote_code=False, attn_implementation="eager"),
            n_labels=len(config.labels),
            start_marker_id=config.start_marker_id,
            end_marker_id=config.end_marker_id,
            position_offset=config.position_offset,
        )

    def forward(self, batch: Batch, pairs_a_chunk: int = MARKER_PAIRS_A_CHUNK) -> Tensor:
        """Score candidate spans.

        Returns:
            Logits [n_spans, n_labels], rows as the spans of the batch.
        """
        text = self.encode_text(batch)
        features = [self._encode_markers(batch, text, start, end) for start, end in _chunks(batch, pairs_a_chunk)]
        if not features:
            return self.classifier.weight.new_zeros((0, self.classifier.out_features))
        return self.classifier(self.dropout(torch.cat(features)))

    def encode_text(self, batch: Batch) -> TextPass:
        """Run the text of all windows once and return every layer's keys and values."""
        text = TextPass(batch.window_offsets)
        starts = torch.tensor(batch.window_offsets, device=batch.token_ids.device)
        lengths = starts.diff()
        positions = torch.arange(len(batch.token_ids), device=starts.device) - starts[:-1].repeat_interleave(lengths)
        self._encode(batch.token_ids, positions, text)
        return text

    def _encode_markers(self, batch: Batch, text: TextPass, start: int, end: int) -> Tensor:
        """Run the marker pairs of spans [start, end) -> features [end - start, 2 · hidden]."""
        positions = torch.stack([batch.first_token[start:end], batch.last_token[start:end]], dim=1).flatten()
        segments = _segments(batch.span_offsets, start, end)
        states = self._encode(self.markers.repeat(end - start), positions, MarkerPass(text, segments))
        return states.view(end - start, -1)

    def _encode(self, token_ids: Tensor, positions: Tensor, levitated: TextPass | MarkerPass) -> Tensor:
        output = self.encoder(
            input_ids=token_ids[None],
            position_ids=positions[None] + self.position_offset,
            levitated=levitated,
        )
        return output.last_hidden_state[0]


def _chunks(batch: Batch, pairs_a_chunk: int) -> Iterator[tuple[int, int]]:
    n_spans = batch.span_offsets[-1]
    for start in range(0, n_spans, pairs_a_chunk):
        yield start, min(start + pairs_a_chunk, n_spans)


def _segments(span_offsets: list[int], start: int, end: int) -> list[tuple[int, int, int]]:
    """Return (window, marker_start, marker_end) for the windows that have spans in [start, end).

    >>> _segments([0, 3, 3, 10], 2, 6)
    [(0, 0, 2), (2, 2, 8)]
    """
    segments = []
    for window, (first, last) in enumerate(pairwise(span_offsets)):
        low, high = max(first, start), min(last, end)
        if low < high:
            segments.append((window, 2 * (low - start), 2 * (high - start)))
    return segments


def check_encoder(encoder: PreTrainedModel) -> None:
    """Refuse an encoder that can't carry levitated markers.

    Raises:
        CoreError: `encoder.no_position_ids`, with what is missing.
    """
    config = encoder.config
    reason = None
    if "position_ids" not in inspect.signature(encoder.forward).parameters:
        reason = "it takes no position ids, which are how a marker points at its word"
    elif _is_decoder(encoder):
        reason = "it is a decoder, which doesn't see the words to the right"
    elif getattr(config, "relative_attention", False) or position_kind(config) != "absolute":
        reason = "its positions are relative, so position ids don't place a marker on its word"
    elif not getattr(encoder, "_supports_attention_backend", False):
        reason = "its attention can't be replaced through transformers' attention interface"
    elif getattr(config, "local_attention", None) or getattr(config, "sliding_window", None):
        reason = "its local layers see a few neighbours only, and markers would have to follow their windows"
    elif getattr(config, "num_key_value_heads", None) not in (None, config.num_attention_heads):
        reason = "its queries share keys and values, which levitated attention keeps one a head"
    if reason:
        raise CoreError("encoder.no_position_ids", encoder=type(encoder).__name__, reason=reason)


def _is_decoder(encoder: PreTrainedModel) -> bool:
    """Say whether a model was made to see the words to the left only.

    By its config, by its attention, and, for attention that doesn't say, by having a causal head in transformers
    and no masked one.
    """
    if getattr(encoder.config, "is_decoder", False):
        return True
    if any(getattr(module, "is_causal", False) for module in encoder.modules()):
        return True
    model_type = encoder.config.model_type
    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def position_kind(config: PretrainedConfig) -> str:
    """Return how an encoder places tokens: `absolute`, or another kind that markers can't use."""
    if getattr(config, "max_position_embeddings", None) is None:
        return "none"
    return getattr(config, "position_embedding_type", None) or "absolute"


def native_position_offset(encoder: PreTrainedModel) -> int:
    """Return the position id that this encoder gave its first token in pretraining.

    RoBERTa and its kin have a position for padding and count from the one after it; the others count from 0.
    """
    for name, module in encoder.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return module.padding_idx + 1
    return 0


def max_window_tokens(config: PretrainedConfig, position_offset: int) -> int:
    """Return how many tokens fit the encoder's positions, special tokens included."""
    return config.max_position_embeddings - position_offset
