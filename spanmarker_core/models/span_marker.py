"""SpanMarker: spans classified through pairs of levitated markers (Aarsen 2023, the thesis, chapter 2).

For a candidate span, a `<start>` marker carries the position id of its first token and an `<end>`
marker that of its last. Their final states, concatenated, go through one linear layer.

Two things of our own make it cheaper, both settled in training and told by the bundle. With a gate, spans whose
edges it turns away get no markers. With `pair_layers`, partners attend to each other in the top layers only: below,
a marker depends on its own word alone, and one start and one end marker a word stand for all spans.
"""

import inspect
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from spanmarker_core.attention import ATTENTION, MarkerPass, Rows, TextPass, pair_late
from spanmarker_core.bundle import ModelConfig
from spanmarker_core.errors import CoreError, UnusableError, unusable
from spanmarker_core.gate import Gate, passing
from spanmarker_core.models import Scores
from spanmarker_core.models.batch import Batch
from spanmarker_core.pretrained import encoder_config
from spanmarker_core.spans import Spans

#: What bounds the marker pairs that go through the encoder at once, and so memory for any number of spans: the scores
#: of a head, pairs times text tokens, which should stay in the caches of a CPU, and the pairs themselves, at least and
#: at most. Measured on documents of 400 tokens and sentences of 30; a GPU has thousands of units to fill.
SCORES_A_CHUNK = {"cpu": 50_000, "cuda": 8_000_000}
PAIRS_A_CHUNK = {"cpu": (128, 1024), "cuda": (1024, 16384)}
#: How much larger a chunk is where markers pair late: what chunks have in common, the single markers, is made anew.
LATE_FACTOR = 4


