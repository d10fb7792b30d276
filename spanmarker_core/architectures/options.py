"""Options of the architectures, as a bundle's config stores them and `spanmarker train --option` sets them.

Each field is defined by one of the functions below, which give its valid values; constraints between fields are
checked in `__post_init__`. Nothing here imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from spanmarker_core.errors import UnusableError

#: Name of None in formats that have no null, such as TOML.
NONE = "none"


def one_of(default: str | None, *choices: str | None) -> Any:
    """Return a field with a fixed set of valid names.

    Args:
        default: value if the option is left out.
        choices: the valid values.
    """
    expected = "one of " + ", ".join(NONE if choice is None else choice for choice in choices)
    return _field(default, lambda value: value in choices, expected)


def whole(default: int | None, low: int, high: int) -> Any:
    """Return a field that holds an integer.

    Args:
        default: value if the option is left out. If it is None, None is valid.
        low: smallest valid value.
        high: largest valid value, inclusive.
    """

    def fits(value: object) -> bool:
        return (value is None and default is None) or (type(value) is int and low <= value <= high)

    return _field(default, fits, f"an integer from {low} to {high}" + (f", or {NONE}" if default is None else ""))


def share(default: float) -> Any:
    """Return a field that holds a number from 0 (inclusive) to 1 (exclusive).

    Args:
        default: value if the option is left out.
    """
    return _field(default, lambda value: type(value) in (int, float) and 0 <= value < 1, "a number from 0 to below 1")


def flag(default: bool) -> Any:
    """Return a field that holds true or false.

    Args:
        default: value if the option is left out.
    """
    return _field(default, lambda value: type(value) is bool, "true or false")


def _field(default: Any, fits: Callable[[Any], bool], expected: str) -> Any:
    return field(default=default, metadata={"fits": fits, "expected": expected})


@dataclass(frozen=True)
class Options:
    """Options common to all architectures.

    Attributes:
        spans: whether the model scores spans; a model with tags only does not.
        markers: whether the encoder gets embeddings for `<start>` and `<end>`.
        tags: kind of the sequence head (BIO tags) that is bundled with the spans, if any (BL-NER, section 3.1.4).
        output: whether entities are decoded from "spans" or from "tags".
    """

    spans: ClassVar[bool] = True
    markers: ClassVar[bool] = False

    @property
    def gate_problem(self) -> str | None:
        """The reason why a gate can't choose the spans to score, or None if it can."""
        if not self.spans or self.output == "tags":
            return "entities come from tags, so it has no spans to select from"
        return "spans see each other, so removing some changes the scores of the others" if self.joint else None

    @property
    def joint(self) -> bool:
        """Whether spans attend to each other, so that their scores depend on the other spans."""
        return False

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Return the reason why these options exclude `pair_layers`, or None if they don't.

        Args:
            pair_layers: top layers in which the two markers of a span attend to each other.
        """
        return None if self.markers else "the architecture has no markers"

    def encoder_problem(self, n_layers: int) -> str | None:
        """Return the reason why these options don't fit an encoder, or None if they do.

        Args:
            n_layers: layers of the encoder.
        """
        return None

    tags: str | None = one_of(None, None, "softmax", "crf")
    output: str = one_of("spans", "spans", "tags")

    def __post_init__(self) -> None:
        idle = self.idle()
        if unread := {name: value for name, value in self.non_defaults().items() if name in idle}:
            problems = [f"option {name} is {value}, but {idle[name]}: remove it" for name, value in unread.items()]
            raise UnusableError("; ".join(problems))
        if self.output == "tags" and self.tags is None:
            raise UnusableError("output is tags, but the model has no tagging head: set tags to softmax or crf")

    def idle(self) -> dict[str, str]:
        """Return the options that have no effect given the values of the others, each with the reason."""
        return {}

    def non_defaults(self) -> dict[str, Any]:
        """Return the options that differ from the architecture's defaults; a bundle stores only these.

        >>> SpanMarkerOptions(width_size=128, positions="words").non_defaults()
        {'width_size': 128}
        """
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}


#: Attention masks between markers and text: the thesis's (2.2.5) and the variants of its Figure 3.1, a to e.
ATTENTIONS = ("paired", "text_to_markers", "no_diagonal", "no_self", "no_partner", "all_markers")
#: Masks under which the states of a span depend on the other spans of its sample.
_JOINT = ("text_to_markers", "all_markers")


@dataclass(frozen=True)
class MarkerOptions(Options):
    """Options of architectures with levitated markers.

    Attributes:
        marker_init: initial embeddings of `<start>` and `<end>` in a new model: the mean of all embeddings for both
            ("mean"), or those of the mask token and of the word "entity", as in PL-Marker (thesis 3.5, 4b).
    """

    markers: ClassVar[bool] = True
    marker_init: str = one_of("mean", "mean", "mask_and_entity")


@dataclass(frozen=True)
class SpanMarkerOptions(MarkerOptions):
    """Options of `span_marker.v1`: the thesis's ablations and experiments (3.5), all off by default.

    Attributes:
        attention: the attention mask. By default ("paired") the text attends to the text, and a marker to the text,
            itself and its partner. `text_to_markers`: the text also attends to the markers (2a); `no_diagonal`:
            markers attend to the text only (2b); `no_self`: markers don't attend to themselves (2c); `no_partner`:
            nor to their partner (2d); `all_markers`: markers attend to all markers of their sample (2e).
        group: marker pairs per sample, which share a copy of the text, under attention 2a and 2e, where this makes a
            difference; a sample takes the next `group` spans of its window. None means 128, as in PL-Marker.
        positions: position ids of markers: those of the span's first and last `words`, or `random` ones of the
            window, which are always the same for the same span in the same window (1).
        width_size: size of a learned embedding of the span's length in words, appended to its features; 0 for none.
            The thesis's experiment 3 uses 128.
        text_features: append the states of the span's first and last token to its features (4a).
    """

    attention: str = one_of("paired", *ATTENTIONS)
    group: int | None = whole(None, 1, 4096)
    positions: str = one_of("words", "words", "random")
    width_size: int = whole(0, 0, 4096)
    text_features: bool = flag(False)

    @property
    def joint(self) -> bool:
        """Whether spans attend to each other: those of one sample do with attention 2a and 2e."""
        return self.attention in _JOINT

    def idle(self) -> dict[str, str]:
        """Return `group` unless spans attend to each other: only then does it matter which ones share a sample."""
        if self.joint:
            return {}
        return {"group": f"spans see each other only with attention {' or '.join(_JOINT)}"}

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Return a reason for every attention mask except the thesis's.

        With `pair_layers`, a marker depends only on its own word below the layers in which it attends to its partner,
        so that one marker serves many spans. With 2a and 2e it depends on its sample in every layer, with 2b and 2d it
        does not attend to its partner, and 2c would differ from the thesis's ablation.

        Args:
            pair_layers: top layers in which the two markers of a span attend to each other.
        """
        if self.attention == "paired":
            return None
        return f"it applies to attention paired only, but attention is {self.attention}"


