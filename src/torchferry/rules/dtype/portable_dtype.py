"""bfloat16 in code for every device, with `--dtype auto`: the best dtype that the device computes itself.

`migrate --style portable --dtype auto` writes `device_utils.preferred_dtype()` in place of `torch.bfloat16` where a
model or a tensor is made or moved: `torch_dtype=torch.bfloat16`, `.to(device, torch.bfloat16)`, or a variable `dtype`.
It is the first of bfloat16, float16 and float32 that the device computes itself, and float32 on the CPU. Without the
option nothing changes, since another dtype is another result. A comparison with `torch.bfloat16` is for you to decide,
and so is autocast, which is left as it is.

Why: A device without bfloat16 refuses it, or emulates it with another range.

References:
- page device-manager
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_of
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.device.strings import argument_of, call_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.random.portable_generator import writes_manager
from torchferry.source.flow.syntax import last_name

_NAMED = lazy_regex(r"(?:\A|_)dtype\Z", re.IGNORECASE)
"""Names of arguments and variables that say in which dtype something is made."""


class PortableDtype(Rule):
    """Finds bfloat16 where a model or a tensor is made or moved."""

    CODE = "DTY103"
    EFFECT = Effect.RAISES
    WORDS = ("bfloat16",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing without `--dtype auto`."""
        return self.WORDS if options.dtype == "auto" and writes_manager(target) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each place, and for each comparison."""
        use = f"{context.target.module}.preferred_dtype()"
        for call in calls_of(context, "bfloat16") if context.names.references("torch") else ():
            if isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
                span = (context.file.span(call.func.value)[1], context.file.span(call)[1])
                if exemption_reason(context, call) is None and "#" not in context.text[slice(*span)]:
                    message = say("`{found}` is `{use}` on every device", found=".bfloat16()", use=f".to({use})")
                    edits = [Edit(*span, f".to({use})")]
                    yield self.finding(context, span, message, Grade.SAFE, edits, imports=portable_imports(context))
        for reference in context.names.references("torch"):
            node = reference.node
            if reference.name != "torch.bfloat16" or not isinstance(node, ast.expr) or last_name(node) != "bfloat16":
                continue
            if exemption_reason(context, node) is not None:
                continue
            span = context.file.span(node)
            parent = context.file.parents.get(node)
            if isinstance(parent, ast.Compare):
                message = say(
                    "something is compared with `{found}`, and with `--dtype auto` it may be another dtype",
                    found="torch.bfloat16",
                )
                yield self.finding(context, span, message, Grade.MANUAL)
            elif _is_place(context, node):
                message = say("`{found}` is `{use}` on every device", found="torch.bfloat16", use=use)
                try:
                    edits = call_edits(context, node, use)
                except ValueError:
                    yield self.finding(context, span, message, Grade.MANUAL)
                    continue
                yield self.finding(context, span, message, Grade.SAFE, edits, imports=portable_imports(context))


def _is_place(context: PythonContext, node: ast.expr) -> bool:
    """Whether a dtype is given where something is made or moved, or kept under the name of a dtype."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Call):
        return node in parent.args and last_name(parent.func) == "to"
    if isinstance(parent, ast.keyword):
        call = context.file.parents.get(parent)
        called = last_name(call.func) if isinstance(call, ast.Call) else ""
        return bool(parent.arg and _NAMED.search(parent.arg)) and "autocast" not in called
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return all(_NAMED.search(last_name(target)) is not None for target in targets)
    return isinstance(parent, ast.arguments) and _NAMED.search(argument_of(parent, node)) is not None
