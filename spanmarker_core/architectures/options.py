"""What each architecture can be told, as a bundle's config and `spanmarker train --option` hold it. Needs no torch.

A field is made by one of the functions below, which say what fits it; what must hold between fields stands in an
architecture's `__post_init__`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from spanmarker_core.errors import UnusableError

#: What None is called where there is no word for it, as in TOML.
NONE = "none"


def one_of(default: str | None, *choices: str | None) -> Any:
    """Return a field that holds one of some names."""
    said = "one of " + ", ".join(NONE if choice is None else choice for choice in choices)
    return _field(default, lambda value: value in choices, said)


def whole(default: int | None, low: int, high: int) -> Any:
    """Return a field that holds a whole number from `low` to `high`, or None where that is its default."""

    def fits(value: object) -> bool:
        return (value is None and default is None) or (type(value) is int and low <= value <= high)

    return _field(default, fits, f"a whole number from {low} to {high}" + (f", or {NONE}" if default is None else ""))


def share(default: float) -> Any:
    """Return a field that holds a number from 0 up to 1, exclusive."""
    return _field(default, lambda value: type(value) in (int, float) and 0 <= value < 1, "a number from 0 up to 1")


def flag(default: bool) -> Any:
    """Return a field that holds true or false."""
    return _field(default, lambda value: type(value) is bool, "true or false")


def _field(default: Any, fits: Callable[[Any], bool], said: str) -> Any:
    return field(default=default, metadata={"fits": fits, "said": said})


@dataclass(frozen=True)
class Options:
    """Options of any architecture.

    Attributes:
        spans: whether spans are scored; what has tags alone scores none.
        markers: whether the encoder gets embeddings for `<start>` and `<end>`.
        tags: the head of BIO tags that is bundled with the spans, if any (BL-NER, section 3.1.4).
        output: which of the two gives the entities.
    """

    spans: ClassVar[bool] = True
    markers: ClassVar[bool] = False

    @property
    def gate_problem(self) -> str | None:
        """What keeps a gate from choosing the spans to score, or None if nothing does."""
        if not self.spans or self.output == "tags":
            return "entities come from tags, and no spans are scored that it could choose from"
        return "spans see each other, so those that it leaves would score otherwise" if self.joint else None

    @property
    def joint(self) -> bool:
        """Whether spans see each other, so that their scores depend on which spans there are."""
        return False

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Say what keeps these options from going with a model's `pair_layers`, or None if nothing does."""
        return None if self.markers else "there are no markers to pair"

    def encoder_problem(self, n_layers: int) -> str | None:
        """Say what keeps these options from an encoder of so many layers, or None if nothing does."""
        return None

    tags: str | None = one_of(None, None, "softmax", "crf")
    output: str = one_of("spans", "spans", "tags")

    def __post_init__(self) -> None:
        idle = self.idle()
        if unread := {name: value for name, value in self.told().items() if name in idle}:
            problems = [f"option {name} is {value}, and {idle[name]}: leave it out" for name, value in unread.items()]
            raise UnusableError("; ".join(problems))
        if self.output == "tags" and self.tags is None:
            raise UnusableError("output is tags, and there is no head of tags: set tags to softmax or crf")

    def idle(self) -> dict[str, str]:
        """Return the options that nothing reads, as the others are, each with the reason."""
        return {}

    def told(self) -> dict[str, Any]:
        """Return the options that differ from the architecture's defaults, which is what a bundle holds of them.

        >>> SpanMarkerOptions(width_size=128, positions="words").told()
        {'width_size': 128}
        """
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}


#: What markers see beside the text, themselves and their partner, and what the text sees: the thesis's mask (2.2.5) and
#: the variants of its Figure 3.1, a to e.
ATTENTIONS = ("paired", "text_to_markers", "no_diagonal", "no_self", "no_partner", "all_markers")
#: Those in which what a span sees depends on the other spans of its sample.
_JOINT = ("text_to_markers", "all_markers")


