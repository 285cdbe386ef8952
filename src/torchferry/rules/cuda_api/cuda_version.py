"""The CUDA version that torch was built with.

`torch.version.cuda` is None in the torch that runs on the target. Printing it is harmless. Parsing it
(`torch.version.cuda.split(".")`) raises, and a comparison takes the branch for an old CUDA.

Why: Code that parses the version raises. Code that compares it takes the branch for an old CUDA.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_of_reading


class CudaVersion(Rule):
    """Finds reads of `torch.version.cuda`."""

    CODE = "CUD109"
    EFFECT = Effect.WRONG
    ANSWERS = (say("check for the feature, not the version"),)
    BINDS = True
    WORDS = ("version.cuda", "torch.version", "CUDNN_TENSOR_DTYPES")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each read: manual where None would raise or choose a branch."""
        for reference in context.references.get("version", ()):
            if reference.is_import:
                continue
            node = reference.node
            parent = context.file.parents.get(node)
            span = context.file.span(node)
            exemption = exemption_of_reading(context, node)
            if exemption is not None:
                message = say("`{found}` is left as it is: {reason}", found=reference.name, reason=exemption.reason)
                yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            elif not reference.name.startswith("torch.version.cuda") or (
                reference.name == "torch.version.cuda" and self._is_shown(parent)
            ):
                message = say("`{found}` is None on {target}", found="torch.version.cuda", target=context.target.title)
                yield self.finding(context, span, message, Grade.NOTE, effect=Effect.NOTHING)
            else:
                message = say(
                    "`torch.version.cuda` is None on {target}, but this code needs a version; use {plugin}'s",
                    target=context.target.title,
                    plugin=context.target.backend.PLUGIN,
                )
                yield self.finding(context, span, message, Grade.MANUAL)

    def _is_shown(self, parent: ast.AST | None) -> bool:
        """Whether the value is only shown or stored, or tested for None."""
        if isinstance(parent, ast.Compare):
            return all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
        return not isinstance(parent, (ast.Call, ast.Attribute, ast.Subscript)) or (
            isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in ("print", "str")
        )
