"""One kernel of torch's attention asked for, and no other allowed.

`with sdpa_kernel(SDPBackend.FLASH_ATTENTION):` lets `scaled_dot_product_attention` use that kernel alone. On a target
that does not have it under that name the call raises "No available kernel". Allow the plain one beside it:
`sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])`.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to
from torchferry.rules.exemptions import exemption_reason


class AttentionKernelForced(Rule):
    """Finds `sdpa_kernel` without the plain kernel."""

    CODE = "ATT104"
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
                "allows one attention kernel only, which {target} may lack; allow `SDPBackend.MATH` beside it",
                target=context.target.title,
            )
            yield self.finding(context, context.file.span(call), message, Grade.MANUAL)
