"""A name that may be one of `torch.cuda` and could not be resolved.

`from common import *` where `common` makes its names while it runs, a star import or an import by name from a package
that is not known (`from lab import torch`), a value that a function returned (`get_torch().cuda.synchronize()`), a
parameter, an attribute: where such an expression reads like a name of `torch.cuda`, it is reported, and no verdict says
that all is ready before somebody has looked.

Import torch by its name in the file, or write what the target has; a comment `# torchferry: ignore[CUD113] reason` says
that the place is right as it is.

Why: On a machine without CUDA such a place raises, or `is_available()` is false and the program goes on on the CPU,
without a word.

References:
- table api
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

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
        for part in (*context.file.attributes.get("cuda", ()), *context.file.names.get("cuda", ())):
            whole = _outermost(context, part)
            if not isinstance(part.ctx, ast.Load) or whole in resolved:
                continue
            reason = self._why(context, part)
            if reason is not None and exemption_reason(context, whole) is None:
                yield self.finding(context, context.file.span(whole), reason, Grade.MANUAL)

    def _why(self, context: PythonContext, part: ast.Name | ast.Attribute) -> Message | None:
        """Return what is not known of an expression that holds `cuda`; None where it is known to be something else."""
        chain = _inwards(part)
        root, before = chain[-1], chain[1] if len(chain) > 1 else None
        says_torch = _last_word(before) == _TORCH
        parent = context.file.parents.get(part)
        if _is_called(context, part):
            return None  # a method of that name is another rule's
        shown = parent if isinstance(parent, ast.Attribute) else part
        name = f"{cuda.NAMESPACE}.{parent.attr}" if isinstance(parent, ast.Attribute) else cuda.NAMESPACE
        is_name = cuda.api_group(name) not in ("unlisted", "namespace")
        is_call = is_name and _is_called(context, shown) and name.rpartition(".")[2] not in _COMMON_WORDS
        if not says_torch and not (is_name if before is None else is_call):
            return None
        text = context.file.text(shown)
        if not isinstance(root, ast.Name):
            return self._unresolved(text, name)
        unread = context.names.unread_stars(root)
        if unread:
            return say(
                "`{text}` is not resolved: `from {module} import *` was not read; if it is `{name}`, import torch "
                "here by its name",
                text=text,
                module=unread[0].lstrip("."),
                name=name,
            )
        if not context.names.bindings(root) and not hasattr(builtins, root.id):
            is_meant = says_torch or (before is None and is_call)
            return self._unbound(root.id, text, name) if is_meant else None
        origin = context.names.qualified(root if before is None else before)
        is_unread = origin is None or origin.endswith(f".{_TORCH}") or (is_call and _is_unread(context, origin))
        return self._unresolved(text, name) if is_unread and (says_torch or is_call) else None

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


def _is_unread(context: PythonContext, origin: str) -> bool:
    """Whether a name is taken from a module, and is neither a module itself nor of a package that is known."""
    if "." not in origin.lstrip(".") or cuda.package_of_module(origin.partition(".")[0]) is not None:
        return False
    return context.project is None or context.project.module_path(origin, context.path) is None


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
