"""The switch that starts and stops NVIDIA's profiler.

`torch.cuda.profiler.start()` and `profile()` bracket a region for nsys and nvprof. The vendor's profiler has its own
way to choose a region.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaProfilerSwitch(ReferenceRule):
    """Finds the CUDA profiler switch."""

    CODE = "PRF104"
    CHINESE = """启停 NVIDIA 分析器的开关。

`torch.cuda.profiler.start()` 与 `profile()` 为 nsys 与 nvprof 圈定区间。厂商的分析器有自己选择区间的方式。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("profiler",)
