"""A test of `.is_cuda` on a tensor, a parameter or a storage.

`x.is_cuda` is False for a tensor on the target, so the branch meant for the card is silently skipped. It becomes
the plugin's own property, or a comparison of `x.device.type` where the plugin has none and in code that TorchScript
compiles, which knows no property of a plugin's.

A test that chooses a compiled CUDA kernel stays as it is: on the target that kernel does not exist, and the branch
without it is the one to run. Such places are listed, because a ported kernel would make them fast again.

Why: The test is False on the card, so the code for the card is silently skipped.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import device_type, portable_imports, quoted_for
from torchferry.rules.device.own_methods import is_library_name, receiver_owns
from torchferry.rules.device.receivers import may_be_packed_sequence
from torchferry.rules.device.torchscript import is_scripted
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import attribute_span

_NEEDS_NO_PARENTHESES = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assign, ast.Return, ast.Assert, ast.keyword)


class IsCuda(Rule):
    """Finds reads of `.is_cuda`."""

    CODE = "DEV104"
    EFFECT = Effect.WRONG
    RUNS_ON_DEVICE = False
    BINDS = True
    WORDS = ("is_cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each read."""
        for node in context.file.attributes.get("is_cuda", ()):
            qualified = context.names.qualified(node)
            foreign = qualified is not None and not qualified.startswith("torch.") and is_library_name(context, node)
            if not isinstance(node.ctx, ast.Load) or foreign or receiver_owns(context, node.value, "is_cuda"):
                continue
            yield self._report(context, node)

    def _report(self, context: PythonContext, node: ast.Attribute) -> Finding:
        try:
            start, end = attribute_span(context, node)
            whole = context.file.span(node)
        except ValueError:
            message = say("`.is_cuda` cannot be rewritten here; change it by hand")
            return self.finding(context, context.file.span(context.file.statement(node)), message, Grade.MANUAL)
        exemption = exemption_for(context, node)
        if exemption is not None:
            return self.finding(
                context,
                whole,
                say("`.is_cuda` is left as it is: {reason}", reason=exemption.reason),
                Grade.NOTE,
                stays=exemption.kind,
            )
        predicate = context.target.backend.PREDICATE
        scripted = is_scripted(context, node)
        if isinstance(predicate, str) and not scripted:
            message = say("`.is_cuda` is `.{predicate}` on {target}", predicate=predicate, target=context.target.title)
            return self.finding(context, whole, message, Grade.SAFE, [Edit(start, end, predicate)])
        comparison = f"device.type == {device_type(context)}"
        if may_be_packed_sequence(context, node.value):
            comparison = f"data.{comparison}"
        message = say("`.is_cuda` is `.{comparison}` on {target}", comparison=comparison, target=context.target.title)
        written = quoted_for(context, node, comparison)
        if written is None:
            return self.finding(context, whole, message, Grade.MANUAL)
        edits = [Edit(start, end, written)]
        if not isinstance(context.file.parents.get(node), _NEEDS_NO_PARENTHESES):
            edits = [Edit(whole[0], whole[0], "("), Edit(start, end, written + ")")]
        return self.finding(context, whole, message, Grade.SAFE, edits, imports=portable_imports(context))