class SpanMarkerModel(nn.Module):
    """An encoder whose text pass is shared by any number of marker pairs, and a linear classifier.

    Args:
        encoder: a transformers encoder that takes position ids; its attention is replaced.
        n_labels: classes, "O" included.
        start_marker_id, end_marker_id: rows of the embedding matrix for `<start>` and `<end>`.
        position_offset: position id of a window's first token (0 for BERT, 2 for RoBERTa, and 2 for
            every checkpoint of the `span_marker` library).
        pair_layers: top layers in which partners attend to each other; None is all of them.
        gate_width: units of the gate's hidden layer; None for a model without a gate.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: if the encoder can't run, or can't pair late.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        n_labels: int,
        start_marker_id: int,
        end_marker_id: int,
        position_offset: int,
        pair_layers: int | None = None,
        gate_width: int | None = None,
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
        self.gate = None if gate_width is None else Gate(config.hidden_size, gate_width)
        self.heads = config.num_attention_heads
        self.position_offset = position_offset
        #: First layer that pairs; None where all do.
        self.pair_from: int | None = None
        if pair_layers is not None and pair_layers > config.num_hidden_layers:
            raise UnusableError(f"pair_layers is {pair_layers}, and the encoder has {config.num_hidden_layers} layers")
        if pair_layers is not None and pair_layers < config.num_hidden_layers:
            layers = encoder_layers(encoder)
            # With no layer to pair in, the markers are put together after the last.
            self.pair_from = len(layers) - pair_layers
            if pair_layers:
                pair_late(layers[self.pair_from])
        self.markers: Tensor
        self.register_buffer("markers", torch.tensor([start_marker_id, end_marker_id]), persistent=False)
        self._try_out()

    @torch.no_grad()
    def _try_out(self) -> None:
        """Score one span, so that an encoder that can't run is refused here and not at the first text."""
        self.eval()
        word = np.zeros(1, np.int64)
        spans = Spans(np.array([0, 1]), word, word, word, word)
        with unusable("its encoder can't run with levitated markers"):
            self(Batch(self.markers, np.array([0, 2]), torch.tensor([0]), torch.tensor([1]), spans))
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
            pair_layers=config.pair_layers,
            gate_width=None if config.gate is None else config.gate["width"],
        )

    def forward(self, batch: Batch, gate_threshold: float | None = None, pairs_a_chunk: int | None = None) -> Scores:
        """Score candidate spans: all of the batch's, or with a threshold those that the gate lets pass."""
        text = self.encode_text(batch)
        spans, kept, gate = batch.spans, None, None
        if self.gate is not None:
            gate = self.gate(text.states, batch.first_token, batch.last_token)
        if gate is not None and gate_threshold is not None:
            kept = passing(spans, gate.float().sigmoid().cpu().numpy(), gate_threshold)
            spans = spans.take(kept)
        pairs_a_chunk = pairs_a_chunk or self._pairs_a_chunk(text)
        logits = [self.classifier.weight.new_zeros((0, self.classifier.out_features))]
        for start, end in _chunks(spans, pairs_a_chunk):
            features = self._encode_markers(batch, spans, text, start, end)
            logits.append(self.classifier(self.dropout(features)))
        return Scores(torch.cat(logits), kept, gate)

    def encode_text(self, batch: Batch) -> TextPass:
        """Run the text of all windows once; keep every layer's keys and values, and the last layer's states."""
        lengths = np.diff(batch.token_offsets)
        positions = np.arange(len(batch.token_ids)) - np.repeat(batch.token_offsets[:-1], lengths)
        text = TextPass(Rows(lengths, self.heads, batch.token_ids.device))
        text.states = self._encode(batch.token_ids, positions, text)
        return text

    def _pairs_a_chunk(self, text: TextPass) -> int:
        device, longest = text.states.device.type, text.rows.shape[2]
        least, most = PAIRS_A_CHUNK[device]
        pairs = min(max(SCORES_A_CHUNK[device] // longest, least), most)
        return pairs if self.pair_from is None else LATE_FACTOR * pairs

    def _encode_markers(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Run the marker pairs of spans [start, end) -> features [end - start, 2 · hidden]."""
        first = int(np.searchsorted(spans.offsets, start, "right")) - 1
        last = int(np.searchsorted(spans.offsets, end, "left"))
        spans_a_window = np.diff(np.clip(spans.offsets[first : last + 1], start, end))
        device = text.states.device
        pairs = Rows(2 * spans_a_window, self.heads, device)
        tokens = np.stack([spans.first_token[start:end], spans.last_token[start:end]], axis=1).ravel()
        kinds = np.tile(np.arange(2), end - start)
        if self.pair_from is None:
            marker_pass = MarkerPass(text, (first, last), pairs)
            states = self._encode(self._marker_ids(kinds), tokens, marker_pass)
            return states.view(end - start, -1)
        # One marker of a kind a word: numbered so that a window's are next to each other.
        window = np.repeat(np.arange(last - first), 2 * spans_a_window)
        longest = int(np.diff(batch.token_offsets)[first:last].max())
        keys, members = np.unique((window * longest + tokens) * 2 + kinds, return_inverse=True)
        place, kinds = np.divmod(keys, 2)
        window, tokens = np.divmod(place, longest)
        marker_pass = MarkerPass(
            text,
            (first, last),
            pairs,
            Rows(np.bincount(window, minlength=last - first), self.heads, device),
            torch.from_numpy(members).to(device, non_blocking=True),
        )
        states = self._encode(self._marker_ids(kinds), tokens, marker_pass)
        if not marker_pass.paired:
            states = marker_pass.pair_up(states[None])[0]
        return states.view(end - start, -1)

    def _marker_ids(self, kinds: np.ndarray) -> Tensor:
        return self.markers[torch.from_numpy(kinds).to(self.markers.device, non_blocking=True)]

    def _encode(self, token_ids: Tensor, positions: np.ndarray, levitated: TextPass | MarkerPass) -> Tensor:
        position_ids = torch.from_numpy(positions + self.position_offset).to(token_ids.device, non_blocking=True)
        output = self.encoder(input_ids=token_ids[None], position_ids=position_ids[None].long(), levitated=levitated)
        return output.last_hidden_state[0]


def _chunks(spans: Spans, pairs_a_chunk: int) -> Iterator[tuple[int, int]]:
    for start in range(0, len(spans), pairs_a_chunk):
        yield start, min(start + pairs_a_chunk, len(spans))


def encoder_layers(encoder: PreTrainedModel) -> nn.ModuleList:
    """Return the encoder's layers, first to last.

    Raises:
        UnusableError: if it has no list of layers, such as ALBERT, which runs one again and again.
    """
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == encoder.config.num_hidden_layers:
            return module
    raise UnusableError(f"{type(encoder).__name__} has no list of layers, so pair_layers can't be set")


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
