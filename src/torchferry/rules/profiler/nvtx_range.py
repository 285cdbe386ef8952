"""A range marker of NVTX through torch.

`torch.cuda.nvtx.range_push("forward")` marks a span in NVIDIA's profilers, and raises without them. Some plugins
have markers of their own; without any, `torch.profiler.record_function` marks the span in torch's own profiler.
"""

from __future__ import annotations

from torchferry.rules.references import ReferenceRule


class NvtxRange(ReferenceRule):
    """Finds range markers of NVTX."""

    CODE = "PRF103"
    WORDS = ("nvtx",)
    GROUPS = ("nvtx",)
