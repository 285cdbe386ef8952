"""A method `cuda` that a class of the project defines.

Calls of `.cuda()` become the plugin's method name wherever the object may be a tensor or a module. An object of
this class may be among them, so the class gets the new name beside the old one: a line `npu = cuda` below the
method. Who calls `.cuda()` on it by name still can.

Why: A call under the plugin's name raises AttributeError if the class has only `cuda`.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.own_methods import class_defines

_MOVERS = frozenset({"cuda", "to", "_apply", "apply", "pin_memory"})


class OwnCudaMethod(Rule):
    """Finds definitions of `cuda` in classes."""

    CODE = "DEV109"
    EFFECT = Effect.RAISES
    WORDS = ("def cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each definition."""
        for function in context.file.functions:
            owner = context.file.parents.get(function)
            if function.name != "cuda" or not isinstance(owner, ast.ClassDef) or function.decorator_list:
                continue
            if not owner.bases and not _moves_something(function):
                continue
            yield from self._report(context, function, owner)

    def _report(
        self, context: PythonContext, function: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef
    ) -> Iterable[Finding]:
        span = context.file.span(function)
        head = (span[0], context.text.index("cuda", span[0]) + len("cuda"))
        mover = context.target.backend.MOVER
        if not isinstance(mover, str):
            if class_defines(owner, "to"):
                return
            message = say(
                "class `{name}` defines its own `cuda`; calls on objects that may be of this class "
                "became `.to(...)`, so the class needs that method too",
                name=owner.name,
            )
            effect = Effect.WRONG if owner.bases else Effect.RAISES  # a base may have one, which moves less
            yield self.finding(context, head, message, Grade.MANUAL, effect=effect)
            return
        if class_defines(owner, mover):
            return
        indent = context.text[context.source.starts[function.lineno - 1] : span[0]]
        if indent.strip():
            return
        message = say(
            "class `{name}` defines its own `cuda`; it gets the name `{mover}` too, because "
            "calls of `.cuda()` on its objects may have become `.{mover}()`",
            name=owner.name,
            mover=mover,
        )
        newline = context.source.newline
        edits = [Edit(span[1], span[1], f"{newline}{newline}{indent}{mover} = cuda")]
        yield self.finding(context, head, message, Grade.SAFE, edits)


def _moves_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method does what one that moves tensors does: it calls `cuda`, `to` or `_apply` of something."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVERS
        for node in ast.walk(function)
    )
