"""A call of `torch.cuda` that asks about devices or waits for them.

`torch.cuda.is_available()`, `device_count()`, `set_device()`, `synchronize()`, `get_device_properties()` and their
neighbours. Left as they are, some raise on a torch without CUDA, and others answer: `is_available()` is False and
`device_count()` is 0, so the program runs on the CPU without a word. The condition therefore moves together with
the device that it chooses.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaDeviceCall(ReferenceRule):
    """Finds uses of the device functions of `torch.cuda`."""

    CODE = "CUD101"
    CHINESE = """对 `torch.cuda` 设备函数的调用。

选择设备、等待设备、统计设备的函数。没有 CUDA 的 torch 会报错，或更糟：`is_available()` 为 False，程序静默地使用 CPU。
名称改为插件的命名空间，判断与其所保护的内容一同修改。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("device",)
