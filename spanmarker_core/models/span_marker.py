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

from spanmarker_core.attention import ATTENTION, MarkerPass, TextPass
from spanmarker_core.bundle import ModelConfig
from spanmarker_core.errors import CoreError
from spanmarker_core.models.batch import Batch

#: Marker pairs that go through the encoder at once: bounds memory for any number of spans.
MARKER_PAIRS_A_CHUNK = 1024


class SpanMarkerModel(nn.Module):
    """An encoder whose text pass is shared by any number of marker pairs, and a linear classifier.

    Args:
        encoder: a transformers encoder that takes position ids; its attention is replaced.
        n_labels: classes, "O" included.
        start_marker_id, end_marker_id: rows of the embedding matrix for `<start>` and `<end>`.
        position_offset: position id of a window's first token (0 for BERT, 2 for RoBERTa, and 2 for
            every checkpoint of the `span_marker` library).
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

    @classmethod
    def from_config(cls, config: ModelConfig, encoder_config: PretrainedConfig) -> "SpanMarkerModel":
        """Build the model that a bundle's config describes, with random weights."""
        return cls(
            AutoModel.from_config(encoder_config, trust_remote_code=False),
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
    reason = None
    if "position_ids" not in inspect.signature(encoder.forward).parameters:
        reason = "it takes no position ids, which are how a marker points at its word"
    elif getattr(encoder.config, "relative_attention", False) or position_kind(encoder.config) != "absolute":
        reason = "its positions are relative, so position ids don't place a marker on its word"
    elif not getattr(encoder, "_supports_attention_backend", False):
        reason = "its attention can't be replaced through transformers' attention interface"
    elif getattr(encoder.config, "local_attention", None) or getattr(encoder.config, "sliding_window", None):
        reason = "its local layers see a few neighbours only, and markers would have to follow their windows"
    elif getattr(encoder.config, "is_decoder", False):
        reason = "it is a decoder, which doesn't see the words to the right"
    if reason:
        raise CoreError("encoder.no_position_ids", encoder=type(encoder).__name__, reason=reason)


def position_kind(config: PretrainedConfig) -> str:
    """Return how an encoder places tokens: `absolute`, or another kind that markers can't use."""
    if getattr(config, "max_position_embeddings", None) is None:
        return "none"
    return getattr(config, "position_embedding_type", None) or "absolute"


def native_position_offset(config: PretrainedConfig) -> int:
    """Return the position id that this encoder gave its first token in pretraining.

    RoBERTa and its kin count from `padding_idx + 1`; the others from 0.
    """
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        return config.pad_token_id + 1
    return 0


def max_window_tokens(config: PretrainedConfig, position_offset: int) -> int:
    """Return how many tokens fit the encoder's positions, special tokens included."""
    return config.max_position_embeddings - position_offset
