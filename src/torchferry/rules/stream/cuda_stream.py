"""A stream or an event of CUDA.

`torch.cuda.Stream`, `Event`, `stream()`, `current_stream()`: creating one raises on a torch without CUDA. Plugins
have classes of the same names, with the same ordering rules.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaStream(ReferenceRule):
    """Finds streams and events of CUDA."""

    CODE = "STR101"
    CHINESE = """CUDA 的流与事件。

`torch.cuda.Stream()`、`Event()`：没有 CUDA 的 torch 创建时会报错。插件有同名的类，顺序规则相同。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("stream",)
