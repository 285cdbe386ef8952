"""What is written down of a text that is computed: how `f"net_{kind}"` begins, and how `"{}_net".format(kind)` ends."""

from __future__ import annotations

import ast

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEPTH = 6

_CONVERSION = lazy_regex(r"%(?:\(\w{0,60}\))?[-#0 +]{0,5}[\d.*]{0,12}[a-zA-Z%]")
_BRACE = lazy_regex(r"[{}]")


class WrittenEnds(NamedTuple):
    """How a computed text begins and ends, as far as that is written down.

    Attributes:
        begin: What it begins with.
        end: What it ends with.
        is_whole: Whether it is written down as a whole, so that both are the text.
    """

    begin: str = ""
    end: str = ""
    is_whole: bool = False

    def may_be(self, text: str) -> bool:
        """Whether the text may be another one."""
        if self.is_whole:
            return text == self.begin
        is_long_enough = len(text) >= len(self.begin) + len(self.end)
        return is_long_enough and text.startswith(self.begin) and text.endswith(self.end)


_UNKNOWN = WrittenEnds()


def written_ends(file: PythonFile, names: Names, node: ast.expr, depth: int = 0) -> WrittenEnds:
    """Return how a text begins and ends that an expression computes."""
    text = string_value(node) if isinstance(node, ast.Constant) else None
    if text is not None:
        return WrittenEnds(text, text, is_whole=True)
    if depth > _DEPTH:
        return _UNKNOWN
    if isinstance(node, ast.Name):
        bindings = names.reaching_bindings(node)
        value = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
        if value is None or isinstance(value, ast.Constant):  # a switch: others may set it to something else
            return _UNKNOWN
        return written_ends(file, names, value, depth + 1)
    if isinstance(node, ast.JoinedStr):
        return _joined([written_ends(file, names, part, depth + 1) for part in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([written_ends(file, names, part, depth + 1) for part in (node.left, node.right)])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _around(string_value(node.left), _CONVERSION)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _around(string_value(node.func.value), _BRACE)
    return _UNKNOWN


def _joined(parts: list[WrittenEnds]) -> WrittenEnds:
    begin, end = "", ""
    for part in parts:
        begin += part.begin
        if not part.is_whole:
            break
    for part in reversed(parts):
        end = part.end + end
        if not part.is_whole:
            break
    return WrittenEnds(begin, end, all(part.is_whole for part in parts))


def _around(text: str | None, hole: object) -> WrittenEnds:
    """Return what is in front of the first hole of a form, and after the last one."""
    holes = list(hole.finditer(text)) if text is not None else []  # type: ignore[attr-defined]
    return WrittenEnds(text[: holes[0].start()], text[holes[-1].end() :]) if text is not None and holes else _UNKNOWN
