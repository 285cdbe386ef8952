"""A call of `torch.cuda` that asks about devices or waits for them.

`torch.cuda.is_available()`, `device_count()`, `set_device()`, `synchronize()`, `get_device_properties()` and their
neighbours. Left as they are, some raise on a torch without CUDA, and others answer: `is_available()` is False and
`device_count()` is 0, so the program runs on the CPU without a word. The condition therefore moves together with
the device that it chooses.

Why: If such calls stay, the program raises, or it silently runs on the CPU.

References:
- table api
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaDeviceCall(ReferenceRule):
    """Finds uses of the device functions of `torch.cuda`."""

    CODE = "CUD101"
    WORDS = CUDA_NAMES
    GROUPS = ("device",)
