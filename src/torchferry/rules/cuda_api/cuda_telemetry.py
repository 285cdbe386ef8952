"""A reading of the card through NVIDIA's management library.

`torch.cuda.utilization()`, `temperature()`, `power_draw()`, `list_gpu_processes()` use NVML. Most plugins have no such
functions; the vendor's own management tool shows these figures.

Why: The call raises, because there is no NVML on the target.

References:
- table api
- table tools
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaTelemetry(ReferenceRule):
    """Finds telemetry calls of `torch.cuda`."""

    CODE = "CUD103"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("telemetry",)