@dataclass(frozen=True)
class PLMarkerOptions(MarkerOptions):
    """Options of `pl_marker.v1`; the other options of `span_marker.v1` are fixed.

    Attributes:
        attention: fixed, "paired".
        positions: fixed, "words".
        width_size: fixed, 0.
        text_features: fixed, True.
        group: marker pairs per sample, which share a copy of the text.
        marker_init: initial embeddings of `<start>` and `<end>`; see `MarkerOptions`.
    """

    attention: ClassVar[str] = "paired"
    positions: ClassVar[str] = "words"
    width_size: ClassVar[int] = 0
    text_features: ClassVar[bool] = True
    group: int = whole(128, 1, 4096)
    marker_init: str = one_of("mask_and_entity", "mean", "mask_and_entity")

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Return a reason in any case: `pair_layers` saves work by sharing it between spans, which PL-Marker does not.

        Args:
            pair_layers: top layers in which the two markers of a span attend to each other.
        """
        return "pl_marker always pairs markers in all layers: use span_marker for speed"


@dataclass(frozen=True)
class SpanNerOptions(Options):
    """Options of `span_ner.v1`; the defaults give the SpanNER of Fu et al. (2021) that SmartSpanner builds on.

    Attributes:
        representation: parts of a span's representation, besides the embedding of its length: the words at its edges
            ("boundary"), the maximum over its words and the window's first token ("pooling"), or all ("hybrid").
        word: states of the words at a span's edges: the maximum over each word's tokens ("max"), or the first token
            of the first word and the last token of the last word ("edges").
        width_size: size of the embedding of a span's length.
        mlp_layers: linear layers from representation to classes; GELU between them if there are two.
        mlp_size: size of the hidden layer between two layers; None for that of the representation.
    """

    representation: str = one_of("boundary", "boundary", "pooling", "hybrid")
    word: str = one_of("edges", "max", "edges")
    width_size: int = whole(50, 1, 4096)
    mlp_layers: int = whole(2, 1, 2)
    mlp_size: int | None = whole(None, 1, 16384)

    def idle(self) -> dict[str, str]:
        """Return `word` if the representation has no edges, and `mlp_size` if there is only one layer."""
        of = {
            "word": (self.representation != "pooling", "representation pooling uses no word edges"),
            "mlp_size": (self.mlp_layers > 1, "mlp_layers 1 has no hidden layer"),
        }
        return {name: reason for name, (there, reason) in of.items() if not there}


@dataclass(frozen=True)
class BlNerOptions(SpanNerOptions):
    """Options of `bl_ner.v1`: those of `span_ner.v1` with the defaults of Ji et al. (2022); tags are mandatory."""

    tags: str | None = one_of("softmax", "softmax", "crf")
    representation: str = one_of("hybrid", "boundary", "pooling", "hybrid")
    word: str = one_of("max", "max", "edges")
    mlp_layers: int = whole(1, 1, 2)


@dataclass(frozen=True)
class SeqNerOptions(Options):
    """Options of `seq_ner.v1`, which has tags only."""

    spans: ClassVar[bool] = False
    tags: str | None = one_of("softmax", "softmax", "crf")
    output: str = one_of("tags", "tags")


@dataclass(frozen=True)
class DSpERTOptions(Options):
    """Options of `dspert.v1`, with the paper's values (Zhu et al. 2023, section 4.3 and appendices A, C and F).

    Attributes:
        span_layers: layers of the span Transformer, which are the encoder's top ones; None for all of them. The
            initial aggregation uses the states below them; with 0, the top states (the paper's shallow baseline).
        aggregation: the initial aggregation: the maximum or mean of a span's token states, or attention over them.
        share_weights: whether the span Transformer uses the encoder's own layers instead of separately trained copies.
        lstm: units of a BiLSTM after the span Transformer, both directions together; 0 for none. It runs over all spans
            of the same length in a sentence, so it needs all of them; in a shallow model, over the sentence's tokens.
        ffn: units of the layer before the classifier, the size of the pre-logit representation; 0 for no such layer.
        width_size: size of the embedding of a span's length in words; 0 for none.
        lstm_dropout: dropout rate for the inputs of the LSTM.
        ffn_dropout: dropout rate for the inputs of the FFN.

    Raises:
        UnusableError: the options contradict each other.
    """

    span_layers: int | None = whole(None, 0, 1024)
    aggregation: str = one_of("max", "max", "mean", "multiplicative", "additive")
    share_weights: bool = flag(False)
    lstm: int = whole(400, 0, 4096)
    ffn: int = whole(300, 0, 4096)
    width_size: int = whole(25, 0, 4096)
    lstm_dropout: float = share(0.5)
    ffn_dropout: float = share(0.4)

    @property
    def joint(self) -> bool:
        """Whether spans affect each other: they do with an LSTM over spans, which a shallow model does not have."""
        return self.lstm > 0 and self.span_layers != 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lstm % 2:
            raise UnusableError(
                f"option lstm is {self.lstm}, but its units are split evenly between two directions: use an even number"
            )

    def idle(self) -> dict[str, str]:
        """Return dropout rates of layers that don't exist, and `share_weights` if there are no span layers."""
        of = {
            "lstm_dropout": (self.lstm, "lstm is 0"),
            "ffn_dropout": (self.ffn, "ffn is 0"),
            "share_weights": (self.span_layers != 0, "span_layers is 0"),
        }
        return {name: reason for name, (there, reason) in of.items() if not there}

    def encoder_problem(self, n_layers: int) -> str | None:
        """Return a reason if there are more span layers than encoder layers.

        Args:
            n_layers: layers of the encoder.
        """
        if self.span_layers is None or self.span_layers <= n_layers:
            return None
        return f"option span_layers is {self.span_layers}, but the encoder has {n_layers} layers"


def read_options(kind: type[Options], values: object) -> Options:
    """Return an architecture's options, with defaults for those left out.

    >>> read_options(SpanMarkerOptions, {"width_size": 128}).width_size
    128

    Args:
        kind: the architecture's class of options.
        values: a mapping from option to value.

    Raises:
        UnusableError: an option is unknown or its value is invalid; names the option, its value and the valid values.
    """
    if not isinstance(values, Mapping):
        raise UnusableError(f"options is {values!r}, not an object")
    known = {each.name: each.metadata for each in fields(kind)}
    problems = []
    if unknown := sorted(set(values) - set(known)):
        problems.append(f"{', '.join(unknown)} is not an option of this architecture, which has {', '.join(known)}")
    read: dict[str, Any] = {}
    for name in known.keys() & values.keys():
        value = values[name]
        # Some formats have no null.
        read[name] = None if value == NONE and known[name]["fits"](None) else value
        if not known[name]["fits"](read[name]):
            problems.append(f"option {name} is {value!r}, not {known[name]['expected']}")
    if problems:
        raise UnusableError("; ".join(sorted(problems)))
    return kind(**read)
