"""The index of a device that is cut off by the number of letters before it: `int(device[5:])`.

`cuda:` has five letters, and the target's word its own number of them: of `npu:1` nothing but an empty text is left, so
`int` raises. Cut at the colon, `device.partition(":")[2]`, or ask `torch.device(device).index`.

Why: The index is another one, or `int` raises.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import assigned_value

_BEFORE_INDEX = len(cuda.DEVICE_TYPE) + 1


class ComparedLetters(NamedTuple):
    """The first letters of a text, with which a device string is compared.

    Attributes:
        edits: What takes as many letters as the target's device has; None where that is not written there.
    """

    edits: tuple[Edit, ...] | None


def letters_compared(context: PythonContext, node: ast.expr) -> ComparedLetters | None:
    """Return the first letters that a device string is compared with: `text[:4] == "cuda"`.

    None for another comparison, and where the target's device has as many letters.
    """
    child: ast.AST = node
    comparison = context.file.parents.get(child)
    while isinstance(comparison, (ast.List, ast.Tuple, ast.Set)):
        child, comparison = comparison, context.file.parents.get(comparison)
    text = string_value(node)
    if not isinstance(comparison, ast.Compare) or text is None:
        return None
    own = text.replace(cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE)
    if len(own) == len(text) and not context.target.module:
        return None
    for side in (comparison.left, *comparison.comparators):
        values: list[ast.expr | None] = [side]
        if isinstance(side, ast.Name):
            values += [assigned_value(context.file, binding) for binding in context.names.bindings(side)]
        for value in values:
            upper = _upper(value)
            if upper is None:
                continue
            is_plain = value is side and child is node and upper.value == len(text) and not context.target.module
            return ComparedLetters((Edit(*context.file.span(upper), str(len(own))),) if is_plain else None)
    return None


def _upper(expression: ast.expr | None) -> ast.Constant | None:
    """Return how many letters are taken of a text from its beginning: the 4 of `text[:4]`."""
    part = expression.slice if isinstance(expression, ast.Subscript) else None
    if not isinstance(part, ast.Slice) or part.step is not None:
        return None
    begins = part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)
    is_number = isinstance(part.upper, ast.Constant) and type(part.upper.value) is int
    return part.upper if begins and is_number else None  # type: ignore[return-value]


class CountedLetters(Rule):
    """Finds indices of devices that are cut off by the number of letters before them."""

    CODE = "DEV118"
    EFFECT = Effect.RAISES
    WORDS = (f"[{_BEFORE_INDEX}:]",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where the target's device has as many letters."""
        is_equal = len(target.backend.DEVICE_TYPE) == len(cuda.DEVICE_TYPE)
        return () if is_equal and not target.module else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for name in context.file.names.get("int", ()):
            call = context.file.parents.get(name)
            if not isinstance(call, ast.Call) or call.func is not name or len(call.args) != 1:
                continue
            cut = call.args[0]
            if not isinstance(cut, ast.Subscript) or not isinstance(cut.slice, ast.Slice) or cut.slice.upper:
                continue
            lower = cut.slice.lower
            if not isinstance(lower, ast.Constant) or lower.value != _BEFORE_INDEX:
                continue
            if context.devices.values.holds(cut.value) and exemption_reason(context, call) is None:
                message = say(
                    "takes the index of a device from a text by the length of `{cuda}:`; on {target} it "
                    "stands behind `{device}:`",
                    cuda=cuda.DEVICE_TYPE,
                    device=context.target.backend.DEVICE_TYPE,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(call), message, Grade.MANUAL)
