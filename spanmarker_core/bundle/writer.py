"""Writing of model bundles."""

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
    """Check before any work that a path is a local folder that is empty or can be created, and is writable.

    Leaves nothing behind: folders created for the check are removed.

    Args:
        path: the folder to write to.

    Raises:
        CoreError: `bundle.output_exists`, `bundle.output_not_writable`.
    """
    if "://" in str(path) and not str(path).startswith("/"):
        raise CoreError("bundle.output_not_writable", path=path, reason="bundles are written to local folders only")
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
    """Write a bundle and return the model's digest. On failure or interrupt, nothing is left behind.

    Args:
        path: a folder that doesn't exist or is empty.
        config: the model's config.
        network: the model's network.
        tokenizer: the model's tokenizer.
        card: text of README.md.
        dtype: number type of the stored weights: "float32", or "float16" for half the size (computations remain in
            float32).
        files: other texts by file name, such as the card's drawings; not part of the model's identity.

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
    """Create a folder; if the block fails, remove its files and the folders that were created.

    Args:
        path: the folder.
        names: names of the files that the block writes.

    Raises:
        CoreError: `bundle.output_not_writable` with the reason, in place of any other error of the block.
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
            # A full disk raises OSError, SafetensorError or, in tokenizers, a plain Exception.
            raise CoreError("bundle.output_not_writable", path=path, reason=error) from error
        raise


def _missing(path: Path) -> list[Path]:
    """Return the missing folders of `path`, innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def stored_dtype(path: str | Path) -> str:
    """Return the number type of a bundle's stored weights, "float32" or "float16".

    Args:
        path: the bundle's folder.
    """
    kinds = {weight.dtype for weight in load_file(Path(path) / WEIGHTS).values()}
    return "float16" if kinds == {torch.float16} else "float32"


def encoder_facts(config: PretrainedConfig) -> dict[str, Any]:
    """Return an encoder's transformers config as a bundle stores it, without names, paths, labels and code.

    Args:
        config: the encoder's config.
    """
    names = ("architectures", "id2label", "label2id", "transformers_version")
    return {key: value for key, value in without_code(config.to_dict()).items() if key not in names}
