"""A choice between the accelerator and the CPU that a portable name makes by itself.

In code for every device (`migrate --style portable`), `"cuda" if torch.cuda.is_available() else "cpu"` becomes
`device_string() if is_available() else "cpu"`. Without an accelerator `device_string()` is `cpu` already, so the
condition decides nothing and is removed. So is one whose two sides have become the same.

Why: The condition no longer decides anything. It makes the code harder to read.

References:
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.source.nodes import nodes_in

_SAME_WITHOUT = {
    "device_string": lazy_regex(r"""\A["']cpu["']\Z"""),
    "load_location": lazy_regex(r"""\A(?:["']cpu["']|torch\.device\(["']cpu["']\))\Z"""),
    "this_device": lazy_regex(r"""\Atorch\.device\(["']cpu["']\)\Z"""),
    "collective_backend": lazy_regex(r"""\A["']gloo["']\Z"""),
}
"""Portable names, and how the other side is written that each equals where there is no accelerator."""

_PLAIN = (ast.Constant, ast.Name, ast.Attribute, ast.Load)
"""What an argument is made of that can be evaluated without an accelerator too."""

_QUIET = (*_PLAIN, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.boolop, ast.unaryop, ast.cmpop)


class PortableChoice(Rule):
    """Finds conditional expressions that have become pointless."""

    CODE = "DEV113"
    EFFECT = Effect.NOTHING
    WORDS = ("is_available", *_SAME_WITHOUT)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where one vendor's code is written."""
        return self.WORDS if target.module else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each condition that can go."""
        asked: set[ast.AST] = set()
        for name in ("is_available", *_SAME_WITHOUT):
            for node in context.file.attributes.get(name, ()):
                choice = _choice_around(context, node)
                if choice is None or choice in asked:
                    continue
                asked.add(choice)
                if _is_pointless(context, choice):
                    span = context.file.span(choice)
                    body = context.file.text(choice.body)
                    message = say("`{use}` is the same with and without the condition", use=body)
                    yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, body)])


def _choice_around(context: PythonContext, node: ast.AST) -> ast.IfExp | None:
    child: ast.AST | None = node
    while isinstance(child, ast.expr):
        if isinstance(child, ast.IfExp):
            return child
        child = context.file.parents.get(child)
    return None


def _is_pointless(context: PythonContext, choice: ast.IfExp) -> bool:
    module = f"{context.target.module}."
    test, body, otherwise = (context.file.text(part) for part in (choice.test, choice.body, choice.orelse))
    if body == otherwise:
        return module in body and all(
            isinstance(node, _QUIET) or (isinstance(node, ast.Call) and context.file.text(node.func).startswith(module))
            for node in nodes_in(choice.test)
        )
    if test != f"{module}is_available()":
        return False
    inner = choice.body
    if isinstance(inner, ast.Call) and context.names.qualified(inner.func) == "torch.device" and len(inner.args) == 1:
        return (
            not inner.keywords
            and _same_without(context, inner.args[0], '"cpu"')
            and _SAME_WITHOUT["this_device"].match(otherwise) is not None
        )
    return _same_without(context, inner, otherwise)


def _same_without(context: PythonContext, call: ast.expr, otherwise: str) -> bool:
    """Whether a call of a portable name is, without an accelerator, what is written on the other side."""
    if not isinstance(call, ast.Call) or call.keywords:
        return False
    owner, _, name = context.file.text(call.func).rpartition(".")
    if owner != context.target.module or name not in _SAME_WITHOUT:
        return False
    plain = all(isinstance(node, _PLAIN) for argument in call.args for node in nodes_in(argument))
    return plain and _SAME_WITHOUT[name].match(otherwise) is not None
