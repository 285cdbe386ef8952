"""A `Variable` made with `volatile=True`, which torch ignores since 0.4.

It prevented the graph. Today every evaluation keeps the graph in the card's memory. Put the evaluation inside `with
torch.no_grad():`.

Why: The program keeps graphs that it does not need, and may run out of memory on the card.

References:
- table versions
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule


class VolatileInput(Rule):
    """Finds `Variable(x, volatile=True)`."""

    CODE = "TCH107"
    EFFECT = Effect.SLOW
    WORDS = ("volatile",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        for keyword in context.file.keywords.get("volatile", ()):
            call = context.file.parents.get(keyword)
            if not isinstance(call, ast.Call) or not (isinstance(keyword.value, ast.Constant) and keyword.value.value):
                continue
            if (context.names.qualified(call.func) or "") not in (
                "torch.autograd.Variable",
                "torch.autograd.variable.Variable",
            ):
                continue
            message = say(
                "`volatile=True` has had no effect since torch 0.4: the graph is kept and uses "
                "memory of the card; evaluate inside `with torch.no_grad():`"
            )
            yield self.finding(context, context.file.span(keyword), message, Grade.NOTE)
