"""Automatic mixed precision. Source: github.com/mango-MilkT/torch_gcu@14a99843d05c amp: names and arguments."""

from __future__ import annotations

from typing import Any

import torch

from torch_gcu.amp import common
from torchferry.rehearsal import events as _events
from torchferry.rehearsal.plugin_namespace import current as _current

__all__ = ["GradScaler", "autocast", "common", "custom_bwd", "custom_fwd"]

_own = _current().elsewhere
custom_fwd = _own["torch_gcu.amp.custom_fwd"]
custom_bwd = _own["torch_gcu.amp.custom_bwd"]


class autocast(_own["torch_gcu.amp.autocast"]):  # noqa: N801 - the vendor's name
    """Mixed precision within a block; it takes no device type."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        if dtype not in (torch.float16, torch.bfloat16):
            raise _events.refusal(
                RuntimeError(
                    f"Current GCU Device does not support {dtype}. Please switch dtype to float16 && bfloat16."
                )
            )
        super().__init__(enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_own["torch_gcu.amp.GradScaler"]):
    """Scaling of the loss; `use_zero_grad` steps with zero gradients where the others skip a step."""

    def __init__(self, *args: Any, use_zero_grad: bool = False, **kwargs: Any) -> None:
        self.use_zero_grad = use_zero_grad
        super().__init__(*args, **kwargs)
