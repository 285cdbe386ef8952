"""Attention of a CUDA package switched on by a setting: `flash_attention: true`, `--use_flash_attn True`.

The program imports flash-attn, xformers or sageattention for it and stops where they are not. Switched off, it takes
torch's own attention: the same result up to rounding; memory grows with the square of the sequence length where no
fused
kernel serves it. What the target has in place of each package is in its table.
"""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say
from torchferry.rules.config.switches import SwitchRule, plain


class AttentionSetting(SwitchRule):
    """Finds settings that switch on attention of a CUDA package."""

    CODE = "CFG106"
    CHINESE = """通过设置启用 CUDA 软件包的注意力：`flash_attention: true`、`--use_flash_attn True`。

程序会因此导入 flash-attn、xformers 或 sageattention，没有时便会中止。关闭后使用 torch 自带的注意力：
结果在舍入误差内一致；
没有融合核函数时，显存占用随序列长度的平方增长。各软件包在目标平台上的替代见其表。
"""
    ROLE = "attention"

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Name what the library takes on the target, or switch it off."""
        values = plain(name, value, target)
        if row.name.startswith("transformers."):
            if row.status == "same":
                return Grade.NOTE, say("setting `{name}: {value}` on {target}", **values)
            message = say("setting `{name}: {value}` is `{use}` on {target}", use=row.use or "UNKNOWN", **values)
            return Grade.UNSAFE, message
        message = say(
            "setting `{name}: {value}` asks for the attention of `{package}`; on {target} switch it off",
            package=row.name,
            **values,
        )
        return Grade.UNSAFE, message
