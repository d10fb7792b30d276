"""A model bundle: one self-contained folder that loads with the network off.

    config.json         ModelConfig: architecture, labels, limits, splitter, context, decoder, encoder
    model.safetensors   weights (no pickle, ever)
    tokenizer.json      the tokenizer, whole
    digests.json        SHA-256 of the three above; their digest is the model's identity
    README.md           the model card
    card.json           what the card tells beside the config's facts, such as time and hardware of the training
    gate.svg            the gate's curve, where there is a gate

Reading a bundle's facts (`read_info`) needs no torch, so a scheduler can check one cheaply.
"""

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spanmarker_core.config_checks import check_config, check_vocabulary, read_context
from spanmarker_core.decoding import check_decoder
from spanmarker_core.errors import CoreError, UnusableError, refusing, unusable
from spanmarker_core.models import options_of
from spanmarker_core.windows import Context, Packer

FORMAT_VERSION = 3
#: Format in which a key came.
_SINCE = {"pair_layers": 2, "gate": 2, "options": 3}
CONFIG, WEIGHTS, TOKENIZER, DIGESTS, CARD, CARD_FACTS, GATE_CURVE = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "digests.json",
    "README.md",
    "card.json",
    "gate.svg",
)

#: Numbers that a loaded network computes with.
DTYPES = ("float32", "bfloat16", "int8")

#: Use the gate as the model was trained; use it; don't.
GATE_CHOICES = ("auto", "on", "off")


