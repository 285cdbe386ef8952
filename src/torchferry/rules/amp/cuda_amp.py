"""Mixed precision with `torch.cuda.amp`.

`torch.cuda.amp.autocast()` and `GradScaler()` only warn on a torch without CUDA and are off. They are replaced by the
plugin's own classes, including arguments and `enabled=False` blocks.

Why: Nothing fails. Training continues in float32, or in float16 without scaling, and may diverge after hours.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.family import UnderRedirect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaAmp(ReferenceRule):
    """Finds uses of `torch.cuda.amp`."""

    CODE = "AMP101"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = CUDA_NAMES
    GROUPS = ("amp",)
