"""A decision by NVIDIA's compute capability or by the name of an NVIDIA card.

`torch.cuda.get_device_capability() >= (8, 0)` tests for Ampere; `"A100" in torch.cuda.get_device_name()` tests for a
card. On the target the numbers mean the vendor's own generations, or do not exist, and the name differs. Where the
plugin answers None, a line that unpacks the pair or calculates with it raises TypeError. `CUD101` renames the call,
unless the condition only chooses by the generation: such a condition stays, and the code for other devices runs.
Decide what to test instead, usually the feature itself, such as `is_bf16_supported()`.

Why: The program chooses a code path by a number that has no meaning on the target, or raises TypeError.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.generations import CAPABILITY, PROPERTIES, CapabilityRead, readings


class CapabilityCompared(Rule):
    """Finds comparisons of the compute capability and of the card's name, and calculations with what is None."""

    CODE = "CUD110"
    WORDS = ("get_device_capability", "get_device_name", "get_device_properties")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use."""
        compared: set[tuple[ast.AST, str]] = set()
        raising: set[ast.AST] = set()
        for reading in readings(context):
            if exemption_reason(context, reading.reference.node) is not None:
                continue
            if reading.calculation is not None and _is_none(context, reading):
                if reading.calculation in raising:
                    continue
                raising.add(reading.calculation)
                message = say(
                    "`{found}` is None on {target}: where this line runs, it raises TypeError; "
                    "check for the needed feature",
                    found=reading.field or reading.reference.name,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reading.calculation), message, Grade.MANUAL)
            elif reading.asked is not None and reading.comparison is not None:
                question = reading.reference.node, str(reading.asked)
                if question in compared:  # `major` and `minor` of one card are one question
                    continue
                compared.add(question)
                message = say(
                    "decides by {asked} of an NVIDIA card, which has another meaning on {target}",
                    asked=reading.asked,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reading.comparison), message, Grade.MANUAL)


def _is_none(context: PythonContext, reading: CapabilityRead) -> bool:
    """Whether the plugin answers None to what is read."""
    target = context.target
    if target.module or target.api(reading.reference.name).status not in REWRITTEN:
        return False
    from torchferry.backends.cards import default_card  # imported late: few projects compare capabilities

    card = default_card(target.backend)
    if reading.reference.name == PROPERTIES:
        return reading.field in card.none_properties
    return reading.reference.name == CAPABILITY and card.capability is None
