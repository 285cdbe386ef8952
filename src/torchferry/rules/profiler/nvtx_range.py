"""A range marker of NVTX through torch.

`torch.cuda.nvtx.range_push("forward")` marks a span in NVIDIA's profilers, and raises without them. Some plugins
have markers of their own; without any, `torch.profiler.record_function` marks the span in torch's own profiler.
"""

from __future__ import annotations

from torchferry.rules.references import ReferenceRule


class NvtxRange(ReferenceRule):
    """Finds range markers of NVTX."""

    CODE = "PRF103"
    CHINESE = """通过 torch 使用的 NVTX 区间标记。

`torch.cuda.nvtx.range_push("forward")` 在 NVIDIA 的分析器中标记区间，没有它们时会报错。有的插件有自己的标记；没有时
`torch.profiler.record_function` 可在 torch 自带的分析器中标记。
"""
    WORDS = ("nvtx",)
    GROUPS = ("nvtx",)
