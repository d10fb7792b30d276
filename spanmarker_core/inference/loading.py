"""Loading of a bundle's network onto a device."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from spanmarker_core.architectures.registry import architecture
from spanmarker_core.bundle.config import DTYPES, GATE_CHOICES, ModelConfig, gate_threshold
from spanmarker_core.bundle.pretrained import not_finite
from spanmarker_core.bundle.reader import WEIGHTS, BundleInfo, read_info, read_packer
from spanmarker_core.bundle.weight_shapes import check_shapes, check_sizes, no_more_weights, read_shapes
from spanmarker_core.errors import CoreError, as_core_error, single_line, wrap_errors
from spanmarker_core.inference.int8 import to_int8
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.windows.packer import Packer


def load_network(
    path: str | Path, device: str, dtype: str, gate: str
) -> tuple[BundleInfo, Packer, SpanNetwork, torch.device, float | None]:
    """Load the parts of a model.

    Args:
        path: the bundle's folder.
        device: "cpu", "cuda", "cuda:1", …; "auto" for a GPU if there is one.
        dtype: number type for computations: "float32", "bfloat16" or "int8".
        gate: "auto", "on" or "off".

    Returns:
        The bundle, its packer, the network, the device, and the threshold of the gate or None.

    Raises:
        CoreError: `call.unknown_option`, `call.no_gate`, `device.not_available`, `device.no_int8`,
            `encoder.no_position_ids`, `bundle.weights_mismatch`, `bundle.nan_weight`, and those of `read_info`.
    """
    for option, value, choices in (("dtype", dtype, DTYPES), ("gate", gate, GATE_CHOICES)):
        if value not in choices:
            raise CoreError("call.unknown_option", option=option, value=value, choices=", ".join(choices))
    target = choose_device(device)
    info = read_info(path)
    threshold = gate_threshold(info.config, gate, path)
    packer = read_packer(path, info.config)
    with as_core_error("bundle.bad_file", path=path, file=WEIGHTS):
        shapes = read_shapes(info.path / WEIGHTS)
    with as_core_error("bundle.weights_mismatch", path=path):
        check_sizes(info.config, shapes)
    with as_core_error("bundle.bad_config", path=path), no_more_weights(shapes, path):
        network = build_network(info.config)
    check_shapes({name: tuple(weight.shape) for name, weight in network.state_dict().items()}, shapes, path)
    with as_core_error("bundle.bad_file", path=path, file=WEIGHTS), wrap_errors("it does not contain weights"):
        weights = load_file(info.path / WEIGHTS)
    if bad := not_finite(weights):
        raise CoreError("bundle.nan_weight", path=path, name=bad[0], count=bad[1])
    network.load_state_dict(weights)
    if dtype == "int8":
        for part in network.pretrained_parts():
            to_int8(part, target)
    return info, packer, network, target, threshold


def build_network(config: ModelConfig) -> SpanNetwork:
    """Build the model that a config describes, with random weights.

    Args:
        config: the model's config.

    Raises:
        UnusableError: transformers rejects the encoder's config; with its message.
        CoreError: `encoder.no_position_ids`.
    """
    with wrap_errors("cannot build its encoder"):
        network: SpanNetwork = architecture(config.architecture).from_config(config)
        return network


def choose_device(device: str) -> torch.device:
    """Return a device after checking that it is available.

    Args:
        device: "cpu", "cuda", "cuda:1", … or another kind that torch has; "auto" for a GPU if there is one.

    Raises:
        CoreError: `device.unknown`, `device.cpu_build`, `device.no_gpu`, `device.not_available`.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise CoreError("device.unknown", device=device) from error
    if chosen.type == "cuda":
        if torch.version.cuda is None and torch.version.hip is None:
            raise CoreError("device.cpu_build", device=device)
        if (count := torch.cuda.device_count()) <= (chosen.index or 0):
            raise CoreError("device.no_gpu", device=device, count=count or "no")
    try:
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CoreError("device.not_available", device=device, reason=single_line(str(error), 200)) from error
    return chosen
