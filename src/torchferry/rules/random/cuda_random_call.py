"""A seed or a generator state of the CUDA device.

`torch.cuda.manual_seed_all(seed)` does nothing on a torch without CUDA, so a run is not reproducible and nobody is
told. `get_rng_state()` raises. The same seed gives other numbers on another maker's card: compare distributions, or
draw on the CPU where two runs must be equal.

Why: A run is not reproducible, and no message says so.

References:
- table api
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaRandomCall(ReferenceRule):
    """Finds random functions of `torch.cuda`."""

    CODE = "RNG101"
    WORDS = CUDA_NAMES
    GROUPS = ("random",)
