"""Texts put together of parts: `":".join(["cuda", "0"])`, `"{}:{}".format("cuda", rank)`, `"cu" + "da"`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.flow.syntax import string_value
from torchferry.source.python import PythonFile

_SEPARATORS = ("", ":")
_TEMPLATE = lazy_regex(r"(?:%(?:\((?P<key>\w+)\))?s|\{(?P<field>\w*)\})(?::(?:%(?:\(\w+\))?[sdi]|\{\w*\}|\d+))?\Z")
"""A template whose first field is all that is ahead of an index: `%s:%d`, `{}`, `{name}:{index}`, `%(kind)s:0`."""


def begun_by(file: PythonFile, part: ast.AST) -> ast.expr | None:
    """Return the expression whose text begins with a part, and goes on with an index or not at all; None for others."""
    parent = file.parents.get(part)
    field: str | int = 0
    if isinstance(parent, ast.keyword):
        field, parent = parent.arg or 0, file.parents.get(parent)
    elif isinstance(parent, ast.Starred):
        return None
    elif isinstance(parent, (ast.List, ast.Tuple)):
        if parent.elts[0] is not part:
            return None
        parent = file.parents.get(parent)
        if isinstance(parent, ast.Starred):
            parent = file.parents.get(parent)
        elif not isinstance(parent, ast.BinOp):
            return parent if isinstance(parent, ast.Call) and _joins(parent) else None
    elif isinstance(parent, ast.Dict):
        if part not in parent.values:
            return None
        field = string_value(file.keys_of(parent)[part]) or 0
        parent = file.parents.get(parent)
    elif isinstance(parent, ast.Call):
        if part not in parent.args:
            return None
        field = parent.args.index(part)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and parent.left is not part:
        return parent if _begins(string_value(parent.left), field) else None
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "format":
        return parent if _begins(string_value(parent.func.value), field) else None
    return None


def _joins(call: ast.Call) -> bool:
    """Whether a call joins its only argument with what may be between a device and its index."""
    function = call.func
    is_join = isinstance(function, ast.Attribute) and function.attr == "join" and len(call.args) == 1
    return is_join and isinstance(function, ast.Attribute) and string_value(function.value) in _SEPARATORS


def _begins(template: str | None, field: str | int) -> bool:
    """Whether a template begins with a field, by its name or its number, and has no text of its own."""
    match = None if template is None else _TEMPLATE.match(template)
    if match is None:
        return False
    name = match["key"] if match["key"] is not None else match["field"] or "0"
    return str(field) == name or (match["field"] is None and match["key"] is None and field == 0)


def folded(expression: ast.expr) -> str | None:
    """Return the text of literal parts: `"cu" + "da"`, `f"cu{'da'}"`, `"".join(["cuda", ":0"])`, `"cu%s" % "da"`."""
    if isinstance(expression, ast.Constant):
        return expression.value if isinstance(expression.value, str) else None
    parts: list[ast.expr] = []
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        parts = [expression.left, expression.right]
    elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mod):
        right = expression.right
        return _filled(string_value(expression.left), "%s", right.elts if isinstance(right, ast.Tuple) else [right])
    elif isinstance(expression, ast.JoinedStr):
        parts = list(expression.values)
    elif isinstance(expression, ast.FormattedValue):
        return folded(expression.value) if expression.format_spec is None and expression.conversion == -1 else None
    elif isinstance(expression, ast.Call):
        return _called(expression)
    return _joined("", parts)


def _called(call: ast.Call) -> str | None:
    """Return what a method makes of literal parts: `"".join(["cu", "da"])`, `"{}".format("cuda")`, `"CUDA".lower()`."""
    if not isinstance(call.func, ast.Attribute) or call.keywords:
        return None
    method, owner = call.func.attr, call.func.value
    if method == "format":
        return _filled(string_value(owner), "{}", call.args)
    if method != "join":
        return _by_method(method, owner, call.args)
    separator = string_value(owner)
    if separator is None or len(call.args) != 1 or not isinstance(call.args[0], (ast.List, ast.Tuple)):
        return None
    return _joined(separator, call.args[0].elts)


def _joined(separator: str, parts: list[ast.expr]) -> str | None:
    texts = [folded(part) for part in parts]
    return separator.join(text for text in texts if text is not None) if parts and None not in texts else None


def _filled(template: str | None, field: str, values: list[ast.expr]) -> str | None:
    """Return a text whose fields, all of one form, are filled with literal parts; None for others."""
    texts = [folded(value) for value in values]
    if template is None or None in texts:
        return None
    parts = template.split(field)
    if len(parts) != len(texts) + 1 or any("%" in part or "{" in part for part in parts):
        return None
    return parts[0] + "".join((text or "") + part for text, part in zip(texts, parts[1:], strict=True))


_METHODS: dict[str, tuple[Callable[..., str], tuple[int, ...]]] = {
    "casefold": (str.casefold, (0,)),
    "lower": (str.lower, (0,)),
    "lstrip": (str.lstrip, (0, 1)),
    "removeprefix": (str.removeprefix, (1,)),
    "removesuffix": (str.removesuffix, (1,)),
    "replace": (str.replace, (2,)),
    "rstrip": (str.rstrip, (0, 1)),
    "strip": (str.strip, (0, 1)),
}
"""Methods that make one text of another, and how many arguments they may have."""


def _by_method(method: str, owner: ast.expr, arguments: list[ast.expr]) -> str | None:
    """Return what a method makes of a literal text: `"CUDA".lower()`, `" cuda ".strip()`; None for others."""
    function, counts = _METHODS.get(method, (None, ()))
    if function is None or len(arguments) not in counts:
        return None
    texts = [folded(part) for part in (owner, *arguments)]
    return None if None in texts else function(*texts)
