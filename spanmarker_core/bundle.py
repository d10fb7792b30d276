"""A model bundle: one self-contained folder that loads with the network off.

    config.json         ModelConfig: architecture, labels, limits, splitter, context, decoder, encoder
    model.safetensors   weights (no pickle, ever)
    tokenizer.json      the tokenizer, whole
    digests.json        SHA-256 of the three above; their digest is the model's identity
    README.md           the model card

Reading a bundle's facts (`read_info`) needs no torch, so a scheduler can check one cheaply.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spanmarker_core.decoding import DECODERS, threshold_vector
from spanmarker_core.errors import CoreError
from spanmarker_core.windows import CONTEXT_POLICIES, Context, Packer
from spanmarker_core.words import SPLITTERS

FORMAT_VERSION = 1
#: Names that a config may hold; `models.ARCHITECTURES` has their classes.
ARCHITECTURE_NAMES = ("span_marker.v1",)
CONFIG, WEIGHTS, TOKENIZER, DIGESTS, CARD = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "digests.json",
    "README.md",
)


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
        start_marker_id, end_marker_id: ids of the markers in the encoder's vocabulary.
        splitter: how raw text becomes words, one of `words.SPLITTERS`.
        context: how windows show a sentence's neighbours; tag as trained.
        decoder: one of `decoding.DECODERS`.
        threshold: None, a number, or a number a label; see `decoding`.
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
    start_marker_id: int
    end_marker_id: int
    encoder: dict[str, Any]
    splitter: str = "words.v1"
    context: Context = field(default_factory=Context)
    decoder: str = "flat.v1"
    threshold: float | dict[str, float] | None = None
    outside: str = "O"
    architecture: str = "span_marker.v1"
    facts: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def outside_index(self) -> int:
        """Column of "O" among the labels."""
        return self.labels.index(self.outside)

    def to_json(self) -> str:
        """Return the text of config.json."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, path: str) -> "ModelConfig":
        """Read config.json.

        Raises:
            CoreError: `bundle.bad_config` or `bundle.format_too_new`.
        """

        def refuse(problem: str) -> CoreError:
            return CoreError("bundle.bad_config", path=path, problem=problem)

        try:
            values = json.loads(text)
        except ValueError as error:
            raise refuse(f"it is not JSON ({error})") from error
        if not isinstance(values, dict):
            raise refuse("it is not a JSON object")
        version = values.get("format_version")
        if not isinstance(version, int):
            raise refuse("it has no format_version, so it is not a bundle's config")
        if version > FORMAT_VERSION:
            raise CoreError("bundle.format_too_new", path=path, found=version, limit=FORMAT_VERSION)
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise refuse(f"unknown keys {', '.join(unknown)}")
        try:
            context = Context(**values.pop("context", {}))
            config = cls(context=context, **values)
        except TypeError as error:
            raise refuse(str(error)) from error
        for name in (
            "entity_max_length",
            "max_tokens",
            "position_offset",
            "start_marker_id",
            "end_marker_id",
        ):
            value = getattr(config, name)
            if type(value) is not int or value < (name in ("entity_max_length", "max_tokens")):
                raise refuse(f"{name} {value!r} is not a whole number it can use")
        for what, value, choices in (
            ("architecture", config.architecture, ARCHITECTURE_NAMES),
            ("splitter", config.splitter, SPLITTERS),
            ("context policy", context.policy, CONTEXT_POLICIES),
            ("decoder", config.decoder, tuple(DECODERS)),
        ):
            if value not in choices:
                raise refuse(f"{what} {value!r} is not one of {', '.join(choices)}")
        if config.outside not in config.labels:
            raise CoreError("checkpoint.no_outside_label", labels=", ".join(config.labels))
        threshold_vector(config.threshold, config.labels)
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
            `bundle.bad_config`, `bundle.format_too_new`.
    """
    path = Path(path)
    if not (path / DIGESTS).is_file():
        raise CoreError("bundle.not_found", path=path, file=DIGESTS)
    try:
        digests = json.loads((path / DIGESTS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CoreError("bundle.bad_config", path=path, problem=f"{DIGESTS} is not JSON ({error})") from error
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (path / name).is_file():
            raise CoreError("bundle.missing_file", path=path, file=name)
        found, expected = _sha256(path / name), digests.get(name)
        if found != expected:
            raise CoreError("bundle.digest_mismatch", path=path, file=name, found=found, expected=expected)
    config = ModelConfig.from_json((path / CONFIG).read_text(encoding="utf-8"), str(path))
    return BundleInfo(path, _model_digest(digests), config)


def read_packer(path: str | Path, config: ModelConfig) -> Packer:
    """Return the packer of the bundle in `path`."""
    return packer_of(config, Tokenizer.from_file(str(Path(path) / TOKENIZER)))


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


def _model_digest(digests: dict[str, str]) -> str:
    parts = [f"{name}={digests[name]}" for name in (CONFIG, WEIGHTS, TOKENIZER)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
