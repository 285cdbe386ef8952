"""A use of `torch.accelerator` on a target whose device it does not support.

`torch.accelerator.current_accelerator()` returns the device of a plugin that extends torch under its own name
(PrivateUse1). torch has the module since version 2.6, and it does not know device types that torch itself defines,
such as XLA. With an older torch, or on such a target, the program fails or silently uses the CPU.

torchferry replaces the call by the function of the plugin. Some functions need more support from a plugin than its
name. Where nobody has verified that the plugin has it, the call is reported.

A function that works on the target is not reported: such code needs no migration.

Why: The program fails with an older torch, or silently runs on the CPU.

References:
- table api
- torch 2.5.0 and 2.6.0: torch/accelerator is new in 2.6
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext
from torchferry.rules.device.expressions import device_expression, quoted_for
from torchferry.rules.exemptions import exemption_for, exemption_reason
from torchferry.rules.references import ReferenceRule, missing, replaced
from torchferry.source.names import Reference

_CURRENT = "torch.accelerator.current_accelerator"


class Accelerator(ReferenceRule):
    """Finds uses of `torch.accelerator` that do not work on the target as they are."""

    CODE = "DEV110"
    EFFECT = Effect.RAISES
    WORDS = ("accelerator",)
    GROUPS = ("accelerator",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target where all of it works."""
        names = cuda.groups("api")["accelerator"].names
        return self.WORDS if any(target.api(name).status != "same" for name in names) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for each import of what is not there; other imports are `IMP102`'s."""
        yield from super().check_python(context)
        for reference in context.references.get("accelerator", ()):
            row = context.target.api(reference.name)
            if reference.is_import and row.status == "missing" and exemption_reason(context, reference.node) is None:
                message = missing(context, reference.name, row)
                yield self.finding(context, context.file.span(reference.node), message, Grade.MANUAL)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield what the target's table says of one use, where it is not the same there."""
        row = context.target.api(reference.name)
        if row.status == "same":
            return
        if row.status == "unknown":
            if exemption_reason(context, reference.node) is None:
                message = say(
                    "whether `{found}` works on {target} is UNKNOWN; try it on the card",
                    found=reference.name,
                    target=context.target.title,
                )
                span = context.file.span(reference.node)
                is_first = reference is self._first_unverified(context)  # one decision for a file
                grade = Grade.MANUAL if is_first else Grade.NOTE
                yield self.finding(context, span, message, grade, effect=Effect.UNKNOWN)
            return
        if reference.name == _CURRENT and row.status != "missing":
            yield self._current(context, reference)
            return
        yield from super().check_reference(context, reference)

    def _first_unverified(self, context: PythonContext) -> Reference | None:
        """Return the first use of which nobody has verified that it works, of those that do not stay on purpose."""
        uses = [
            reference
            for reference in context.references.get("accelerator", ())
            if not reference.is_import and context.target.api(reference.name).status == "unknown"
        ]
        uses.sort(key=lambda reference: (reference.node.lineno, reference.node.col_offset))
        return next((use for use in uses if exemption_reason(context, use.node) is None), None)

    def _current(self, context: PythonContext, reference: Reference) -> Finding:
        """Write the device itself in place of the question which it is."""
        call = context.file.parents.get(reference.node)
        span = context.file.span(reference.node)
        exemption = exemption_for(context, reference.node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=reference.name, reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        message = replaced(context, reference.name, context.target.api(reference.name))
        device, imports = device_expression(context)
        written = quoted_for(context, reference.node, device)
        called = isinstance(call, ast.Call) and call.func is reference.node and not call.args and not call.keywords
        if not called or written is None:
            return self.finding(context, span, message, Grade.MANUAL)
        assert isinstance(call, ast.Call)
        whole = context.file.span(call)
        return self.finding(context, whole, message, Grade.SAFE, [Edit(*whole, written)], imports=imports)
