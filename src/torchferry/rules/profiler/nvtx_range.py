"""A range marker of NVTX through torch.

`torch.cuda.nvtx.range_push("forward")` marks a span in NVIDIA's profilers, and raises without them. Some plugins
have markers of their own; without any, `torch.profiler.record_function` marks the span in torch's own profiler.

Why: The call raises where the plugin has no markers.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import ReferenceRule


class NvtxRange(ReferenceRule):
    """Finds range markers of NVTX."""

    CODE = "PRF103"
    EFFECT = Effect.RAISES
    WORDS = ("nvtx",)
    GROUPS = ("nvtx",)
