"""Attention of a CUDA package switched on by a setting: `flash_attention: true`, `--use_flash_attn True`.

The program imports flash-attn, xformers or sageattention for it and stops where they are not. Switched off, it takes
torch's own attention: the same result up to rounding; memory grows with the square of the sequence length where no
fused
kernel serves it. What the target has in place of each package is in its table.

Why: The program imports a CUDA package that does not exist on the target, and stops.

References:
- table packages
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
            "setting `{name}: {value}` requests the attention of `{package}`; turn it off on {target}",
            package=row.name,
            **values,
        )
        return Grade.UNSAFE, message
