"""A `GradScaler` created without a device.

`torch.amp.GradScaler()` is for CUDA by default. On the target it only warns that CUDA is absent and scales nothing.
The device is added as an argument.

Why: Without scaling, small float16 gradients become zero. The model trains worse, and only a warning says why.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to
from torchferry.rules.device.expressions import device_type, portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect

_SCALERS = frozenset({"torch.amp.GradScaler", "torch.GradScaler", "torch.amp.grad_scaler.GradScaler"})


class ScalerWithoutDevice(Rule):
    """Finds `torch.amp.GradScaler` without a device."""

    CODE = "AMP102"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = ("GradScaler",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for name, call in calls_to(context):
            if name not in _SCALERS:
                continue
            if call.args or any(keyword.arg in ("device", None) for keyword in call.keywords):
                continue
            if exemption_reason(context, call) is not None:
                continue
            if context.target.backend.AUTOCAST is False:
                continue  # AMP104
            device = device_type(context)
            message = say(
                "`{found}` without a device is for CUDA; on {target} pass `{device}`",
                found=name,
                target=context.target.title,
                device=device,
            )
            _, name_end = context.file.span(call.func)
            start, end = context.file.span(call)
            behind = context.text.index("(", name_end) + 1
            text = device + (", " if call.keywords else "")
            grade = Grade.SAFE if context.file.fstring_of(call) is None else Grade.MANUAL
            edits = [Edit(behind, behind, text)] if grade is Grade.SAFE else []
            yield self.finding(context, (start, end), message, grade, edits, imports=portable_imports(context))
