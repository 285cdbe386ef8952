"""A memory format that the plugin refuses: `model.to(memory_format=torch.channels_last)`.

On CUDA the format makes convolutions faster and changes no result. A plugin that stores images in an order of its own
raises where this format is asked for. The usual format takes its place, and results stay the same.
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.rules.base import Options
from torchferry.rules.references import ReferenceRule

_FORMAT = "torch.channels_last"


class MemoryFormat(ReferenceRule):
    """Finds memory formats that the plugin refuses."""

    CODE = "MEM102"
    BINDS = False
    CHINESE = """插件拒绝的内存格式：`model.to(memory_format=torch.channels_last)`。

在 CUDA 上该格式能加快卷积，不改变结果。有的插件以自己的次序存放图像张量，遇到此格式会报错。改用通常的格式；
结果不变。
"""
    WORDS = ("channels_last",)
    GROUPS = ("layout",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target that is not known to refuse the format."""
        row = target.api(_FORMAT)
        return () if row.status == "unknown" or row.use == _FORMAT else self.WORDS
