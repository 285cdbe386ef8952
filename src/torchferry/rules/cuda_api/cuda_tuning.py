"""A use of TunableOp or of GPUDirect Storage.

`torch.cuda.tunable.*` tunes matrix products on CUDA and ROCm; `torch.cuda.gds.*` reads files straight into the memory
of an NVIDIA card. Both only make a program faster; without them it is still correct.

Why: The call raises on most targets, although the program is correct without it.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaTuning(ReferenceRule):
    """Finds uses of TunableOp and GPUDirect Storage."""

    CODE = "CUD105"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("tuning", "storage_direct")
