"""A name that torch, torchvision or torchtext no longer has: `torch._six`, `torch.symeig`, `torchtext.legacy`.

The plugin of the target needs a torch of its own, and a program of 2018 does not know it. What is gone raises when
it is
imported or called, whatever the device. Where something means the same in every version it is written; the rest changed
its arguments or its result, and is left to you. Code that catches the error or asks for the version stays.
"""

from __future__ import annotations

from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromTorch(RemovedNamesRule):
    """Finds names that torch, torchvision and torchtext no longer have."""

    CODE = "TCH101"
    CHINESE = """torch、torchvision 或 torchtext 已移除的名称：`torch._six`、`torch.symeig`、`torchtext.legacy`。

目标平台的插件需要特定版本的 torch，而 2018 年的程序并不了解它。被移除的名称在导入或调用时报错，与设备无关。
在各版本中含义相同的写法会自动写入；其余的参数或返回值已改变，留给您决定。自行捕获错误或判断版本的代码保持不变。
"""
    PACKAGES = ("torch", "torchvision", "torchtext")
    WORDS = (
        "_six", "symeig", "torch.eig", "torch.solve", "gesv", "torch.lstsq", "gels", "matrix_rank", "potr", "pstrf",
        "trtrs", "btri", "rfft", "torch.ifft", "data.dataloader", "nn._functions", "torch.legacy", "utils.trainer",
        "models.utils", "functional_tensor", ".Scale", "RandomSizedCrop", "import Scale",
        "torchtext",
    )  # fmt: skip
