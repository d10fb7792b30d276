"""Linear layers in 8-bit integers, for inference on CPUs with fast integer products (VNNI, AMX, NEON dot products).

Weights are quantised once, with one scale per output; inputs on each call, with one scale per row. The output of a row
depends only on that row, so results don't depend on the rest of the batch. (torch's own dynamic quantisation, which
is deprecated, has one scale for all rows.)
"""

import torch
from torch import Tensor, nn

from spanmarker_core.errors import CoreError

#: Largest integer used; -128 is not used, so that the range is symmetric.
_LIMIT = 127
#: Rows per step, so that intermediate results fit in the caches.
_ROWS = 256


class Int8Linear(nn.Module):
    """A linear layer with int8 weights.

    Args:
        linear: the layer to replace, on a CPU, in float32.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = _scale(weight)
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale[:, 0].clone())
        bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().float()
        self.register_buffer("bias", bias.clone())

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer: float32 [..., in] -> float32 [..., out].

        Args:
            inputs: float32 [..., in].
        """
        rows = inputs.reshape(-1, inputs.shape[-1])
        outputs = rows.new_empty(len(rows), len(self.weight))
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            scale = _scale(part)
            products = torch._int_mm((part / scale).round_().to(torch.int8), self.weight.t())
            torch.addcmul(self.bias, products * scale, self.scale, out=outputs[start : start + _ROWS])
        return outputs.view(*inputs.shape[:-1], len(self.weight))


def to_int8(encoder: nn.Module, device: torch.device) -> None:
    """Replace every linear layer of an encoder with an `Int8Linear`.

    Args:
        encoder: the encoder, changed in place.
        device: the device that it will run on.

    Raises:
        CoreError: `device.no_int8`.
    """
    if device.type != "cpu":
        raise CoreError("device.no_int8", device=device, reason="int8 is available on CPUs only")
    try:
        torch._int_mm(torch.ones(1, 8, dtype=torch.int8), torch.ones(8, 8, dtype=torch.int8))
    except (RuntimeError, AttributeError) as error:
        raise CoreError("device.no_int8", device=device, reason=str(error).splitlines()[0]) from error
    for module in list(encoder.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))


def _scale(rows: Tensor) -> Tensor:
    """Return the scale of each row, the value of integer 1: [n, size] -> [n, 1], never 0."""
    return (rows.abs().amax(dim=1, keepdim=True) / _LIMIT).clamp_(min=torch.finfo(torch.float32).tiny)
