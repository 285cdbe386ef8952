"""accelerate code that equates several processes with several CUDA cards: `DistributedType.MULTI_GPU`.

accelerate has a distributed type for each device it knows. A comparison with the one for CUDA is silently False on the
target.

Why: The comparison is silently False, and code for several processes is skipped.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import attribute_span


class AccelerateSettings(Rule):
    """Finds accelerate's distributed type for CUDA."""

    CODE = "LIB105"
    EFFECT = Effect.WRONG
    WORDS = ("MULTI_GPU",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        row = context.target.row("frameworks", "accelerate.distributed_type.MULTI_GPU")
        for reference in context.names.references("accelerate"):
            node = reference.node
            if not reference.name.endswith("DistributedType.MULTI_GPU") or not isinstance(node, ast.Attribute):
                continue
            if exemption_reason(context, node) is not None:
                continue
            span = context.file.span(node)
            if row.status in REWRITTEN and row.use:
                message = say(
                    "accelerate's name for several cards of {target} is `{use}`",
                    target=context.target.title,
                    use=row.use,
                )
                edits = [Edit(*attribute_span(context, node), row.use)]
                yield self.finding(context, span, message, Grade.SAFE, edits)
            else:
                message = say(
                    "accelerate on {target}: {note}",
                    target=context.target.title,
                    note=row.remark or say("whether there is a distributed type for these cards is UNKNOWN"),
                )
                yield self.finding(context, span, message, Grade.MANUAL)