@dataclass(frozen=True)
class MarkerOptions(Options):
    """Options of architectures with levitated markers.

    Attributes:
        marker_init: where the embeddings of `<start>` and `<end>` begin in a new model: both at the mean of all, or at
            that of the mask token and that of the word "entity", as in PL-Marker (thesis 3.5, 4b).
    """

    markers: ClassVar[bool] = True
    marker_init: str = one_of("mean", "mean", "mask_and_entity")


@dataclass(frozen=True)
class SpanMarkerOptions(MarkerOptions):
    """Options of `span_marker.v1`: those of the thesis's ablations and experiments (3.5), all off.

    Attributes:
        attention: who sees whom. `text_to_markers`: the text sees the markers too (2a); `no_diagonal`: markers see the
            text alone (2b); `no_self`: not themselves (2c); `no_partner`: not their partner (2d); `all_markers`: all
            markers of their sample (2e).
        group: marker pairs that share a sample with a copy of the text, under attention 2a and 2e, where that makes a
            difference: a window's spans in order, so many a sample. None is 128, as in PL-Marker.
        positions: position ids of markers: those of the span's first and last `words`, or `random` ones of the
            window's, which are the same whenever the same span is seen in the same window (1).
        width_size: numbers that stand for the length of a span in words, learned and appended to its features; 0 is
            none. The thesis's experiment 3 has 128.
        text_features: append the states of the span's first and last token to its features (4a).
    """

    attention: str = one_of("paired", *ATTENTIONS)
    group: int | None = whole(None, 1, 4096)
    positions: str = one_of("words", "words", "random")
    width_size: int = whole(0, 0, 4096)
    text_features: bool = flag(False)

    @property
    def joint(self) -> bool:
        """Whether spans see each other: with attention 2a and 2e those of one sample do."""
        return self.attention in _JOINT

    def idle(self) -> dict[str, str]:
        """A sample is a group of spans where these see each other."""
        if self.joint:
            return {}
        return {"group": f"no span sees another but with attention {' or '.join(_JOINT)}"}

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Refuse `pair_layers` but with the thesis's attention.

        With them, a marker depends on its own word alone below the layers in which it sees its partner, so that one
        stands for many spans. With 2a and 2e it depends on its sample in every layer, with 2b and 2d there is no
        partner to see, and 2c would be another ablation than the thesis's.
        """
        if self.attention == "paired":
            return None
        return f"it is about where partners see each other with attention paired, and attention is {self.attention}"


@dataclass(frozen=True)
class PLMarkerOptions(MarkerOptions):
    """Options of `pl_marker.v1`. What it has in common with `span_marker.v1` is settled.

    Attributes:
        group: marker pairs that share a sample with a copy of the text.
    """

    attention: ClassVar[str] = "paired"
    positions: ClassVar[str] = "words"
    width_size: ClassVar[int] = 0
    text_features: ClassVar[bool] = True
    group: int = whole(128, 1, 4096)
    marker_init: str = one_of("mask_and_entity", "mean", "mask_and_entity")

    def pairing_problem(self, pair_layers: int) -> str | None:
        """Refuse `pair_layers`, which save work that PL-Marker does not share between spans."""
        return "pl_marker pairs in all layers: take span_marker to save work"


@dataclass(frozen=True)
class SpanNerOptions(Options):
    """Options of `span_ner.v1`; as they are, the SpanNER of Fu et al. (2021) that SmartSpanner builds on.

    Attributes:
        representation: "boundary", "pooling" or "hybrid", see `span_ner`.
        word: what stands for the words at a span's edges: the maximum of each one's tokens ("max"), or the first
            token of the first word and the last of the last ("edges").
        width_size: numbers of the embedding of a span's length.
        mlp_layers: linear layers from representation to classes, with GELU between two.
        mlp_size: numbers between two layers; None is as many as the representation has.
    """

    representation: str = one_of("boundary", "boundary", "pooling", "hybrid")
    word: str = one_of("edges", "max", "edges")
    width_size: int = whole(50, 1, 4096)
    mlp_layers: int = whole(2, 1, 2)
    mlp_size: int | None = whole(None, 1, 16384)

    def idle(self) -> dict[str, str]:
        """Edges are no part of a pooled representation, and of one layer nothing is between."""
        of = {
            "word": (self.representation != "pooling", "representation pooling has no edges"),
            "mlp_size": (self.mlp_layers > 1, "with mlp_layers 1 there is nothing between"),
        }
        return {name: reason for name, (there, reason) in of.items() if not there}


@dataclass(frozen=True)
class BlNerOptions(SpanNerOptions):
    """Options of `bl_ner.v1`: those of `span_ner.v1` with the defaults of Ji et al. (2022), and always tags."""

    tags: str | None = one_of("softmax", "softmax", "crf")
    representation: str = one_of("hybrid", "boundary", "pooling", "hybrid")
    word: str = one_of("max", "max", "edges")
    mlp_layers: int = whole(1, 1, 2)


@dataclass(frozen=True)
class SeqNerOptions(Options):
    """Options of `seq_ner.v1`, which has tags alone."""

    spans: ClassVar[bool] = False
    tags: str | None = one_of("softmax", "softmax", "crf")
    output: str = one_of("tags", "tags")


@dataclass(frozen=True)
class DSpERTOptions(Options):
    """Options of `dspert.v1`, with the paper's values (Zhu et al. 2023, section 4.3 and appendices A, C and F).

    Attributes:
        span_layers: layers of the span Transformer, the encoder's top ones; None is as many as it has. The initial
            aggregation is of the states below them; with 0 it is of the top states, the paper's shallow baseline.
        aggregation: the initial one: the maximum or mean of a span's token states, or attention over them.
        share_weights: whether the span Transformer is the encoder's own layers, and not a copy that learns apart.
        lstm: units of a BiLSTM after the span Transformer, both directions together; 0 is none. It runs over the spans
            of one length of a sentence, so that all have to be there; in a shallow model over the sentence's tokens.
        ffn: units of the layer before the classifier, numbers of the pre-logit representation; 0 is no such layer.
        width_size: numbers of the embedding of a span's length in words; 0 is none.
        lstm_dropout, ffn_dropout: of what the LSTM and the FFN are given.

    Raises:
        UnusableError: for options that contradict each other.
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
        """Whether spans see each other: an LSTM leads from one to the next, but in a shallow model."""
        return self.lstm > 0 and self.span_layers != 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lstm % 2:
            raise UnusableError(f"option lstm is {self.lstm}, and both directions have as many units: take an even one")

    def idle(self) -> dict[str, str]:
        """What is not there has no dropout, and no weights to share."""
        of = {
            "lstm_dropout": (self.lstm, "with lstm 0 there is no LSTM"),
            "ffn_dropout": (self.ffn, "with ffn 0 there is no FFN"),
            "share_weights": (self.span_layers != 0, "with span_layers 0 there are no layers to share"),
        }
        return {name: reason for name, (there, reason) in of.items() if not there}

    def encoder_problem(self, n_layers: int) -> str | None:
        """Refuse more span layers than the encoder has layers."""
        if self.span_layers is None or self.span_layers <= n_layers:
            return None
        return f"option span_layers is {self.span_layers}, and the encoder has {n_layers} layers"


def read_options(kind: type[Options], values: object) -> Options:
    """Return an architecture's options; those that are left out have their defaults.

    >>> read_options(SpanMarkerOptions, {"width_size": 128}).width_size
    128

    Raises:
        UnusableError: with the option, its value and what fits.
    """
    if not isinstance(values, Mapping):
        raise UnusableError(f"options is {values!r}, not an object")
    known = {each.name: each.metadata for each in fields(kind)}
    problems = []
    if unknown := sorted(set(values) - set(known)):
        problems.append(f"{', '.join(unknown)} is no option of this architecture: it has {', '.join(known)}")
    read: dict[str, Any] = {}
    for name in known.keys() & values.keys():
        value = values[name]
        # A word for what some formats have none for.
        read[name] = None if value == NONE and known[name]["fits"](None) else value
        if not known[name]["fits"](read[name]):
            problems.append(f"option {name} is {value!r}, not {known[name]['said']}")
    if problems:
        raise UnusableError("; ".join(sorted(problems)))
    return kind(**read)
