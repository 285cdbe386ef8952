"""Compilation enabled by a setting: `torch_compile: true`, `compile = True` at the top of a training script.

The setting enables `torch.compile`, whose backend inductor writes Triton code for CUDA cards. The target's table has
the replacement: nothing, a backend that must be named, or the plugin's own inductor.

Why: The first step of the model raises if the target has no compiler backend of this name.

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
from torchferry.rules.config.switches import SwitchRule, plain
from torchferry.source.flow.syntax import last_name


class CompileSetting(SwitchRule):
    """Finds settings that switch compilation on."""

    CODE = "CFG105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("turn compiling off"),)
    ROLE = "compile"

    def is_meant(self, context: PythonContext, name: str, in_call: bool, value: ast.Constant) -> bool:
        """Whether the file compiles a model with torch, or hands the setting to transformers."""
        if in_call:
            keyword = context.file.parents.get(value)
            call = context.file.parents.get(keyword)  # type: ignore[arg-type]
            if isinstance(call, ast.Call) and last_name(call.func).endswith("TrainingArguments"):
                return name == "torch_compile"
        return any(
            context.names.qualified(node) == "torch.compile" for node in context.file.attributes.get("compile", ())
        )

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Switch it off where the target has nothing like it."""
        values = plain(name, value, target)
        if row.status == "missing":
            message = say(
                "setting `{name}: {value}` compiles with torch.compile, which {target} does not have", **values
            )
            return Grade.UNSAFE, message
        if row.status == "unknown":
            message = say(
                "setting `{name}: {value}` compiles with torch.compile; whether it supports {target} is UNKNOWN",
                **values,
            )
            return Grade.MANUAL, message
        message = say("setting `{name}: {value}` compiles with torch.compile; check this first on {target}", **values)
        return Grade.NOTE, message
