"""Writes model bundles."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import PretrainedConfig

from spanmarker_core.bundle.config import WEIGHT_DTYPES, ModelConfig
from spanmarker_core.bundle.config_checks import without_code
from spanmarker_core.bundle.pretrained import not_finite
from spanmarker_core.bundle.reader import CARD, CONFIG, DIGESTS, TOKENIZER, WEIGHTS, write_digests
from spanmarker_core.errors import CoreError

TORCH_DTYPES = {name: getattr(torch, name) for name in WEIGHT_DTYPES}


def check_output(path: str | Path) -> None:
    """Refuse what is no local folder, holds something or can't be written, before any work is done for it.

    Leaves nothing behind: folders made to find out are removed again.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`.
    """
    if "://" in str(path) and not str(path).startswith("/"):
        raise CoreError("bundle.output_not_writable", path=path, reason="bundles are written to local folders")
    path = Path(path)
    made: list[Path] = []
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CoreError("bundle.output_exists", path=path)
        made = _missing(path)
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"probe")
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise CoreError("bundle.output_not_writable", path=path, reason=error) from error
    finally:
        for folder in made:
            with suppress(OSError, ValueError):
                folder.rmdir()


def save_bundle(
    path: str | Path,
    config: ModelConfig,
    network: nn.Module,
    tokenizer: Tokenizer,
    card: str,
    dtype: str = "float32",
    files: Mapping[str, str] | None = None,
) -> str:
    """Write a bundle and return the model's digest. What ends it early, an interrupt too, leaves nothing behind.

    Args:
        path: a folder that doesn't exist or is empty.
        config, network, tokenizer: the model.
        card: text of README.md.
        dtype: "float32", or "float16" for half the size (weights are computed with in float32).
        files: texts that stand beside the card, by name, such as its drawings. No part of the model's identity.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`, `bundle.nan_weight`.
    """
    check_output(path)
    path = Path(path)
    texts = {CARD: card, **(files or {})}
    weights = {
        name: weight.detach().cpu().to(TORCH_DTYPES[dtype]).contiguous()
        for name, weight in network.state_dict().items()
    }
    if bad := not_finite(weights):
        raise CoreError("bundle.nan_weight", path=path, name=bad[0], count=bad[1])
    with whole_or_nothing(path, (WEIGHTS, CONFIG, TOKENIZER, DIGESTS, *texts)):
        save_file(weights, str(path / WEIGHTS), metadata={"format": "pt"})
        (path / CONFIG).write_text(config.to_json(), encoding="utf-8")
        tokenizer.save(str(path / TOKENIZER))
        for name, text in texts.items():
            (path / name).write_text(text, encoding="utf-8")
        return write_digests(path)


@contextmanager
def whole_or_nothing(path: Path, names: Iterable[str]) -> Iterator[None]:
    """Make the folder `path`; if its files aren't finished, take away those under `names`, and the folder.

    Raises:
        CoreError: `bundle.output_not_writable`, with what kept them from being.
    """
    made = _missing(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for name in names:
            with suppress(OSError):
                (path / name).unlink()
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, Exception) and not isinstance(error, CoreError):
            # A full disk is an OSError, a SafetensorError or, from tokenizers, a bare one.
            raise CoreError("bundle.output_not_writable", path=path, reason=error) from error
        raise


def _missing(path: Path) -> list[Path]:
    """Return the folders that `path` takes and that are not there, the innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def stored_dtype(path: str | Path) -> str:
    """Return how a bundle's weights are stored, one of `WEIGHT_DTYPES`."""
    kinds = {weight.dtype for weight in load_file(Path(path) / WEIGHTS).values()}
    return "float16" if kinds == {torch.float16} else "float32"


def encoder_facts(config: PretrainedConfig) -> dict[str, Any]:
    """Return what a bundle keeps of an encoder's transformers config: no names, no paths, no labels, no code."""
    names = ("architectures", "id2label", "label2id", "transformers_version")
    return {key: value for key, value in without_code(config.to_dict()).items() if key not in names}
