"""A reading of the card through NVIDIA's management library.

`torch.cuda.utilization()`, `temperature()`, `power_draw()`, `list_gpu_processes()` ask NVML. Most plugins have no
such functions; the vendor's own management tool gives the figures.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaTelemetry(ReferenceRule):
    """Finds telemetry calls of `torch.cuda`."""

    CODE = "CUD103"
    CHINESE = """卡的利用率、功耗与温度。

这些函数读取 NVIDIA 管理库。有的插件提供其中一部分，其余请用厂商的管理工具。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("telemetry",)
