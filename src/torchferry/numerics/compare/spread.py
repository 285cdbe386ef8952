"""What two runs on the device differ by, for operators that add in an order that is not fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torchferry.numerics.compare.snapshot import replaced

if TYPE_CHECKING:
    from torchferry.numerics.compare.verdict import Call


def spread(call: Call, number: int) -> float | None:
    """Return the greatest difference of two runs on copies of the arguments; None where they cannot be made."""
    if call.device.startswith("cpu"):
        return None
    device = torch.device(call.device)

    def run() -> Tensor:
        args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
        moved: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            key = id(tensor)
            if key not in moved:
                moved[key] = tensor.to(device)
            return moved[key]

        on_device = tuple(replaced(value, Tensor, move) for value in args)
        named = {key: replaced(value, Tensor, move) for key, value in kwargs.items()}
        out = call.operator.overload(*on_device, **named)
        return list(call.operator.results(on_device, named, out))[number].detach().to("cpu", torch.float64)

    try:
        return float((run() - run()).abs().max())
    except Exception:
        return None
