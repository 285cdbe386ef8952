"""A switch that turns on memory-efficient attention of xformers or flash-attn.

`pipe.enable_xformers_memory_efficient_attention()`, `set_use_memory_efficient_attention(True, False)`: without the
package the call raises. Without the switch, the model uses plain attention or torch's own fused one: the result is the
same up to rounding, and memory grows with the square of the sequence length.

Why: The call raises where the package is absent. It only saves memory, so the model can run without it.

References:
- table frameworks
- table packages
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import is_guarded

_SWITCHES = {
    "enable_xformers_memory_efficient_attention": "xformers",
    "set_use_memory_efficient_attention_xformers": "xformers",
    "set_use_memory_efficient_attention": "xformers",
    "enable_flash_attn": "flash-attn",
    "replace_llama_attn_with_flash_attn": "flash-attn",
}


class MemoryEfficientSwitch(Rule):
    """Finds calls that turn on memory-efficient attention."""

    CODE = "ATT103"
    EFFECT = Effect.RAISES
    WORDS = ("memory_efficient_attention", "flash_attn")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that turns it on."""
        for method, package in _SWITCHES.items():
            row = context.target.row("packages", package)
            if row.status == "same":
                continue
            for call in calls_of(context, method):
                turned_on = [
                    argument
                    for argument in (*call.args, *(keyword.value for keyword in call.keywords))
                    if isinstance(argument, ast.Constant) and argument.value is True
                ]
                if (call.args or call.keywords) and not turned_on:
                    continue
                if exemption_reason(context, call) is not None:
                    continue
                yield self._report(context, call, turned_on, package)

    def _report(self, context: PythonContext, call: ast.Call, turned_on: list[ast.Constant], package: str) -> Finding:
        span = context.file.span(call)
        message = say(
            "enables attention of {package}, which does not run on {target}; without it the "
            "result is the same up to rounding, and memory grows with the square of the sequence "
            "length",
            package=package,
            target=context.target.title,
        )
        edits = [Edit(*context.file.span(argument), "False") for argument in turned_on]
        statement = context.file.parents.get(call)
        if not edits and isinstance(statement, ast.Expr):
            edits = [Edit(*span, "pass")]
        grade = Grade.UNSAFE if edits else Grade.MANUAL
        if grade is Grade.MANUAL and is_guarded(context, call):
            return self.finding(context, span, message, Grade.NOTE, effect=Effect.SLOW)
        return self.finding(context, span, message, grade, edits)
