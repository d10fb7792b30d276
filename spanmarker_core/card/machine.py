"""Hardware and software of a training run: facts of a card that are not part of the model's identity."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_LIBRARIES = {
    "spanmarker-pipelines": "spanmarker-pipelines",
    "Transformers": "transformers",
    "PyTorch": "torch",
    "Datasets": "datasets",
    "Tokenizers": "tokenizers",
}


def run_facts(device: torch.device, seconds: float) -> dict[str, Any]:
    """Return the facts `train_seconds`, `hardware` and `versions` of a training run in this process.

    Args:
        device: device of the training.
        seconds: duration of the training.
    """
    return {"train_seconds": round(seconds, 1), "hardware": hardware(device), "versions": versions()}


def hardware(device: torch.device) -> str:
    """Return the name of the processor or GPU, and the number of threads or processes.

    Args:
        device: device of the computation.
    """
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{_processor()}, {torch.get_num_threads()} threads"
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    return name if ranks == 1 else f"{ranks} processes, each with {name}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that training depends on."""
    found = {"Python": platform.python_version()}
    for name, package in _LIBRARIES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except (OSError, ValueError):
        pass
    return platform.processor() or platform.machine() or "CPU"
