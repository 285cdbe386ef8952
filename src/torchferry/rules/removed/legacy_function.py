"""An `autograd.Function` whose `forward` is not a static method.

torch 1.5 and later raise when such a function is called ("Legacy autograd function with non-static forward method").
Write `forward(ctx, ...)` and `backward(ctx, ...)` as static methods, store on `ctx` what was stored on `self`, and
call `MyFunction.apply(...)` instead of `MyFunction()(...)`. Arguments of the constructor become arguments of `apply`.

Why: Every call of the function raises with the torch of the target.

References:
- table versions
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.removed import torch_of
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.source.flow.syntax import last_name

_FUNCTION = frozenset(
    {
        "torch.autograd.Function",
        "torch.autograd.function.Function",
        "torch.autograd.InplaceFunction",
        "torch.autograd.function.InplaceFunction",
    }
)


class LegacyFunction(Rule):
    """Finds functions of autograd of the form that torch refuses since 1.5."""

    CODE = "TCH105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("static methods, called by `apply`"),)
    WORDS = ("Function",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each class."""
        for defined in context.file.classes:
            if not any(context.names.qualified(base) in _FUNCTION for base in defined.bases):
                continue
            for method in defined.body:
                if not isinstance(method, ast.FunctionDef) or method.name != "forward":
                    continue
                if any(last_name(decorator) in ("staticmethod", "classmethod") for decorator in method.decorator_list):
                    continue
                if _made_static(defined):
                    continue
                start, _ = context.file.span(defined)
                at = context.text.index(defined.name, start)
                message = say(
                    "`{name}` is a function of autograd whose `forward` is not a static method, which torch {torch} of "
                    "{target} refuses: make its methods static and call `{name}.apply(...)`",
                    name=defined.name,
                    torch=torch_of(context.target),
                    target=context.target.title,
                )
                yield self.finding(context, (at, at + len(defined.name)), message, Grade.MANUAL)


def _made_static(defined: ast.ClassDef) -> bool:
    """Whether the class makes it static behind its definition: `forward = staticmethod(forward)`."""
    return any(
        isinstance(statement, ast.Assign) and any(last_name(target) == "forward" for target in statement.targets)
        for statement in defined.body
    )
