"""A random generator on the device, for a target that has none.

`torch.Generator("cuda")` creates a generator on the card. If a plugin has no device generator, generate on the CPU and
move the result: `torch.randn(..., generator=torch.Generator()).to(device)`. The numbers differ from those of a CUDA
card in both cases.

Why: Creating the generator raises.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of


class GeneratorOnDevice(Rule):
    """Finds generators on the device."""

    CODE = "RNG102"
    EFFECT = Effect.RAISES
    WORDS = ("Generator",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each generator that is given a device other than the CPU."""
        has_generator = context.target.backend.DEVICE_GENERATOR
        if has_generator is True:
            return
        for name, call in calls_to(context):
            if name != "torch.Generator":
                continue
            keyword = keyword_of(call, "device")
            device = call.args[0] if call.args else keyword.value if keyword is not None else None
            if device is None or (isinstance(device, ast.Constant) and device.value == "cpu"):
                continue
            effect = self.EFFECT
            if has_generator is UNKNOWN:
                effect = Effect.UNKNOWN
                message = say(
                    "whether {target} has device generators is UNKNOWN; if not, generate on the CPU and "
                    "move the result",
                    target=context.target.title,
                )
            else:
                message = say(
                    "{target} has no device generator: generate on the CPU and move the result",
                    target=context.target.title,
                )
            yield self.finding(context, context.file.span(call), message, Grade.MANUAL, effect=effect)
