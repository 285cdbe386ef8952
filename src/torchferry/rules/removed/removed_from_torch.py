"""A name that torch, torchvision or torchtext no longer has: `torch._six`, `torch.symeig`, `torchtext.legacy`.

The plugin of the target needs a newer torch than a program of 2018 expects. A removed name raises when it is imported
or called, on any device. It is replaced if something means the same in every version; otherwise its arguments or
result changed, and you decide. Code that catches the error or checks the version stays.

Why: The program raises when it imports or calls the name, on any device.

References:
- table versions
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromTorch(RemovedNamesRule):
    """Finds names that torch, torchvision and torchtext no longer have."""

    CODE = "TCH101"
    EFFECT = Effect.RAISES
    PACKAGES = ("torch", "torchvision", "torchtext")
    WORDS = (
        "_six", "symeig", "torch.eig", "torch.solve", "gesv", "torch.lstsq", "gels", "matrix_rank", "potr", "pstrf",
        "trtrs", "btri", "rfft", "torch.ifft", "data.dataloader", "nn._functions", "torch.legacy", "utils.trainer",
        "models.utils", "functional_tensor", ".Scale", "RandomSizedCrop", "import Scale",
        "torchtext",
    )  # fmt: skip
