"""Loads bundles."""

from pathlib import Path

from safetensors.torch import load_file

from spanmarker_core.bundle import DTYPES, GATE_CHOICES, WEIGHTS, ModelConfig, gate_threshold, read_info, read_packer
from spanmarker_core.errors import CoreError, refusing, unusable
from spanmarker_core.int8 import to_int8
from spanmarker_core.models import architecture
from spanmarker_core.models.network import SpanNetwork
from spanmarker_core.pretrained import not_finite
from spanmarker_core.tagger import Tagger, choose_device
from spanmarker_core.weight_shapes import check_shapes, check_sizes, no_more_weights, read_shapes


def load(path: str | Path, device: str = "cpu", dtype: str = "float32", gate: str = "auto") -> Tagger:
    """Load a bundle. Nothing is fetched, no code in the bundle is run.

    Args:
        path: the bundle's folder.
        device: "cpu", "cuda", "cuda:1", …; "auto" takes a GPU where there is one.
        dtype: one of `DTYPES`. "bfloat16" has matrix products in it, sums and softmax in float32, and changes scores.
            "int8" has the encoder's linear layers in it (see `int8`), on CPUs only, and changes scores more.
        gate: "auto" is as the model was trained: with its gate, if it was trained with one. "on" also takes a gate
            that was fitted later, which may lose entities; "off" scores every candidate span.

    Raises:
        CoreError: `bundle.*`, `encoder.*`, `device.*`, `call.unknown_option`, `call.no_gate`.
    """
    for option, value, choices in (("dtype", dtype, DTYPES), ("gate", gate, GATE_CHOICES)):
        if value not in choices:
            raise CoreError("call.unknown_option", option=option, value=value, choices=", ".join(choices))
    target = choose_device(device)
    info = read_info(path)
    threshold = gate_threshold(info.config, gate, path)
    packer = read_packer(path, info.config)
    with refusing("bundle.bad_file", path=path, file=WEIGHTS):
        shapes = read_shapes(info.path / WEIGHTS)
    with refusing("bundle.weights_mismatch", path=path):
        check_sizes(info.config, shapes)
    with refusing("bundle.bad_config", path=path), no_more_weights(shapes, path):
        network = build_network(info.config)
    check_shapes({name: tuple(weight.shape) for name, weight in network.state_dict().items()}, shapes, path)
    with refusing("bundle.bad_file", path=path, file=WEIGHTS), unusable("it can't be read as weights"):
        weights = load_file(info.path / WEIGHTS)
    if bad := not_finite(weights):
        raise CoreError("bundle.nan_weight", path=path, name=bad[0], count=bad[1])
    network.load_state_dict(weights)
    if dtype == "int8":
        for part in network.pretrained_parts():
            to_int8(part, target)
    return Tagger(info.config, packer, network, target, dtype, threshold, info)


def build_network(config: ModelConfig) -> SpanNetwork:
    """Build the model that a config describes, with random weights.

    Raises:
        UnusableError: with what transformers has against the encoder's config.
        CoreError: `encoder.no_position_ids`.
    """
    with unusable("its encoder can't be built"):
        network: SpanNetwork = architecture(config.architecture).from_config(config)
        return network
