"""Reading of a model bundle: a self-contained folder that loads without network access.

    config.json         ModelConfig: architecture, labels, limits, splitter, context, decoder, encoder
    model.safetensors   weights (no pickle, ever)
    tokenizer.json      the complete tokenizer
    digests.json        SHA-256 of the three files above; the digest of the digests is the model's identity
    README.md           the model card
    card.json           metadata for the card that is not in the config, such as training time and hardware
    gate.svg            the gate's curve, if there is a gate

`read_info` does not import torch, so a scheduler can check a bundle cheaply.
"""

import hashlib
import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spanmarker_core.bundle.config import FORMAT_VERSION, ModelConfig, packer_of
from spanmarker_core.bundle.config_checks import check_config, check_vocabulary, read_context
from spanmarker_core.bundle.files import POINTER_PROBLEM, is_pointer
from spanmarker_core.errors import CoreError, UnusableError, as_core_error, wrap_errors
from spanmarker_core.windows.packer import Packer

#: Format version that introduced a key.
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


def read_config(text: str, path: str) -> ModelConfig:
    """Parse and check the content of a config.json.

    Args:
        text: the content.
        path: the bundle's folder, for errors.

    Raises:
        CoreError: `bundle.bad_config`, `bundle.format_too_new`, `checkpoint.no_outside_label`,
            `encoder.entity_too_long`.
    """
    with as_core_error("bundle.bad_config", path=path):
        values = _json_object(text)
        version = values.get("format_version")
        if type(version) is not int or version < 1:
            raise UnusableError(f"format_version is {version!r}, which is not the config of a bundle")
        if version > FORMAT_VERSION:
            raise CoreError("bundle.format_too_new", path=path, found=version, limit=FORMAT_VERSION)
        if unknown := sorted(set(values) - {f.name for f in fields(ModelConfig)}):
            raise UnusableError(f"it has unknown keys: {', '.join(unknown)}")
        required = {f.name for f in fields(ModelConfig) if f.default is MISSING and f.default_factory is MISSING}
        if missing := sorted(required - set(values)):
            raise UnusableError(f"it lacks {', '.join(missing)}")
        if newer := sorted(name for name in values if _SINCE.get(name, 1) > version):
            raise UnusableError(f"format_version is {version}, but {', '.join(newer)} belongs to a later version")
        context = read_context(values.pop("context", {}))
        config = ModelConfig(context=context, **{**values, "format_version": FORMAT_VERSION})
        check_config(config)
    return config


@dataclass(frozen=True)
class BundleInfo:
    """A bundle that passed the check of its files.

    Attributes:
        path: the bundle's folder.
        digest: SHA-256 in hexadecimal, the model's identity.
        config: the model's config.
    """

    path: Path
    digest: str
    config: ModelConfig


def read_info(path: str | Path) -> BundleInfo:
    """Check a bundle's files against their digests and read its config, without importing torch.

    Args:
        path: the bundle's folder.

    Raises:
        CoreError: `bundle.not_found`, `bundle.missing_file`, `bundle.digest_mismatch`,
            `bundle.bad_file`, and those of `read_config`; `bundle.is_encoder`, `bundle.is_checkpoint`.
    """
    path = Path(path)
    if not (path / DIGESTS).is_file():
        raise CoreError(_code_of_other(path), path=path, file=DIGESTS)
    with as_core_error("bundle.bad_file", path=path, file=DIGESTS):
        digests = _json_object(_text(path / DIGESTS))
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        if not (path / name).is_file():
            raise CoreError("bundle.missing_file", path=path, file=name)
        found, expected = _sha256(path / name), digests.get(name)
        if found != expected and is_pointer(path / name):
            raise CoreError("bundle.bad_file", path=path, file=name, problem=POINTER_PROBLEM)
        if found != expected:
            raise CoreError("bundle.digest_mismatch", path=path, file=name, found=found, expected=expected)
    with as_core_error("bundle.bad_file", path=path, file=CONFIG):
        text = _text(path / CONFIG)
    config = read_config(text, str(path))
    return BundleInfo(path, _model_digest(digests), config)


def _code_of_other(path: Path) -> str:
    """Return the error code for a path without a bundle, by what it holds instead."""
    try:
        config = _json_object(_text(path / CONFIG))
    except (OSError, UnusableError):
        return "bundle.not_found"
    if "span_marker" in str(config.get("model_type", "")).replace("-", "_") or "span_marker_version" in config:
        return "bundle.is_checkpoint"
    return "bundle.is_encoder" if "model_type" in config else "bundle.not_found"


def read_packer(path: str | Path, config: ModelConfig) -> Packer:
    """Return the packer of a bundle.

    Args:
        path: the bundle's folder.
        config: its config.

    Raises:
        CoreError: `bundle.bad_file`.
    """
    with as_core_error("bundle.bad_file", path=path, file=TOKENIZER):
        with wrap_errors("it is not a tokenizer"):
            tokenizer = Tokenizer.from_file(str(Path(path) / TOKENIZER))
        check_vocabulary(tokenizer, config.encoder["vocab_size"])
    return packer_of(config, tokenizer)


def write_digests(path: str | Path) -> str:
    """Write the digests.json of a bundle and return the model's digest.

    Args:
        path: a folder that holds the other files.
    """
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
