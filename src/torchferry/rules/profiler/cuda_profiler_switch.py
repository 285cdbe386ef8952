"""The switch that starts and stops NVIDIA's profiler.

`torch.cuda.profiler.start()` and `profile()` bracket a region for nsys and nvprof. The vendor's profiler has its own
way to choose a region.

Why: The call raises or has no effect, because NVIDIA's profiler does not run.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaProfilerSwitch(ReferenceRule):
    """Finds the CUDA profiler switch."""

    CODE = "PRF104"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("profiler",)
