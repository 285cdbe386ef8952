"""NCCL, or a copy between cards, called without a process group.

`torch.cuda.nccl.all_reduce(...)` and `torch.cuda.comm.broadcast(...)` act on tensors of several cards in one
process. Plugins hardly have them; `torch.distributed` does the same with one process a card.

Why: The call raises on most plugins.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class NcclCalledDirectly(ReferenceRule):
    """Finds direct uses of NCCL and of copies between cards."""

    CODE = "DST104"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("collective",)
