"""The values of what Python computes from values: `len(x) > 2`, `x.split(",")[0]`, `any(flags)`, `Path(x).suffix`.

Only operators, functions and methods that depend on nothing but what they are given, and whose results are small, are
computed; whatever they raise, nobody can tell what the program makes of it.
"""

from __future__ import annotations

import ast
import operator
import posixpath
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Protocol

from torchferry.core.lazy_regex import lazy_regex
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.parameters import Expression
from torchferry.source.flow.syntax import last_name

_LONGEST = 4_096
"""Letters, elements, or the largest number of which one is made; a program can ask for as many as it likes."""

_OF_PATH = frozenset({"suffix", "stem", "name"})


def _boolean(text: str) -> bool:
    """Return what `distutils.util.strtobool` makes of a text."""
    if text.lower() in ("y", "yes", "t", "true", "on", "1"):
        return True
    if text.lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(text)


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
}  # fmt: skip

_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "len": len, "any": any, "all": all, "max": max, "min": min, "sum": sum, "abs": abs, "round": round,
    "sorted": sorted, "reversed": reversed, "int": int, "float": float, "bool": bool, "str": str, "tuple": tuple,
    "list": tuple, "set": dict.fromkeys, "frozenset": dict.fromkeys,
}  # fmt: skip

_BY_NAME: Mapping[str, Callable[..., object]] = {
    "basename": posixpath.basename, "splitext": posixpath.splitext, "strtobool": _boolean,
    "Path": str, "PurePath": str,
}  # fmt: skip
"""Functions of modules, wherever they come from."""

_METHODS = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "casefold", "capitalize", "title", "swapcase",
                      "startswith", "endswith", "split", "rsplit", "partition", "rpartition", "splitlines", "replace",
                      "removeprefix", "removesuffix", "join", "find", "rfind", "count", "index", "isdigit", "isnumeric",
                      "isalpha", "isupper", "islower"})  # fmt: skip
"""Methods of texts, and those of them that tuples have."""

_PLAIN_FORMAT = lazy_regex(r"(?:[^%]|%[sdr%])*")
"""A text for `%` that requests no width, with which a result could be of any length."""


class Unordered(tuple[object, ...]):
    """What a set holds, or the keys of a table: no element of it has a number."""


class KnownValues(Protocol):
    """What the look-up of values answers for parts of an expression."""

    def value(self, where: Expression, depth: int) -> DefaultValue:
        """Return the value of an expression."""


class Operations:
    """Computes expressions of which all parts are known; None for what is not computed here.

    Args:
        values: Tells the values of parts.
    """

    def __init__(self, values: KnownValues) -> None:
        self._values = values

    def of_attribute(self, where: Expression, node: ast.Attribute, depth: int) -> DefaultValue | None:
        """Return a part of a path: `Path(x).suffix`."""
        path = self._values.value(where.part(node.value), depth + 1) if node.attr in _OF_PATH else None
        if path is None or not isinstance(path.value, str):
            return None
        return path._replace(value=getattr(PurePosixPath(path.value), node.attr))

    def of_operator(self, where: Expression, node: ast.BinOp | ast.UnaryOp, depth: int) -> DefaultValue | None:
        """Return what an operator makes of values: `-1`, numbers, texts that are put together."""
        if isinstance(node, ast.UnaryOp):
            return self._computed(where, operator.neg, [node.operand], depth)
        compute = _OPERATORS.get(type(node.op))
        return None if compute is None else self._computed(where, compute, [node.left, node.right], depth)

    def of_item(self, where: Expression, node: ast.Subscript, depth: int) -> DefaultValue | None:
        """Return an element, or a part of a text: `os.path.splitext(x)[1]`, `x.split(".")[-1]`, `x[:2]`."""
        parts: list[ast.expr] = [node.value]
        if isinstance(node.slice, ast.Slice):
            parts += [part or ast.Constant(None) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
        elif _is_number(node.slice):
            parts.append(node.slice)
        else:
            return None
        return self._computed(where, lambda of, *at: of[at[0] if len(at) == 1 else slice(*at)], parts, depth)

    def of_call(self, where: Expression, node: ast.Call, depth: int) -> DefaultValue | None:
        """Return what a function of Python's, or a method of a text, gives back."""
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            return None
        name, of = last_name(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Name) and name in _FUNCTIONS:
            is_own = bool(where.names.bindings(node.func))
            return None if is_own else self._computed(where, _FUNCTIONS[name], node.args, depth)
        if name in _BY_NAME and len(node.args) == 1:
            return self._computed(where, _BY_NAME[name], node.args, depth)
        if of is None or name not in _METHODS:
            return None
        return self._computed(where, lambda this, *given: getattr(this, name)(*given), [of, *node.args], depth)

    def _computed(
        self, where: Expression, compute: Callable[..., object], parts: list[ast.expr], depth: int
    ) -> DefaultValue | None:
        operands: list[DefaultValue] = []
        for part in parts:
            operands.append(self._values.value(where.part(part), depth + 1))
            if not _is_small(operands[-1].value):
                return None
        given = [each.value for each in operands]
        if compute is operator.mul and not all(isinstance(each, (int, float)) for each in given):
            return None
        if compute is operator.mod and isinstance(given[0], str):
            if not _PLAIN_FORMAT.fullmatch(given[0]) or isinstance(given[1], tuple):
                return None  # a list is known as a tuple, and written otherwise
        if compute is str and given and isinstance(given[0], tuple):
            return None
        is_unordered = bool(given) and isinstance(given[0], Unordered)
        if is_unordered and len(given) > 1:
            return None
        try:
            value = compute(*given)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return None
        if isinstance(value, dict) or (is_unordered and isinstance(value, tuple)):
            value = Unordered(value)
        elif not isinstance(value, (str, int, float, tuple)) and value is not None:
            value = tuple(value) if isinstance(value, (list, reversed)) else UNDETERMINED
        option = next((each.option for each in operands if each.option), "")
        return DefaultValue(value, option, any(each.guard for each in operands)) if _is_small(value) else None


def _is_small(value: object) -> bool:
    """Whether something is a value with which is computed: it is known, of a plain type, and not large."""
    if isinstance(value, (str, tuple)):
        return len(value) <= _LONGEST and (isinstance(value, str) or all(map(_is_small, value)))
    return value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and abs(value) < 1 << 63)


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int
