"""The switch that starts and stops NVIDIA's profiler.

`torch.cuda.profiler.start()` and `profile()` bracket a region for nsys and nvprof. The vendor's profiler has its own
way to choose a region.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaProfilerSwitch(ReferenceRule):
    """Finds the CUDA profiler switch."""

    CODE = "PRF104"
    WORDS = CUDA_NAMES
    GROUPS = ("profiler",)
