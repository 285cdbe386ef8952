"""Automatic mixed precision on the simulated device: thin forms of `torch.amp` with the device type filled in."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torchferry.rehearsal import torch_versions
from torchferry.rehearsal.device_module.context import DeviceContext


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the functions and classes of mixed precision, by their name below `torch.cuda`."""
    device_type = context.name

    class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801 - the name that torch.cuda.amp has
        """`torch.autocast` for this device."""

        def __init__(
            self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
        ) -> None:
            super().__init__(device_type, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class GradScaler(torch_versions.grad_scaler()):  # type: ignore[misc]
        """`torch.amp.GradScaler` for this device."""

        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            super().__init__(
                device_type,
                init_scale=init_scale,
                growth_factor=growth_factor,
                backoff_factor=backoff_factor,
                growth_interval=growth_interval,
                enabled=enabled,
            )

    def custom_fwd(fwd: Any = None, *, cast_inputs: torch.dtype | None = None) -> Any:
        """Decorate the forward of an autograd function for autocast."""
        if fwd is None:
            return functools.partial(custom_fwd, cast_inputs=cast_inputs)
        return torch_versions.custom_forward(fwd, cast_inputs, context.native)

    def custom_bwd(bwd: Any) -> Any:
        """Decorate the backward of an autograd function for autocast."""
        return torch_versions.custom_backward(bwd, context.native)

    def amp_definitely_not_available() -> bool:
        """Whether there is no device."""
        return context.native.device_count() == 0

    def get_amp_supported_dtype() -> list[torch.dtype]:
        """Return the dtypes that `torch.autocast` accepts; torch asks for them by this name."""
        return [torch.float16, *([torch.bfloat16] if has_bfloat16(context) else [])]

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        """Whether the card computes in bfloat16, by other means too where `including_emulation`."""
        return has_bfloat16(context, including_emulation=including_emulation)

    return {
        "amp.autocast": autocast,
        "amp.GradScaler": GradScaler,
        "amp.custom_fwd": custom_fwd,
        "amp.custom_bwd": custom_bwd,
        "amp.amp_definitely_not_available": amp_definitely_not_available,
        "get_amp_supported_dtype": get_amp_supported_dtype,
        "is_bf16_supported": is_bf16_supported,
    }


def has_bfloat16(context: DeviceContext, *, including_emulation: bool = True) -> bool:
    """Whether the card computes in bfloat16."""
    state = context.profile.dtypes.get("bfloat16", "")
    return state not in ("missing", "narrowed") and (including_emulation or state != "emulated")
