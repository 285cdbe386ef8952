"""A decision by NVIDIA's compute capability or by the name of an NVIDIA card.

`torch.cuda.get_device_capability() >= (8, 0)` asks for Ampere; `"A100" in torch.cuda.get_device_name()` for a card.
On the target the numbers mean the maker's own generations, or there are none, and the name is another. The call is
renamed by `CUD101`; what to decide by instead is yours: usually the capability itself, such as
`is_bf16_supported()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.keeping import reason_to_keep

_ASKED = {
    "torch.cuda.get_device_capability": say("the compute capability"),
    "torch.cuda.get_device_name": say("the name of the card"),
}
_STEPS = (ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.Tuple)


class CapabilityCompared(Rule):
    """Finds comparisons of the compute capability and of the card's name."""

    CODE = "CUD110"
    CHINESE = """按 NVIDIA 的计算能力或卡名作判断。

`torch.cuda.get_device_capability() >= (8, 0)` 指 Ampere；`"A100" in torch.cuda.get_device_name()` 指某一种卡。
在目标平台上这些数字是厂商自己的代次，或者没有，名称也不同。调用由 `CUD101` 改名；改用什么判断由您决定，
通常是能力本身，例如 `is_bf16_supported()`。
"""
    WORDS = ("get_device_capability", "get_device_name", "get_device_properties")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each comparison."""
        for reference in context.references.get("device", ()):
            asked = _ASKED.get(reference.name)
            if reference.name == "torch.cuda.get_device_properties":
                asked = self._property(context, reference.node)
            if asked is None or reference.is_import:
                continue
            comparison = self._comparison(context, reference.node)
            if comparison is None or reason_to_keep(context, reference.node) is not None:
                continue
            message = say(
                "decides by {asked} of an NVIDIA card, which means something else on {target}",
                asked=asked,
                target=context.target.title,
            )
            yield self.finding(context, context.file.span(comparison), message, Grade.MANUAL)

    def _property(self, context: PythonContext, node: ast.AST) -> Message | None:
        call = context.file.parents.get(node)
        field = context.file.parents.get(call) if call is not None else None
        if isinstance(field, ast.Attribute) and field.attr in ("major", "minor", "name"):
            return _ASKED[f"torch.cuda.get_device_{'name' if field.attr == 'name' else 'capability'}"]
        return None

    def _comparison(self, context: PythonContext, node: ast.AST) -> ast.Compare | None:
        """Return the comparison that uses the value, directly or through one variable."""
        current: ast.AST | None = context.file.parents.get(node)
        while isinstance(current, _STEPS):
            current = context.file.parents.get(current)
        if isinstance(current, ast.Compare):
            return current
        if isinstance(current, ast.Assign) and len(current.targets) == 1:
            target = current.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            for name in names:
                if isinstance(name, ast.Name):
                    scope = context.names.variable_scope(name.id, context.file.scope(name))
                    for use in context.names.uses(name.id, scope) if scope is not None else ():
                        above = context.file.parents.get(use)
                        while isinstance(above, _STEPS):
                            above = context.file.parents.get(above)
                        if isinstance(above, ast.Compare):
                            return above
        return None
