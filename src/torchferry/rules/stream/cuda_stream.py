"""A stream or an event of CUDA.

`torch.cuda.Stream`, `Event`, `stream()`, `current_stream()`: creating one raises on a torch without CUDA. Plugins
have classes of the same names, with the same ordering rules.

Why: Creating the stream or event raises.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaStream(ReferenceRule):
    """Finds streams and events of CUDA."""

    CODE = "STR101"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("stream",)
