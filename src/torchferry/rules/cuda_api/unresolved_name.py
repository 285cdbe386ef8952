"""A name that may be one of `torch.cuda`, and nobody could tell what it is.

`from common import *` where `common` makes its names while it runs, a star import of a package that is not known, a
value that a function returned (`get_torch().cuda.synchronize()`), a parameter, an attribute: where the names behind it
read like those of `torch.cuda`, the place is told, and no verdict says that all is ready before somebody has looked.

Import torch by its name in the file, or write what the target has; a comment `# torchferry: ignore` says that the place
is right as it is.

Why: On a machine without CUDA such a place raises, or `is_available()` is false and the program goes on on the CPU,
without a word.

References:
- table api
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect

_TORCH = "torch"

_COMMON_WORDS = frozenset({"device", "Device", "Stream", "Event", "init", "stream", "random", "memory", "streams"})
"""Last names of `torch.cuda` that other libraries and options have too: `args.cuda.device`, `ctx.cuda.Stream()`."""


class UnresolvedName(Rule):
    """Finds what reads like a name of `torch.cuda` and begins with a name that was not resolved."""

    CODE = "CUD113"
    EFFECT = Effect.UNKNOWN
    WORDS = (".cuda", "cuda.")
    UNDER_REDIRECT = UnderRedirect.NOTHING
    BINDS = True
    UNRESOLVED = True

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each such expression."""
        resolved = {reference.node for reference in context.names.references(_TORCH)}
        for part in _cuda_parts(context):
            member = context.file.parents[part]
            if not isinstance(member, ast.Attribute) or cuda.api_group(f"{cuda.NAMESPACE}.{member.attr}") == "unlisted":
                continue
            whole = _outermost(context, member)
            reason = None if whole in resolved else self._why(context, part, member)
            if reason is not None and exemption_reason(context, whole) is None:
                yield self.finding(context, context.file.span(whole), reason, Grade.MANUAL)

    def _why(self, context: PythonContext, part: ast.Name | ast.Attribute, member: ast.Attribute) -> Message | None:
        """Return what is not known of an expression `….cuda.name`; None where it is known to be something else."""
        chain = _inwards(part)
        root = chain[-1]
        before = chain[1] if len(chain) > 1 else None
        says_torch = _last_word(before) == _TORCH
        name = f"{cuda.NAMESPACE}.{member.attr}"
        text = context.file.text(member)
        is_call = _is_called(context, member) and member.attr not in _COMMON_WORDS
        if isinstance(root, ast.Name):
            bindings = context.names.bindings(root)
            unread = context.names.unread_stars(root)
            if unread and (is_call or says_torch or before is None):
                return say(
                    "`{text}` is not resolved: `from {module} import *` was not read; if it is `{name}`, import torch "
                    "here by its name",
                    text=text,
                    module=unread[0].lstrip("."),
                    name=name,
                )
            if not bindings and not hasattr(builtins, root.id):
                is_meant = says_torch or (before is None and is_call)
                return self._unbound(root.id, text, name) if is_meant else None
            origin = context.names.qualified(root)
            if origin is not None:
                is_passed_on = says_torch and before is not root
                return self._unresolved(text, name) if is_passed_on else None
        return self._unresolved(text, name) if says_torch or is_call else None

    @staticmethod
    def _unbound(identifier: str, text: str, name: str) -> Message:
        return say(
            "`{text}` is not resolved: nothing in this file binds `{identifier}`; if it is `{name}`, import torch here",
            text=text,
            identifier=identifier,
            name=name,
        )

    @staticmethod
    def _unresolved(text: str, name: str) -> Message:
        return say("`{text}` is not resolved; if it is `{name}`, import torch here by its name", text=text, name=name)


def _cuda_parts(context: PythonContext) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the parts `cuda` of expressions that go on behind it."""
    for part in (*context.file.attributes.get("cuda", ()), *context.file.names.get("cuda", ())):
        if isinstance(part.ctx, ast.Load) and isinstance(context.file.parents.get(part), ast.Attribute):
            yield part


def _inwards(node: ast.expr) -> list[ast.expr]:
    """Return an expression and what its attributes are taken of, down to what is no attribute."""
    chain = [node]
    while isinstance(inner := chain[-1], ast.Attribute):
        chain.append(inner.value)
    return chain


def _outermost(context: PythonContext, node: ast.expr) -> ast.expr:
    while isinstance(parent := context.file.parents.get(node), ast.Attribute):
        node = parent
    return node


def _last_word(node: ast.expr | None) -> str:
    """Return the last name of an expression, underscores around it and the brackets of a call left out."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.strip("_").removeprefix("get_").removeprefix("import_")


def _is_called(context: PythonContext, node: ast.expr) -> bool:
    parent = context.file.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
