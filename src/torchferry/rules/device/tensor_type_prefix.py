"""A tensor's type name compared with CUDA's: `x.type().startswith("torch.cuda")`, `"torch.cuda" in x.type()`.

On the target the name begins with another word, so the result is silently False. Compare the device instead:
`x.device.type`.

Why: The answer is silently False, and code for the card runs as on the CPU.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.cuda_tensor_type import SAMPLE
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in

_PREFIXES = ("torch.cuda", "torch.cuda.")
_CHANGING = frozenset({"replace", "removeprefix", "split", "partition"})
"""Methods that put one beginning in the place of another, or take it away."""


class TensorTypePrefix(Rule):
    """Finds questions for the prefix of a tensor type's name."""

    CODE = "DEV111"
    EFFECT = Effect.WRONG
    BINDS = True
    WORDS = ("torch.cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string that a type's name is asked for."""
        for node in context.file.strings:
            if node.value not in _PREFIXES or not _asks(context, node) or exemption_reason(context, node) is not None:
                continue
            row = context.target.api(SAMPLE)
            span = literal_span(context, node)
            prefix = row.use.rpartition(".")[0] if row.status in REWRITTEN else ""
            if not prefix or not row.use.endswith(".FloatTensor") or context.target.module:
                message = say(
                    "names of tensor types begin differently on {target}: compare `device.type` with `{device}`",
                    target=context.target.title,
                    device=context.target.backend.DEVICE_TYPE,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            message = say(
                "names of tensor types begin with `{use}` on {target}", use=prefix, target=context.target.title
            )
            try:
                edits = word_edits(context, node, "torch.cuda", prefix)
            except ValueError:
                edits = []
            yield self.finding(context, span, message, Grade.SAFE if edits else Grade.MANUAL, edits)


def _asks(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a string is what the name of a type is compared with."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Call) and node in parent.args:
        if not isinstance(parent.func, ast.Attribute):
            return False
        method, owner = parent.func.attr, parent.func.value
        return method in ("startswith", "find", "count") or (method in _CHANGING and _is_name_of_type(context, owner))
    return isinstance(parent, ast.Compare) and parent.left is node and isinstance(parent.ops[0], (ast.In, ast.NotIn))


def _is_name_of_type(context: PythonContext, expression: ast.expr) -> bool:
    """Whether an expression is what `x.type()` returned, right there or in a variable."""
    bindings = context.names.bindings(expression) if isinstance(expression, ast.Name) else ()
    values = (expression, *(assigned_value(context.file, binding) for binding in bindings))
    calls = (part for value in values if value is not None for part in nodes_in(value) if isinstance(part, ast.Call))
    return any(last_name(call) == "type" for call in calls)
