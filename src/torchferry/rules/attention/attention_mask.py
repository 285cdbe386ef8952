"""A mask that attention takes in another way than CUDA does: `scaled_dot_product_attention(q, k, v, attn_mask=bias)`.

torch has two forms: True in a boolean mask attends, a floating-point mask is added to the scores. Kernels of cards take
a boolean mask alone, some with True for what is left out, and libraries convert for them: an additive mask that is made
boolean loses its values, or is reversed. A row in which everything is masked is 0 or NaN or the mean of all values. The
numbers are wrong and nothing raises.

Why: Nothing raises. The result is wrong where the mask is not of the form that the kernel takes.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason

_CALL = "torch.nn.functional.scaled_dot_product_attention"
_ROW = "torch.scaled_dot_product_attention.attn_mask"
_POSITION = 3
_KEYWORD = "attn_mask"


class AttentionMask(Rule):
    """Finds masks of attention on targets that take them otherwise."""

    CODE = "ATT106"
    EFFECT = Effect.UNKNOWN
    WORDS = ("scaled_dot_product_attention",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that is given a mask."""
        row = context.target.row("frameworks", _ROW)
        if row.status != "partial":
            return
        for reference in context.names.references("torch"):
            call = context.file.parents.get(reference.node)
            if reference.name != _CALL or not isinstance(call, ast.Call) or call.func is not reference.node:
                continue
            mask = _mask(call)
            if mask is None or exemption_reason(context, call) is not None:
                continue
            message = say(
                "attention with a mask on {target}: {note}; `torchferry doctor --probe` holds each form of mask "
                "against the CPU",
                target=context.target.title,
                note=row.remark,
            )
            yield self.finding(context, context.file.span(mask), message, Grade.NOTE)


def _mask(call: ast.Call) -> ast.expr | None:
    """Return what a call is given as a mask; None where it is given none."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == _KEYWORD), None)
    if given is None and len(call.args) > _POSITION and not any(isinstance(each, ast.Starred) for each in call.args):
        given = call.args[_POSITION]
    return None if isinstance(given, ast.Constant) and given.value is None else given
