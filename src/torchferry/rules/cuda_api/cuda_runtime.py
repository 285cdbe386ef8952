"""A use of the CUDA runtime, its errors or its library handles.

`torch.cuda.cudart()`, `check_error`, `current_blas_handle()`, `CudaError`, the sync debug mode: these are parts of
CUDA itself. Some plugins expose their own runtime under another name.

Why: The call raises: there is no CUDA runtime behind it.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.core.messages import say
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaRuntime(ReferenceRule):
    """Finds uses of the CUDA runtime through torch."""

    CODE = "CUD104"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use the target's function"), say("leave the call out"))
    NEEDS_COUNTERPART = True
    WORDS = CUDA_NAMES
    GROUPS = ("runtime",)