@dataclass(frozen=True)
class ModelConfig:
    """What a model is, apart from its weights.

    Attributes:
        labels: class names in the order of the classifier's outputs, `outside` among them.
        entity_max_length: words of the longest candidate span.
        max_tokens: tokens of a window, special tokens included.
        position_offset: position id of a window's first token.
        prefix, suffix: ids of the special tokens around a window's text.
        unknown_id: id shown for a word too long for a window.
        start_marker_id, end_marker_id: ids of the markers in the encoder's vocabulary; None where there are none.
        splitter: how raw text becomes words, one of `words.SPLITTERS`.
        context: how windows show a sentence's neighbours; tag as trained.
        decoder: one of `decoding.DECODERS`.
        threshold: None, a number, or a number a label; see `decoding`.
        architecture: one of `models.ARCHITECTURES`.
        options: what the architecture is told, see `models.options`; those left out have their defaults.
        pair_layers: top layers in which the two markers of a span attend to each other; None is all.
        gate: None, or how the gate was `trained` ("joint" with the model, or "fitted" to it later), the `width` of
            its hidden layer, its `threshold`, the `curve` that the threshold was chosen on, and whether it looks at the
            `ends` of spans too, which is so where that is left out.
        encoder: the encoder's own transformers config.
        facts: what the card tells about training; changes nothing.
    """

    labels: list[str]
    entity_max_length: int
    max_tokens: int
    position_offset: int
    prefix: list[int]
    suffix: list[int]
    unknown_id: int
    start_marker_id: int | None
    end_marker_id: int | None
    encoder: dict[str, Any]
    splitter: str = "words.v1"
    context: Context = field(default_factory=Context)
    decoder: str = "flat.v1"
    threshold: float | dict[str, float] | None = None
    outside: str = "O"
    architecture: str = "span_marker.v1"
    options: dict[str, Any] = field(default_factory=dict)
    pair_layers: int | None = None
    gate: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def outside_index(self) -> int:
        """Column of "O" among the labels."""
        return self.labels.index(self.outside)

    @property
    def gives_tags(self) -> bool:
        """Whether entities are put together from tags, so that there are no other spans than these."""
        return options_of(self.architecture, self.options).output == "tags"

    @property
    def gated(self) -> bool:
        """Whether the gate is part of the model as it was trained, not an addition that changes its output."""
        return self.gate is not None and self.gate["trained"] == "joint"

    def to_json(self) -> str:
        """Return the text of config.json."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, path: str) -> "ModelConfig":
        """Read config.json.

        Raises:
            CoreError: `bundle.bad_config`, `bundle.format_too_new`, `checkpoint.no_outside_label`,
                `encoder.entity_too_long`.
        """
        with refusing("bundle.bad_config", path=path):
            values = _json_object(text)
            version = values.get("format_version")
            if type(version) is not int or version < 1:
                raise UnusableError(f"format_version is {version!r}, so it is not a bundle's config")
            if version > FORMAT_VERSION:
                raise CoreError("bundle.format_too_new", path=path, found=version, limit=FORMAT_VERSION)
            if unknown := sorted(set(values) - {f.name for f in fields(cls)}):
                raise UnusableError(f"unknown keys {', '.join(unknown)}")
            required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
            if missing := sorted(required - set(values)):
                raise UnusableError(f"it lacks {', '.join(missing)}")
            if newer := sorted(name for name in values if _SINCE.get(name, 1) > version):
                raise UnusableError(f"format_version is {version}, and it holds {', '.join(newer)} of a later one")
            context = read_context(values.pop("context", {}))
            config = cls(context=context, **{**values, "format_version": FORMAT_VERSION})
            check_config(config)
        return config


@dataclass(frozen=True)
class BundleInfo:
    """A bundle that was found whole: where it is, its identity, its config."""

    path: Path
    digest: str
    config: ModelConfig


def read_info(path: str | Path) -> BundleInfo:
    """Check a bundle's files against their digests and read its config. Needs no torch.

    Raises:
        CoreError: `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`,
            `bundle.bad_file`, and those of `ModelConfig.from_json`.
    """
    path = Path(path)
    if not (path / DIGESTS).is_file():
        raise CoreError("bundle.not_found", path=path, file=DIGESTS)
    with refusing("bundle.bad_file", path=path, file=DIGESTS):
        digests = _json_object(_text(path / DIGESTS))
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (path / name).is_file():
            raise CoreError("bundle.missing_file", path=path, file=name)
        found, expected = _sha256(path / name), digests.get(name)
        if found != expected:
            raise CoreError("bundle.digest_mismatch", path=path, file=name, found=found, expected=expected)
    with refusing("bundle.bad_file", path=path, file=CONFIG):
        text = _text(path / CONFIG)
    config = ModelConfig.from_json(text, str(path))
    return BundleInfo(path, _model_digest(digests), config)


def gate_threshold(config: ModelConfig, gate: str, path: str | Path) -> float | None:
    """Return the threshold that a choice of `GATE_CHOICES` comes to for a model; None is no gate.

    Raises:
        CoreError: `call.no_gate`.
    """
    if gate == "on" and config.gate is None:
        raise CoreError("call.no_gate", path=path)
    use = gate == "on" or (gate == "auto" and config.gated)
    return config.gate["threshold"] if use and config.gate is not None else None


def decoder_of(config: ModelConfig, decoder: str | None) -> str:
    """Return the decoder that a choice of `decoding.DECODERS`, or None for the bundle's own, comes to for a model.

    Raises:
        CoreError: `call.unknown_option`, `call.flat_tags`.
    """
    chosen = check_decoder(decoder or config.decoder)
    if chosen != config.decoder and config.gives_tags:
        raise CoreError("call.flat_tags", decoder=chosen)
    return chosen


def gate_words(threshold: float | None) -> str:
    """Return what a gate's threshold is called in an identity and in reports.

    >>> gate_words(None), gate_words(0.25)
    ('off', 'on from 0.25')
    """
    return "off" if threshold is None else f"on from {threshold}"


def read_packer(path: str | Path, config: ModelConfig) -> Packer:
    """Return the packer of the bundle in `path`.

    Raises:
        CoreError: `bundle.bad_file`.
    """
    with refusing("bundle.bad_file", path=path, file=TOKENIZER):
        with unusable("it is not a tokenizer"):
            tokenizer = Tokenizer.from_file(str(Path(path) / TOKENIZER))
        check_vocabulary(tokenizer, config.encoder["vocab_size"])
    return packer_of(config, tokenizer)


def packer_of(config: ModelConfig, tokenizer: Tokenizer) -> Packer:
    """Return the packer that a config describes: tokenizer, splitter, window limits."""
    return Packer(
        tokenizer,
        prefix=config.prefix,
        suffix=config.suffix,
        unknown_id=config.unknown_id,
        max_tokens=config.max_tokens,
        entity_max_length=config.entity_max_length,
        splitter=config.splitter,
    )


def seal(path: str | Path) -> str:
    """Write digests.json over a folder that holds the other files; return the model's digest."""
    path = Path(path)
    digests = {name: _sha256(path / name) for name in (CONFIG, WEIGHTS, TOKENIZER)}
    (path / DIGESTS).write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return _model_digest(digests)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise UnusableError(f"it is not UTF-8 ({error})") from error


def _json_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"it is not JSON ({error})") from error
    if not isinstance(values, dict):
        raise UnusableError("it is not a JSON object")
    return values


def _model_digest(digests: dict[str, str]) -> str:
    parts = [f"{name}={digests[name]}" for name in (CONFIG, WEIGHTS, TOKENIZER)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
