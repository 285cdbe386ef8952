"""A profiler that records CUDA.

`ProfilerActivity.CUDA` is dropped with a warning on a torch without CUDA, and where it is the only activity the
profiler refuses to start. Each plugin has its own activity; some have a profiler of their own with the same
interface.
"""

from __future__ import annotations

from torchferry.rules.references import ReferenceRule


class ProfilerActivity(ReferenceRule):
    """Finds profiler activities and profilers that mean CUDA."""

    CODE = "PRF101"
    CHINESE = """记录 CUDA 的性能分析。

没有 CUDA 的 torch 会警告并丢弃 `ProfilerActivity.CUDA`；若它是唯一的 activity，分析器拒绝启动。
各插件有自己的 activity，有的还有接口相同的分析器。
"""
    WORDS = ("profiler", "Profiler")
    GROUPS = ("profiling",)
