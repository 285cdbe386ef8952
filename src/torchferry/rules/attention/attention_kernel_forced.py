"""Only one kernel of torch's attention allowed.

`with sdpa_kernel(SDPBackend.FLASH_ATTENTION):` lets `scaled_dot_product_attention` use only that kernel. On a target
without a kernel of that name the call raises "No available kernel". Also allow the plain kernel:
`sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])`.

Why: If the target lacks the one allowed kernel, every attention call raises.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to
from torchferry.rules.exemptions import exemption_reason


class AttentionKernelForced(Rule):
    """Finds `sdpa_kernel` without the plain kernel."""

    CODE = "ATT104"
    EFFECT = Effect.RAISES
    ANSWERS = (say("let torch choose the attention kernel"),)
    WORDS = ("sdpa_kernel",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for name, call in calls_to(context):
            if name != "torch.nn.attention.sdpa_kernel" or exemption_reason(context, call) is not None:
                continue
            text = context.file.text(call)
            if "MATH" in text or ("FLASH" not in text.upper() and "EFFICIENT" not in text.upper()):
                continue
            message = say(
                "allows only one attention kernel, which {target} may lack; also allow `SDPBackend.MATH`",
                target=context.target.title,
            )
            yield self.finding(context, context.file.span(call), message, Grade.MANUAL)
