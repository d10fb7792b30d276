"""Linear layers in 8-bit integers, for inference on CPUs that multiply them fast (VNNI, AMX, NEON dot products).

Weights are rounded once, a scale an output; inputs as they come, a scale a row. A row's answer depends on nothing
but the row, so results do not depend on what else is in a batch. (torch's own dynamic quantisation, which is
deprecated, has one scale for all rows.)
"""

import torch
from torch import Tensor, nn

from spanmarker_core.errors import CoreError

#: Largest integer used; -128 is left out, so that ranges are symmetric.
_LIMIT = 127
#: Rows that are worked on at once, so that what is between stays in the caches.
_ROWS = 256


class Int8Linear(nn.Module):
    """A linear layer whose weights are int8: [..., in] float32 -> [..., out] float32.

    Args:
        linear: the layer that it stands for, on a CPU, in float32.
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
        """Multiply and add."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        outputs = rows.new_empty(len(rows), len(self.weight))
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            scale = _scale(part)
            products = torch._int_mm((part / scale).round_().to(torch.int8), self.weight.t())
            torch.addcmul(self.bias, products * scale, self.scale, out=outputs[start : start + _ROWS])
        return outputs.view(*inputs.shape[:-1], len(self.weight))


def to_int8(encoder: nn.Module, device: torch.device) -> None:
    """Put an `Int8Linear` in the place of every linear layer of `encoder`.

    Raises:
        CoreError: `device.no_int8`.
    """
    if device.type != "cpu":
        raise CoreError("device.no_int8", device=device, reason="it is offered on CPUs only")
    try:
        torch._int_mm(torch.ones(1, 8, dtype=torch.int8), torch.ones(8, 8, dtype=torch.int8))
    except (RuntimeError, AttributeError) as error:
        raise CoreError("device.no_int8", device=device, reason=str(error).splitlines()[0]) from error
    for module in list(encoder.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))


def _scale(rows: Tensor) -> Tensor:
    """Return what one step of each row's integers is worth: [n, size] -> [n, 1], never 0."""
    return (rows.abs().amax(dim=1, keepdim=True) / _LIMIT).clamp_(min=torch.finfo(torch.float32).tiny)
