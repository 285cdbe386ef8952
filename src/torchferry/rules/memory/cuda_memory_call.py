"""A call about the card's memory: its cache, its statistics, its allocator.

Left as they are, some raise (`reset_peak_memory_stats`), some do nothing (`empty_cache`), and some answer 0
(`max_memory_allocated`), which then stands in a log as if it were measured.

Why: The program raises, or it logs zeros as if they were measured.

References:
- table api
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaMemoryCall(ReferenceRule):
    """Finds memory functions of `torch.cuda`."""

    CODE = "MEM101"
    WORDS = CUDA_NAMES
    GROUPS = ("memory",)
