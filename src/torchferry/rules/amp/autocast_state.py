"""The state of autocast, queried or set for CUDA.

`torch.get_autocast_gpu_dtype()`, `torch.set_autocast_gpu_dtype()` and `torch.is_autocast_enabled()` without a device
type are for CUDA: on the target they return the state of a device that does not exist.

Why: The program sees that autocast is off or has another dtype, and takes the wrong branch.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext
from torchferry.rules.device.expressions import device_type, portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.references import ReferenceRule, attribute_span
from torchferry.source.names import Reference

_WITH_DEVICE = {
    "torch.get_autocast_gpu_dtype": "get_autocast_dtype",
    "torch.set_autocast_gpu_dtype": "set_autocast_dtype",
    "torch.is_autocast_enabled": "is_autocast_enabled",
    "torch.set_autocast_enabled": "set_autocast_enabled",
}
"""The functions that take the device type as their first argument (torch 2.4 and later)."""


class AutocastState(ReferenceRule):
    """Finds autocast state functions that mean CUDA."""

    CODE = "AMP103"
    EFFECT = Effect.WRONG
    ANSWERS = (say("name the device type of the target"),)
    UNDER_REDIRECT = UnderRedirect.NOTHING
    BINDS = False
    WORDS = ("autocast_gpu_dtype", "is_autocast_enabled", "set_autocast_enabled")
    GROUPS = ("autocast",)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield a finding for a call that names no device type."""
        call = context.file.parents.get(reference.node)
        function = _WITH_DEVICE[reference.name]
        enough = 1 if function.startswith("set_") else 0
        if not isinstance(call, ast.Call) or call.func is not reference.node or len(call.args) > enough:
            return
        if exemption_reason(context, call) is not None or call.keywords:
            return
        if context.target.backend.AUTOCAST is False:
            return  # AMP104
        if context.target.api(reference.name).status == "equivalent":
            return  # the plugin's own speaks of its device
        device = device_type(context)
        message = say(
            "`{found}` is for CUDA; on {target} use `torch.{function}({device}...)`",
            found=reference.name,
            target=context.target.title,
            function=function,
            device=device,
        )
        span = context.file.span(call)
        if not isinstance(reference.node, ast.Attribute) or context.file.fstring_of(call) is not None:
            yield self.finding(context, span, message, Grade.MANUAL)
            return
        start, end = attribute_span(context, reference.node)
        behind = context.text.index("(", end) + 1
        text = device + (", " if call.args else "")
        edits = [Edit(behind, behind, text)]
        if context.text[start:end] != function:
            edits.append(Edit(start, end, function))
        yield self.finding(context, span, message, Grade.SAFE, edits, imports=portable_imports(context))
