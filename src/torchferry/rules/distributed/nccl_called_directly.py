"""NCCL, or a copy between cards, called without a process group.

`torch.cuda.nccl.all_reduce(...)` and `torch.cuda.comm.broadcast(...)` act on tensors of several cards in one
process. Plugins hardly have them; `torch.distributed` does the same with one process a card.
"""

from __future__ import annotations

from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class NcclCalledDirectly(ReferenceRule):
    """Finds direct uses of NCCL and of copies between cards."""

    CODE = "DST104"
    CHINESE = """直接使用 NCCL，或在卡之间直接复制。

`torch.cuda.nccl` 与 `torch.cuda.comm` 是 CUDA 的内部接口。请使用 `torch.distributed`，每卡一个进程。
"""
    WORDS = CUDA_NAMES
    GROUPS = ("collective",)
