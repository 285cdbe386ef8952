"""A graph captured on CUDA.

`torch.cuda.CUDAGraph`, `graph()`, `make_graphed_callables()`: the class has another name in every plugin, and some
plugins capture only inference, or nothing at all. Without capture the program is correct, and slower by the launch
cost of its kernels.

Why: The capture raises where the plugin has none. Without capture the program is correct but slower.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaGraph(ReferenceRule):
    """Finds graph capture on CUDA."""

    CODE = "STR102"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("graph",)
