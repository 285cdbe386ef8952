"""A `fork_rng` without a device type.

`torch.random.fork_rng()` saves and restores the generators of the CPU and of CUDA. On the target it does not restore
the card's generator, so random numbers inside the block change those after it. The device type is added as an
argument.

Why: The card's generator is not restored, so later random numbers change.

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


class ForkRngDefault(Rule):
    """Finds `fork_rng` without a device type."""

    CODE = "RNG103"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = ("fork_rng",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for name, call in calls_to(context):
            if name != "torch.random.fork_rng" or len(call.args) > 4 or exemption_reason(context, call) is not None:
                continue
            if any(keyword.arg in ("device_type", None) for keyword in call.keywords):
                continue
            device = device_type(context)
            message = say(
                "`fork_rng` without `device_type` uses CUDA; on {target} pass `device_type={device}`",
                target=context.target.title,
                device=device,
            )
            span = context.file.span(call)
            last = span[1] - 1
            comma = ", " if call.args or call.keywords else ""
            if context.text[:last].rstrip().endswith(",") or context.file.fstring_of(call) is not None:
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            edits = [Edit(last, last, f"{comma}device_type={device}")]
            yield self.finding(context, span, message, Grade.SAFE, edits, imports=portable_imports(context))
