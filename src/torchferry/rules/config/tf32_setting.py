"""TF32 enabled by a setting: `tf32: true` in a configuration, `tf32: bool = True` in a class of arguments.

transformers raises without an NVIDIA card of the Ampere generation, before the first step. Without the setting nothing
else changes: the target has its own matrix units with their own rules.

Why: Training stops before the first step, although the setting only affects speed.

References:
- table frameworks
"""

from __future__ import annotations

import ast

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext
from torchferry.rules.config.device_setting import CONFIG_KINDS
from torchferry.rules.config.switches import SwitchRule, plain
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind


class Tf32Setting(SwitchRule):
    """Finds settings that ask for TF32."""

    CODE = "CFG104"
    EFFECT = Effect.RAISES
    ROLE = "tf32"
    KINDS = (Kind.PYTHON, *CONFIG_KINDS)  # SHL104 speaks of `--tf32 True`

    def is_meant(self, context: PythonContext, name: str, in_call: bool, value: ast.Constant) -> bool:
        """Whether it is no argument of transformers itself, of which LIB104 speaks."""
        keyword = context.file.parents.get(value)
        call = context.file.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
        return not (in_call and isinstance(call, ast.Call) and last_name(call.func).endswith("TrainingArguments"))

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Switch it off."""
        message = say(
            "setting `{name}: {value}` enables TF32 of an NVIDIA card; turn it off on {target}",
            **plain(name, value, target),
        )
        return Grade.UNSAFE, message
