"""A decision by NVIDIA's compute capability or by the name of an NVIDIA card.

`torch.cuda.get_device_capability() >= (8, 0)` asks for Ampere; `"A100" in torch.cuda.get_device_name()` for a card.
On the target the numbers mean the maker's own generations, or there are none, and the name is another. Where the
plugin answers None, a line that unpacks the pair or calculates with it raises TypeError. `CUD101` renames the call,
unless its condition does nothing but choose by the generation: such a condition stays, and the code for other devices
is chosen. What to decide by instead is yours: usually the capability itself, such as `is_bf16_supported()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.generations import CAPABILITY, PROPERTIES, Reading, readings
from torchferry.rules.keeping import reason_to_keep


class CapabilityCompared(Rule):
    """Finds comparisons of the compute capability and of the card's name, and calculations with what is None."""

    CODE = "CUD110"
    CHINESE = """按 NVIDIA 的计算能力或卡名作判断。

`torch.cuda.get_device_capability() >= (8, 0)` 指 Ampere；`"A100" in torch.cuda.get_device_name()` 指某一种卡。
在目标平台上这些数字是厂商自己的代次，或者没有，名称也不同。插件返回 None 时，拆包或参与计算的语句会抛出 TypeError。
调用由 `CUD101` 改名；若条件只按卡的代次作选择，则保持原样，走为其他设备编写的代码。改用什么判断由您决定，
通常是能力本身，例如 `is_bf16_supported()`。
"""
    WORDS = ("get_device_capability", "get_device_name", "get_device_properties")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use."""
        compared: set[tuple[ast.AST, str]] = set()
        raising: set[ast.AST] = set()
        for reading in readings(context):
            if reason_to_keep(context, reading.reference.node) is not None:
                continue
            if reading.calculation is not None and _is_none(context, reading):
                if reading.calculation in raising:
                    continue
                raising.add(reading.calculation)
                message = say(
                    "`{found}` is None on {target}: this line raises TypeError; decide by what is needed instead",
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
                    "decides by {asked} of an NVIDIA card, which means something else on {target}",
                    asked=reading.asked,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reading.comparison), message, Grade.MANUAL)


def _is_none(context: PythonContext, reading: Reading) -> bool:
    """Whether the plugin answers None to what is read."""
    target = context.target
    if target.module or target.api(reading.reference.name).status not in REWRITTEN:
        return False
    from torchferry.backends.cards import default_card  # imported late: few projects compare capabilities

    card = default_card(target.backend)
    if reading.reference.name == PROPERTIES:
        return reading.field in card.none_properties
    return reading.reference.name == CAPABILITY and card.capability is None
