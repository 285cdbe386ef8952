"""The values of expressions that take a text or a path apart: `Path(x).suffix`, `x.endswith(".pt")`."""

from __future__ import annotations

import ast
import posixpath
from pathlib import PurePosixPath
from typing import Protocol

from torchferry.programs.answers import Known
from torchferry.programs.parameters import Expression
from torchferry.programs.switches import UNSAID
from torchferry.source.flow.syntax import last_name

_OF_PATH = frozenset({"suffix", "stem", "name"})
_ASKS = frozenset({"endswith", "startswith"})
_APART = frozenset({"split", "rsplit"})


class PlainValues(Protocol):
    """What the look-up of values answers for those of texts."""

    def value(self, where: Expression, depth: int) -> Known:
        """Return the value of an expression."""


class TextValues:
    """Tells what is taken out of texts; None for an expression that does nothing of the kind.

    Args:
        values: Tells the values of expressions.
    """

    def __init__(self, values: PlainValues) -> None:
        self._values = values

    def of_attribute(self, where: Expression, node: ast.Attribute, depth: int) -> Known | None:
        """Return a part of a path: `Path(x).suffix`."""
        known = self._values.value(where.part(node.value), depth + 1) if node.attr in _OF_PATH else None
        if known is None or not isinstance(known.value, str):
            return None
        return known._replace(value=getattr(PurePosixPath(known.value), node.attr))

    def of_call(self, where: Expression, node: ast.Call, depth: int) -> Known | None:
        """Return what a text says of how it begins or ends, and the last part of a path."""
        name, of = last_name(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "basename" and len(node.args) == 1:
            known = self._values.value(where.part(node.args[0]), depth + 1)
            return known._replace(value=posixpath.basename(known.value)) if isinstance(known.value, str) else None
        if of is None or name not in _ASKS or len(node.args) != 1:
            return None
        known = self._values.value(where.part(of), depth + 1)
        asked = self._values.value(where.part(node.args[0]), depth + 1).value
        parts = asked if isinstance(asked, tuple) else (asked,)
        if not isinstance(known.value, str) or not all(isinstance(each, str) for each in parts):
            return None
        return known._replace(value=any(getattr(known.value, name)(each) for each in parts))

    def of_item(self, where: Expression, node: ast.Subscript, depth: int) -> Known | None:
        """Return a part of a text that is taken apart: `os.path.splitext(x)[1]`, `x.split(".")[-1]`."""
        call, number = node.value, _number(node.slice)
        if not isinstance(call, ast.Call) or number is None:
            return None
        name, of = last_name(call.func), call.func.value if isinstance(call.func, ast.Attribute) else None
        if name == "splitext" and len(call.args) == 1:
            known = self._values.value(where.part(call.args[0]), depth + 1)
            parts = posixpath.splitext(known.value) if isinstance(known.value, str) else ()
        elif name in _APART and of is not None and len(call.args) == 1 and not call.keywords:
            known = self._values.value(where.part(of), depth + 1)
            between = self._values.value(where.part(call.args[0]), depth + 1).value
            told = isinstance(known.value, str) and isinstance(between, str) and between != ""
            parts = tuple(getattr(known.value, name)(between)) if told else ()
        else:
            return None
        return known._replace(value=parts[number]) if -len(parts) <= number < len(parts) else Known(UNSAID)


def _number(node: ast.expr) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) and sign < 0 else node
    number = inner.value if isinstance(inner, ast.Constant) else None
    return sign * number if isinstance(number, int) else None
