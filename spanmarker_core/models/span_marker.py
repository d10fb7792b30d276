"""SpanMarker: spans classified through pairs of levitated markers (Aarsen 2023, the thesis, chapter 2).

For a candidate span, a `<start>` marker carries the position id of its first token and an `<end>`
marker that of its last. Their final states, concatenated, go through one linear layer.

Two things of our own make it cheaper, both settled in training and told by the bundle. With a gate, spans whose
edges it turns away get no markers. With `pair_layers`, partners attend to each other in the top layers only: below,
a marker depends on its own word alone, and one start and one end marker a word stand for all spans.

The thesis's ablations and experiments (3.5) are options, all off: see `options.SpanMarkerOptions`.
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

#: What bounds the marker pairs that go through the encoder at once, and so memory for any number of spans: the scores
#: of a head, pairs times text tokens, which should stay in the caches of a CPU, and the pairs themselves, at least and
#: at most. Measured on documents of 400 tokens and sentences of 30; a GPU has thousands of units to fill.
SCORES_A_CHUNK = {"cpu": 50_000, "cuda": 8_000_000}
PAIRS_A_CHUNK = {"cpu": (128, 1024), "cuda": (1024, 16384)}
#: How much larger a chunk is where markers pair late: what chunks have in common, the single markers, is made anew.
LATE_FACTOR = 4


class SpanMarkerModel(SpanNetwork):
    """An encoder whose text pass is shared by any number of marker pairs, and a linear classifier.

    Args:
        encoder: has rows for both markers in its embedding matrix.
        config: says which rows, and in which top layers partners attend to each other.

    Raises:
        CoreError: `encoder.no_position_ids`.
        UnusableError: if the encoder can't run, or can't pair late.
    """

    def __init__(self, encoder: PreTrainedModel, config: ModelConfig) -> None:
        super().__init__(encoder, config)
        pair_layers, n_layers = config.pair_layers, encoder.config.num_hidden_layers
        #: First layer that pairs; None where all do.
        self.pair_from: int | None = None
        if pair_layers is not None and pair_layers > n_layers:
            raise UnusableError(f"pair_layers is {pair_layers}, and the encoder has {n_layers} layers")
        if pair_layers is not None and pair_layers < n_layers:
            layers = encoder_layers(encoder, "pair_layers")
            # With no layer to pair in, the markers are put together after the last.
            self.pair_from = len(layers) - pair_layers
            if pair_layers:
                pair_late(layers[self.pair_from])
        self.markers: Tensor
        markers = torch.tensor([config.start_marker_id, config.end_marker_id])
        self.register_buffer("markers", markers, persistent=False)
        #: How samples are made, where text and markers go through the encoder together.
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
        """Return how many numbers stand for a span: states of both markers, of both edges if told so, its length."""
        return (4 if options.text_features else 2) * hidden + options.width_size

    def no_features(self, text: TextPass) -> Tensor:
        """Return features of no spans, [0, feature_size], through the encoder and the embedding of lengths."""
        states = text.states[:0, :1].expand(0, self.classifier.in_features - self.options.width_size)
        if self.widths is None:
            return states
        return torch.cat([states, self.widths(torch.zeros(0, dtype=torch.int64, device=states.device))], dim=-1)

    def spans_a_chunk(self, text: TextPass, spans: Spans) -> int:
        """Return how many marker pairs go through the encoder at once."""
        device, longest = self.markers.device.type, text.rows.shape[2]
        if self.sampling is not None:
            return SAMPLES_A_CHUNK[device] * self.sampling.group
        least, most = PAIRS_A_CHUNK[device]
        pairs = min(max(SCORES_A_CHUNK[device] // longest, least), most)
        return pairs if self.pair_from is None else LATE_FACTOR * pairs

    def chunks(self, spans: Spans, size: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of spans that `encode_spans` takes at once; samples stay whole."""
        if self.sampling is None:
            yield from super().chunks(spans, size)
            return
        _, first = sample_starts(spans.offsets, self.sampling.group)
        edges = np.append(first[:: max(1, size // self.sampling.group)], len(spans)).tolist()
        if len(spans):
            yield from pairwise(edges)

    def encode_spans(self, batch: Batch, spans: Spans, text: TextPass, start: int, end: int) -> Tensor:
        """Run the marker pairs of spans [start, end) -> their features, [end - start, feature_size].

        Those are the states of start, then end; the states of the span's first and last token, if told so; and the
        embedding of its length.
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
            # Where a model is tried out there are longer spans than those that it learns.
            words = spans.last_word[start:end] - spans.first_word[start:end]
            features.append(self.widths(on_device(np.minimum(words, self.widths.num_embeddings - 1), device)))
        return torch.cat(features, dim=-1) if len(features) > 1 else features[0]

    def _levitate(
        self, batch: Batch, text: TextPass, windows: tuple[int, int], spans_a_window: np.ndarray, tokens: np.ndarray
    ) -> Tensor:
        """Run marker pairs over the text pass: [2 · n_spans, hidden].

        Args:
            windows: half-open range of the windows that the spans are in.
            spans_a_window: of each of them.
            tokens: [2 · n_spans], where each start and end marker is, in the window.
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
        # One marker of a kind a word: numbered so that a window's are next to each other.
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
        """Run text and markers of samples together: states of all their items."""
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
    """Return a place in the window for each marker, int64 [n_spans, 2], drawn by the window's tokens and the span.

    Args:
        windows: half-open range of the windows that the spans are in.
        spans_a_window: of each of them.
        tokens: [n_spans, 2], where the spans are in their windows.
    """
    offsets = batch.token_offsets[windows[0] : windows[1] + 1]
    lengths = np.diff(offsets)
    ids = batch.token_ids[int(offsets[0]) : int(offsets[-1])].cpu().numpy()
    place = np.arange(len(ids)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    # Sums of hashes, which wrap around: equal for equal windows, whatever lies beside them.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(ids, place))])
    window = np.repeat(np.diff(sums[offsets - offsets[0]]), spans_a_window)
    draws = uniform(window[:, None], tokens[:, :1], tokens[:, 1:], np.arange(2))
    return (draws * np.repeat(lengths, spans_a_window)[:, None]).astype(np.int64)
