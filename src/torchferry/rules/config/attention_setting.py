"""Attention of a CUDA package enabled by a setting: `flash_attention: true`, `--use_flash_attn True`.

The program imports flash-attn, xformers or sageattention for this, and stops if they are absent. Without the setting
it uses torch's own attention: the result is the same up to rounding, and memory grows with the square of the sequence
length if there is no fused kernel. The target's table has the replacement of each package.

Why: The program imports a CUDA package that does not exist on the target, and stops.

References:
- table packages
"""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.config.switches import SwitchRule, plain


class AttentionSetting(SwitchRule):
    """Finds settings that switch on attention of a CUDA package."""

    CODE = "CFG106"
    EFFECT = Effect.RAISES
    ROLE = "attention"

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Name what the library takes on the target, or switch it off."""
        values = plain(name, value, target)
        if row.name.startswith("transformers."):
            if row.status == "same":
                return Grade.NOTE, say("setting `{name}: {value}` stays as it is on {target}", **values)
            message = say("setting `{name}: {value}` is `{use}` on {target}", use=row.use or "UNKNOWN", **values)
            return Grade.UNSAFE, message
        message = say(
            "setting `{name}: {value}` requests the attention of `{package}`; turn it off on {target}",
            package=row.name,
            **values,
        )
        return Grade.UNSAFE, message
