"""torch's own flexible attention: `torch.nn.attention.flex_attention.flex_attention`.

torch itself holds a list of the devices that it takes: CPU, CUDA, HPU and MPS (2.13). Tensors of another device are
refused unless the plugin adds its own. A condition such as `torch.cuda.is_available()` that guards the call stays with
it: renamed alone, it would lead there.

Why: The call raises ValueError where the plugin does not add its device to torch's list.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import LINK, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason

_FUNCTION = "torch.nn.attention.flex_attention.flex_attention"
_ROW = "torch.flex_attention"


class FlexAttention(Rule):
    """Finds uses of torch's flexible attention."""

    CODE = "ATT105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use another attention"),)
    BINDS = True
    WORDS = ("flex_attention",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for the first use of a file: they are one decision."""
        row = context.target.row("frameworks", _ROW)
        if row.status == "same":
            return
        is_said = False
        for reference in context.names.references("torch"):
            node = reference.node
            if reference.name != _FUNCTION or not isinstance(node, ast.expr):
                continue
            if exemption_reason(context, node) is not None:
                continue
            message = LINK  # the condition around it stays with it, too
            if not is_said:
                message = say(
                    "`flex_attention` of torch refuses tensors of {target} unless {plugin} adds its device to torch's "
                    "list",
                    target=context.target.title,
                    plugin=context.target.backend.PLUGIN,
                )
                message = noted(message, row.remark)
            is_said = True
            yield self.finding(context, context.file.span(node), message, Grade.MANUAL)
