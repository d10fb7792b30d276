"""The cost model: multiply-accumulates of the encoder as a function of token counts. See docs/explanation/cost.md.

In one layer, a token costs `4h² + 2hf` in the linear layers (`12h²` if the inner width f is 4h), and `2h` for each
token that it attends to (once for the scores, once for the values). Embeddings, norms and the classifier are ignored:
they account for less than one percent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder that determine its cost.

    Attributes:
        layers: number of layers, L.
        width: width of the hidden states, h.
        inner: inner width of the feed-forward layer, f.
    """

    layers: int
    width: int
    inner: int

    @classmethod
    def of(cls, config: dict) -> "Encoder":
        """Return the sizes in a transformers config.

        Args:
            config: the config, as stored in a bundle.
        """
        return cls(config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"])

    def linear(self, tokens: float) -> float:
        """Return the multiply-accumulates in the linear layers of one layer.

        Args:
            tokens: number of tokens.
        """
        return tokens * (4 * self.width**2 + 2 * self.width * self.inner)

    def attention(self, tokens: float, seen: float) -> float:
        """Return the multiply-accumulates in the attention of one layer.

        Args:
            tokens: number of tokens.
            seen: number of tokens that each of them attends to.
        """
        return tokens * seen * 2 * self.width

    def layer(self, tokens: float, seen: float) -> float:
        """Return the multiply-accumulates of one layer.

        Args:
            tokens: number of tokens.
            seen: number of tokens that each of them attends to.

        >>> Encoder(layers=6, width=2, inner=8).layer(tokens=10, seen=3)
        600
        """
        return self.linear(tokens) + self.attention(tokens, seen)


@dataclass(frozen=True)
class Window:
    """Counts of a window.

    Attributes:
        tokens: number of tokens including special ones, T.
        spans: number of candidate spans, S; each has two markers.
        starts: number of words at which a span starts.
        ends: number of words at which a span ends.
    """

    tokens: int
    spans: int
    starts: int
    ends: int


def text_only(encoder: Encoder, windows: Iterable[Window]) -> float:
    """Return the cost of the text alone: L · T · (linear + 2Th).

    Args:
        encoder: the sizes of the encoder.
        windows: the windows.
    """
    return encoder.layers * sum(encoder.layer(window.tokens, window.tokens) for window in windows)


def exact(encoder: Encoder, windows: Iterable[Window], kept: float = 1.0) -> float:
    """Return the cost of the text and of two markers per span.

    A marker attends to the text, itself and its partner.

    Args:
        encoder: the sizes of the encoder.
        windows: the windows.
        kept: share of the spans that pass the gate, 0 to 1.
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
    """Return the cost with markers paired in the top layers only.

    In the lower layers, one marker per start word and one per end word represent all spans.

    Args:
        encoder: the sizes of the encoder.
        windows: the windows.
        pair_layers: number of top layers in which markers are paired.
        kept: share of the spans that pass the gate, 0 to 1.
        kept_words: share of the start and end words of these spans, which is larger than `kept`; None uses `kept`, and
            the result is then slightly too low.
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
    """Return the cost of the padded form of span_marker.

    Every sample has `max_tokens + 2 · markers` tokens, and the text is repeated in each sample of a window.

    Args:
        encoder: the sizes of the encoder.
        windows: the windows.
        max_tokens: tokens of text per sample, including padding.
        markers: maximum number of spans per sample.

    >>> Window_ = Window(tokens=20, spans=100, starts=15, ends=15)
    >>> span_marker(Encoder(1, 2, 8), [Window_], max_tokens=40, markers=40)  # two samples of 120, 50 spans fit one
    126720
    """
    size = max_tokens + 2 * markers
    samples = sum(ceil(window.spans / ((size - window.tokens) // 2)) for window in windows)
    return samples * encoder.layers * encoder.layer(size, size)
