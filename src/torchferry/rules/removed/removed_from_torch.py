"""A name that torch, torchvision or torchtext no longer has: `torch._six`, `torch.symeig`, `torchtext.legacy`.

The plugin of the target needs a torch of its own, and a program of 2018 does not know it. What is gone raises when
it is
imported or called, whatever the device. Where something means the same in every version it is written; the rest changed
its arguments or its result, and is left to you. Code that catches the error or asks for the version stays.

Why: The program raises when it imports or calls the name, on any device.

References:
- table versions
"""

from __future__ import annotations

from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromTorch(RemovedNamesRule):
    """Finds names that torch, torchvision and torchtext no longer have."""

    CODE = "TCH101"
    PACKAGES = ("torch", "torchvision", "torchtext")
    WORDS = (
        "_six", "symeig", "torch.eig", "torch.solve", "gesv", "torch.lstsq", "gels", "matrix_rank", "potr", "pstrf",
        "trtrs", "btri", "rfft", "torch.ifft", "data.dataloader", "nn._functions", "torch.legacy", "utils.trainer",
        "models.utils", "functional_tensor", ".Scale", "RandomSizedCrop", "import Scale",
        "torchtext",
    )  # fmt: skip
