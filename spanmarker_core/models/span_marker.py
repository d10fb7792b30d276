"""SpanMarker: spans classified through pairs of levitated markers (Aarsen 2023, the thesis, chapter 2).

For a candidate span, a `<start>` marker has the position id of its first token and an `<end>` marker that
of its last token. Their final states, concatenated, go through one linear layer.

Two additions to the thesis reduce the cost; both are chosen in training and stored in the bundle. With a gate,
spans with rejected edges get no markers. With `pair_layers`, partners attend to each other in the top layers only:
below these, a marker depends only on its own word, so one start and one end marker per word serve all spans.

The thesis's ablations and experiments (3.5) are options, all off by default.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from spanmarker_core.arrays.counter_rng import mixed, uniform
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.errors import UnusableError
from spanmarker_core.models.attention import MarkerPass, Rows, TextPass, pair_late
from spanmarker_core.models.batch import Batch, on_device
from spanmarker_core.models.encoders import encoder_layers
from spanmarker_core.models.joint import SAMPLES_A_CHUNK, JointPass, SampledSpans, Sampling, sample_starts
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.spans.candidates import Spans

#: Limits for the marker pairs that go through the encoder at once, which bound memory for any number of spans: scores
#: per attention head (pairs times text tokens), which should fit in the caches of a CPU, and minimum and maximum pairs.
#: Tuned on documents of 400 tokens and sentences of 30 tokens; a GPU needs larger chunks to be fully used.
SCORES_A_CHUNK = {"cpu": 50_000, "cuda": 8_000_000}
PAIRS_A_CHUNK = {"cpu": (128, 1024), "cuda": (1024, 16384)}
#: Factor for the chunk size if markers pair late, because each chunk recomputes its single markers.
LATE_FACTOR = 4


class SpanMarkerModel(SpanNetwork):
    """An encoder whose text pass is shared by any number of marker pairs, and a linear classifier.

    Args:
        encoder: an encoder with rows for both markers in its embedding matrix.
        config: the model's config, with the ids of the markers.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: the encoder can't run on packed texts, or does not support `pair_layers`.
    """

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__(encoder, config)
        pair_layers, n_layers = config.pair_layers, encoder.config.num_hidden_layers
        #: First layer in which partners attend to each other; None for all layers.
        self.pair_from: int | None = None
        if pair_layers is not None and pair_layers > n_layers:
            raise UnusableError(f"pair_layers is {pair_layers}, but the encoder has {n_layers} layers")
        if pair_layers is not None and pair_layers < n_layers:
            layers = encoder_layers(encoder, "pair_layers")
            # With `pair_layers` 0, the markers are paired after the last layer.
            self.pair_from = len(layers) - pair_layers
            if pair_layers:
                pair_late(layers[self.pair_from])
        self.markers: Tensor
        markers = torch.tensor([config.start_marker_id, config.end_marker_id])
        self.register_buffer("markers", markers, persistent=False)
        #: Composition of samples; None unless text and markers go through the encoder together.
        self.sampling = self._sampling(config)
        self.widths: nn.Embedding | None = None
        if self.options.width_size:
            self.widths = nn.Embedding(config.entity_max_length, self.options.width_size)
            nn.init.normal_(self.widths.weight, std=self.initializer_range)
        self.smoke_test()

    def _sampling(self, config: ModelConfig) -> Sampling | None:
        return Sampling(self.options.attention, self.options.group or 128) if self.options.joint else None

    @staticmethod
    def feature_size(options: Any, hidden: int) -> int:
        """Return the size of a span's features: states of both markers, optionally of both edges, and its length.

        Args:
            options: the architecture's options.
            hidden: size of the encoder's states.
        """
        return (4 if options.text_features else 2) * hidden + options.width_size

    def no_features(self, text: TextPass) -> Tensor:
        """Return an empty tensor of features, [0, feature_size], connected to the encoder and the length embedding.

        Args:
            text: the pass over the text.
        """
        states = text.states[:0, :1].expand(0, self.classifier.in_features - self.options.width_size)
        if self.widths is None:
            return states
        return torch.cat([states, self.widths(torch.zeros(0, dtype=torch.int64, device=states.device))], dim=-1)

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return the number of marker pairs that go through the encoder at once.

        Args:
            text: the pass over the text.
            spans: the spans to encode.
        """
        device, longest = self.markers.device.type, text.rows.shape[2]
        if self.sampling is not None:
            return SAMPLES_A_CHUNK[device] * self.sampling.group
        least, most = PAIRS_A_CHUNK[device]
        pairs = min(max(SCORES_A_CHUNK[device] // longest, least), most)
        return pairs if self.pair_from is None else LATE_FACTOR * pairs

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of spans for `encode_spans`, without dividing samples.

        Args:
            spans: the spans to encode.
            size: approximate number of spans per range.
        """
        if self.sampling is None:
            yield from super().chunks(spans, size)
            return
        _, first = sample_starts(spans.offsets, self.sampling.group)
        edges = np.append(first[:: max(1, size // self.sampling.group)], len(spans)).tolist()
        if len(spans):
            yield from pairwise(edges)

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Run the marker pairs of spans and return their features, [end - start, feature_size].

        Features are the states of the start and the end marker; with `text_features`, those of the span's first and
        last token; with `width_size`, the embedding of its length.

        Args:
            batch: the windows.
            spans: the spans to score.
            text: the pass over the text.
            start: first span.
            end: last span plus one.
        """
        offsets, device = spans.offsets, text.states.device
        first = int(np.searchsorted(offsets, start, "right")) - 1
        last = int(np.searchsorted(offsets, end, "left"))
        spans_a_window = np.diff(np.clip(offsets[first : last + 1], start, end))
        tokens = np.stack([spans.first_token[start:end], spans.last_token[start:end]], axis=1)
        positions = tokens
        if self.options.positions == "random":
            positions = _random_positions(batch, (first, last), spans_a_window, tokens)
        if self.sampling is None:
            states = text.states
            markers = self._levitate(batch, text, (first, last), spans_a_window, positions.ravel())
            begin = np.repeat(batch.token_offsets[first:last], spans_a_window)
        else:
            samples = SampledSpans(batch, spans, start, end, self.sampling)
            states = self._join(batch, samples, positions.ravel())
            markers = states[on_device(samples.markers, device)]
            begin = samples.begin
        features = [markers.view(end - start, -1)]
        if self.options.text_features:
            features.append(states[on_device((begin[:, None] + tokens).ravel(), device)].view(end - start, -1))
        if self.widths is not None:
            # The probe of a new model uses longer spans than training does.
            words = spans.last_word[start:end] - spans.first_word[start:end]
            features.append(self.widths(on_device(np.minimum(words, self.widths.num_embeddings - 1), device)))
        return torch.cat(features, dim=-1) if len(features) > 1 else features[0]

    def _levitate(
        self, batch: Batch, text: TextPass, windows: tuple[int, int], spans_a_window: np.ndarray, tokens: np.ndarray
    ) -> Tensor:
        """Run marker pairs over the text pass: [2 · n_spans, hidden].

        Args:
            batch: the windows.
            text: the pass over the text.
            windows: half-open range of the windows of the spans.
            spans_a_window: number of spans in each of them.
            tokens: [2 · n_spans], position of each start and end marker in its window.
        """
        first, last = windows
        device = text.states.device
        pairs = Rows(2 * spans_a_window, self.heads, device)
        kinds = np.tile(np.arange(2), len(tokens) // 2)
        if self.pair_from is None:
            attention = self.options.attention
            marker_pass = MarkerPass(
                text,
                windows,
                pairs,
                itself=attention not in ("no_diagonal", "no_self"),
                partner=attention not in ("no_diagonal", "no_partner"),
            )
            return self._encode(self._marker_ids(kinds), tokens, marker_pass)
        # One start and one end marker per token, numbered so that those of a window are adjacent.
        window = np.repeat(np.arange(last - first), 2 * spans_a_window)
        longest = int(np.diff(batch.token_offsets)[first:last].max())
        keys, members = np.unique((window * longest + tokens) * 2 + kinds, return_inverse=True)
        place, kinds = np.divmod(keys, 2)
        window, tokens = np.divmod(place, longest)
        singles = Rows(np.bincount(window, minlength=last - first), self.heads, device)
        marker_pass = MarkerPass(text, windows, pairs, singles, on_device(members, device))
        states = self._encode(self._marker_ids(kinds), tokens, marker_pass)
        return states if marker_pass.paired else marker_pass.pair_up(states[None])[0]

    def _join(self, batch: Batch, samples: SampledSpans, tokens: np.ndarray) -> Tensor:
        """Run the text and markers of samples together and return the states of all items."""
        device = batch.token_ids.device
        rows = Rows(samples.lengths, self.heads, device)
        n_items = int(rows.offsets[-1])
        text, markers = on_device(samples.text, device), on_device(samples.markers, device)
        ids = batch.token_ids.new_zeros(n_items)
        ids[text] = batch.token_ids[on_device(samples.tokens, device)]
        ids[markers] = self._marker_ids(np.tile(np.arange(2), len(tokens) // 2))
        positions = np.zeros(n_items, np.int64)
        window = np.searchsorted(batch.token_offsets, samples.tokens, "right") - 1
        positions[samples.text] = samples.tokens - batch.token_offsets[window]
        positions[samples.markers] = tokens
        return self._encode(ids, positions, JointPass(rows, samples.mask(device)))

    def _marker_ids(self, kinds: np.ndarray) -> Tensor:
        return self.markers[on_device(kinds, self.markers.device)]


def _random_positions(
    batch: Batch, windows: tuple[int, int], spans_a_window: np.ndarray, tokens: np.ndarray
) -> np.ndarray:
    """Return a random position in the window for each marker, int64 [n_spans, 2].

    Positions depend only on the tokens of the window and on the span.

    Args:
        batch: the windows.
        windows: half-open range of the windows of the spans.
        spans_a_window: number of spans in each of them.
        tokens: [n_spans, 2], first and last token of each span in its window.
    """
    offsets = batch.token_offsets[windows[0] : windows[1] + 1]
    lengths = np.diff(offsets)
    ids = batch.token_ids[int(offsets[0]) : int(offsets[-1])].cpu().numpy()
    place = np.arange(len(ids)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    # Sums of hashes, which wrap around: equal for equal windows, regardless of the other windows.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(ids, place))])
    window = np.repeat(np.diff(sums[offsets - offsets[0]]), spans_a_window)
    draws = uniform(window[:, None], tokens[:, :1], tokens[:, 1:], np.arange(2))
    return (draws * np.repeat(lengths, spans_a_window)[:, None]).astype(np.int64)
