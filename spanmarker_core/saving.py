"""Writes model bundles."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import PretrainedConfig

from spanmarker_core.bundle import CARD, CONFIG, TOKENIZER, WEIGHTS, ModelConfig, seal
from spanmarker_core.errors import CoreError

WEIGHT_DTYPES = {"float32": torch.float32, "float16": torch.float16}


def check_output(path: str | Path) -> None:
    """Refuse a folder that holds something, before any work is done for it.

    Raises:
        CoreError: `bundle.output_exists`.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CoreError("bundle.output_exists", path=path)


def save_bundle(
    path: str | Path,
    config: ModelConfig,
    network: nn.Module,
    tokenizer: Tokenizer,
    card: str,
    dtype: str = "float32",
) -> str:
    """Write a bundle and return the model's digest.

    Args:
        path: a folder that doesn't exist or is empty.
        config, network, tokenizer: the model.
        card: text of README.md.
        dtype: "float32", or "float16" for half the size (weights are computed with in float32).

    Raises:
        CoreError: `bundle.output_exists`.
    """
    check_output(path)
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.detach().cpu().to(WEIGHT_DTYPES[dtype]).contiguous()
        for name, weight in network.state_dict().items()
    }
    save_file(weights, str(path / WEIGHTS), metadata={"format": "pt"})
    (path / CONFIG).write_text(config.to_json(), encoding="utf-8")
    tokenizer.save(str(path / TOKENIZER))
    (path / CARD).write_text(card, encoding="utf-8")
    return seal(path)


def encoder_facts(config: PretrainedConfig) -> dict[str, Any]:
    """Return what a bundle keeps of an encoder's transformers config: no names, no paths, no labels."""
    values = config.to_dict()
    for key in (
        "_name_or_path",
        "architectures",
        "id2label",
        "label2id",
        "transformers_version",
        "torch_dtype",
        "dtype",
    ):
        values.pop(key, None)
    return {key: value for key, value in values.items() if not key.startswith("_")}
