"""A query of what the CUDA card or this build of torch can do.

`torch.cuda.is_bf16_supported()`, `get_arch_list()`, `has_half` and related functions choose dtypes and code paths.
Without CUDA `is_bf16_supported()` is False.

Why: The program silently chooses a slower or less exact path.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaCapabilityQuery(ReferenceRule):
    """Finds capability queries of `torch.cuda`."""

    CODE = "CUD102"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("build",)
