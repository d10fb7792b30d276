"""The cost model: multiply-accumulates of the encoder, from counts of tokens. See docs/cost.md.

A token costs `4h² + 2hf` in the linear layers of one layer (`12h²` where the inner width f is 4h), and `2h` for each
token that it sees (once for the scores, once for the values). Embeddings, norms and the classifier are left out:
they are under one percent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Encoder:
    """The sizes that cost depends on.

    Attributes:
        layers: L.
        width: h, of the hidden states.
        inner: f, of the feed-forward layer.
    """

    layers: int
    width: int
    inner: int

    @classmethod
    def of(cls, config: dict) -> "Encoder":
        """Read a transformers config as a bundle keeps it."""
        return cls(config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"])

    def linear(self, tokens: float) -> float:
        """Multiply-accumulates of `tokens` in the linear layers of one layer."""
        return tokens * (4 * self.width**2 + 2 * self.width * self.inner)

    def attention(self, tokens: float, seen: float) -> float:
        """Multiply-accumulates of `tokens` that see `seen` tokens each, in one layer."""
        return tokens * seen * 2 * self.width

    def layer(self, tokens: float, seen: float) -> float:
        """Both together.

        >>> Encoder(layers=6, width=2, inner=8).layer(tokens=10, seen=3)
        600
        """
        return self.linear(tokens) + self.attention(tokens, seen)


@dataclass(frozen=True)
class Window:
    """What a window holds.

    Attributes:
        tokens: T, special tokens included.
        spans: S, its candidate spans: two markers each.
        starts, ends: words that a span starts at, and that one ends at.
    """

    tokens: int
    spans: int
    starts: int
    ends: int


def text_only(encoder: Encoder, windows: Iterable[Window]) -> float:
    """The text alone: L · T · (linear + 2Th)."""
    return encoder.layers * sum(encoder.layer(window.tokens, window.tokens) for window in windows)


def exact(encoder: Encoder, windows: Iterable[Window], kept: float = 1.0) -> float:
    """Text once, and two markers for each span, or for the share `kept` that a gate leaves.

    A marker sees the text, itself and its partner.
    """
    return sum(
        encoder.layers
        * (
            encoder.layer(window.tokens, window.tokens)
            + encoder.layer(2 * window.spans * kept, window.tokens + 2 if window.spans else 0)
        )
        for window in windows
    )


def late_pairing(
    encoder: Encoder, windows: Iterable[Window], pair_layers: int, kept: float = 1.0, kept_words: float | None = None
) -> float:
    """Markers that pair in the top layers only; below, one marker a start word and one an end word stand for all.

    With a gate, `kept` is the share of the spans that it leaves and `kept_words` that of the start and end words, which
    is greater. Where it isn't known the first stands for it, and the result is a little low.
    """
    words_left = kept if kept_words is None else kept_words
    total = 0.0
    for window in windows:
        text = encoder.layer(window.tokens, window.tokens)
        words = encoder.layer((window.starts + window.ends) * words_left, window.tokens + 1)
        pairs = encoder.layer(2 * window.spans * kept, window.tokens + 2)
        total += encoder.layers * text + (encoder.layers - pair_layers) * words + pair_layers * pairs
    return total


def span_marker(encoder: Encoder, windows: Iterable[Window], max_tokens: int, markers: int) -> float:
    """The padded form: every sample has `max_tokens + 2 · markers` tokens, text repeated in each sample of a window.

    >>> Window_ = Window(tokens=20, spans=100, starts=15, ends=15)
    >>> span_marker(Encoder(1, 2, 8), [Window_], max_tokens=40, markers=40)  # two samples of 120, 50 spans fit one
    126720
    """
    size = max_tokens + 2 * markers
    samples = sum(ceil(window.spans / ((size - window.tokens) // 2)) for window in windows)
    return samples * encoder.layers * encoder.layer(size, size)
