"""A call about the card's memory: its cache, its statistics, its allocator.

Without CUDA some raise (`reset_peak_memory_stats`), some do nothing (`empty_cache`), and some return 0
(`max_memory_allocated`).

Why: The program raises, or it logs zeros as if they were measured.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.core.messages import say
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaMemoryCall(ReferenceRule):
    """Finds memory functions of `torch.cuda`."""

    CODE = "MEM101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("change it by hand, with the lines around it"),)
    WORDS = CUDA_NAMES
    GROUPS = ("memory",)
