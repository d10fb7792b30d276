"""Comparison of a bundle's config with the names and shapes of its weights, read from the header of the weight file.

A config may contain any number of layers, tokens or labels. Its numbers are compared with the weights before a network
is built, and weights are counted during the build, so that a mismatch never takes more memory than the weights would.
"""

import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanmarker_core.errors import CoreError, UnusableError, wrap_errors

if TYPE_CHECKING:
    from spanmarker_core.bundle.config import ModelConfig

Shapes = Mapping[str, tuple[int, ...]]

#: Maximum size of the header in bytes, the limit of safetensors itself.
_MAX_HEADER = 100_000_000
#: Allowance for weights that an encoder is built with but a bundle's network lacks, such as those of a pooler.
_SPARE_WEIGHTS = 32
#: Limit for numbers in an encoder's config that exceed all weight sizes: rotary angles can reach a million.
_MAX_NUMBER = 1 << 24
#: Limit for `entity_max_length`, in words, where it exceeds all weight sizes.
_MAX_LENGTH = 1024
#: Names in encoder configs for the numbers that determine the size of a network.
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_hidden_groups", "inner_group_num")
_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd", "emb_dim", "embedding_size", "intermediate_size", "hidden_dim")


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight in a safetensors file, by name, without reading weights.

    Args:
        path: the file.

    Raises:
        UnusableError: the header can't be read.
    """
    with wrap_errors("it does not contain weights"), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_MAX_HEADER, path.stat().st_size):
            raise UnusableError(f"it does not contain weights (its header has {length:,} bytes)")
        header = json.loads(file.read(length))
        return {name: tuple(map(int, entry["shape"])) for name, entry in header.items() if name != "__metadata__"}


def check_sizes(config: "ModelConfig", shapes: Shapes) -> None:
    """Check that the numbers of a config are not too large for its weights. Does not import torch.

    Args:
        config: a config that has passed `check_config`.
        shapes: shape of each weight, by name.

    Raises:
        UnusableError: a number is too large; names the number and the limit.
    """
    encoder = config.encoder
    longest = max((size for shape in shapes.values() for size in shape), default=0)
    rows = {shape[0] for shape in shapes.values() if len(shape) == 2}
    if encoder["vocab_size"] not in rows:
        raise UnusableError(f"encoder.vocab_size is {encoder['vocab_size']}, but no weight has this number of rows")
    limits = dict.fromkeys(_WIDTHS, longest) | dict.fromkeys(_LAYERS, len(shapes))
    # Models with rotary positions don't have weights for them.
    if positions := [shape[0] for name, shape in shapes.items() if "position_embeddings" in name and len(shape) == 2]:
        limits["max_position_embeddings"] = max(positions)
    limits["num_labels"] = longest
    classes = shapes.get("classifier.weight", (longest,))[0]
    if len(config.labels) > classes:
        raise UnusableError(f"the config has {len(config.labels):,} labels, but the weights allow at most {classes:,}")
    if config.entity_max_length > max(longest, _MAX_LENGTH):
        limit = max(longest, _MAX_LENGTH)
        raise UnusableError(f"entity_max_length is {config.entity_max_length}, but the weights allow at most {limit}")
    for name, value in _numbers(encoder):
        limit = limits.get(name, max(longest, _MAX_NUMBER))
        if value > limit:
            raise UnusableError(f"encoder.{name} is {value}, but the weights allow at most {limit}")


def _numbers(values: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield (key, value) for each integer in a config, at any depth."""
    if type(values) is int:
        yield name, values
    elif isinstance(values, dict):
        for key, value in values.items():
            yield from _numbers(value, str(key))
    elif isinstance(values, list):
        for value in values:
            yield from _numbers(value, name)


@contextmanager
def no_more_weights(shapes: Shapes, path: str | Path) -> Iterator[None]:
    """Prevent the current thread from building a network with more or larger weights than a file has.

    A weight is counted before it is first written to, so that a weight that is too large does not take memory.

    Args:
        shapes: shape of each weight in the file, by name.
        path: the bundle's folder, for the error.

    Raises:
        CoreError: `bundle.weights_mismatch`.
    """
    from torch.nn.modules.module import register_module_parameter_registration_hook

    thread = threading.get_ident()
    weights, numbers = len(shapes) + _SPARE_WEIGHTS, 2 * sum(map(math.prod, shapes.values()))

    def count(module: Any, name: str, weight: Any) -> None:
        nonlocal weights, numbers
        if threading.get_ident() != thread or weight is None:
            return
        weights, numbers = weights - 1, numbers - weight.numel()
        if weights < 0 or numbers < 0:
            problem = f"the config describes a network larger than the {len(shapes):,} stored weights"
            raise CoreError("bundle.weights_mismatch", path=path, problem=problem)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def check_shapes(expected: Shapes, found: Shapes, path: str | Path) -> None:
    """Check that weights have the expected names and shapes.

    Args:
        expected: shapes of the network that the config describes, by name.
        found: shapes in the weight file, by name.
        path: the bundle's folder, for the error.

    Raises:
        CoreError: `bundle.weights_mismatch` with the first names that differ.
    """
    if expected != found:
        differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise CoreError("bundle.weights_mismatch", path=path, problem=", ".join(differing[:5]))
