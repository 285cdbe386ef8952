"""A seed or a generator state of the CUDA device.

`torch.cuda.manual_seed_all(seed)` does nothing on a torch without CUDA. `get_rng_state()` raises. The same seed gives
other numbers on another vendor's card: compare distributions, or generate on the CPU if two runs must be equal.

Why: A run is not reproducible, and no message says so.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaRandomCall(ReferenceRule):
    """Finds random functions of `torch.cuda`."""

    CODE = "RNG101"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("random",)
