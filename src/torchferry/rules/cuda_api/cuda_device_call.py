"""A call of `torch.cuda` that queries devices or waits for them.

`torch.cuda.is_available()`, `device_count()`, `set_device()`, `synchronize()`, `get_device_properties()` and related
functions. On a torch without CUDA some raise, and others return a value: `is_available()` is False and
`device_count()` is 0. Such a condition therefore changes together with the device that it chooses.

Why: If such calls stay, the program raises, or it silently runs on the CPU.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.core.messages import say
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaDeviceCall(ReferenceRule):
    """Finds uses of the device functions of `torch.cuda`."""

    CODE = "CUD101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("change it by hand, with the lines around it"),)
    WORDS = CUDA_NAMES
    GROUPS = ("device",)
