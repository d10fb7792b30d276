"""Ways to damage the folder of a checkpoint, an encoder or a bundle; each is a function of the folder."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path], object]


def edit(path: Path, **changes: object) -> None:
    """Change values of a JSON file."""
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, **changes}), encoding="utf-8")


def edit_encoder(folder: Path, **changes: object) -> None:
    """Change values of the encoder in a config."""
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    edit(folder / "config.json", encoder={**values["encoder"], **changes})


def config_says(**changes: object) -> Damage:
    return lambda folder: edit(folder / "config.json", **changes)


def encoder_says(**changes: object) -> Damage:
    return lambda folder: edit_encoder(folder, **changes)


def weights_are(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def bin_holds(value: object = None) -> Damage:
    """Pickle a value, or the weights, in place of safetensors."""

    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        torch.save(weights if value is None else value, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()

    return damage


def index_is(content: object) -> Damage:
    return write("model.safetensors.index.json", json.dumps(content))


def without(*names: str) -> Damage:
    return lambda folder: [(folder / name).unlink() for name in names]


def write(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")
