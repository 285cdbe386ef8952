"""Names of environment variables that are put together: `os.environ[PREFIX + "_VISIBLE_DEVICES"]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.budget import spend
from torchferry.rules.base import PythonContext
from torchferry.rules.environment.variables import VARIABLE
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import assigned_value

_ENVIRONMENT = "os.environ"
_FUNCTIONS = frozenset({"os.getenv", "os.putenv", "os.unsetenv"})
_DEEPEST = 100
"""Variables and parts of expressions that are followed to a text."""


def built_variables(context: PythonContext) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions that make the name of a variable of CUDA for the environment, with that name."""
    seen: set[ast.expr] = set()
    for node in context.file.strings:
        whole: ast.expr = node
        while isinstance(parent := context.file.parents.get(whole), (ast.BinOp, ast.JoinedStr, ast.FormattedValue)):
            whole = parent
        if whole is node or whole in seen or not _names_variable(context, whole):
            continue
        seen.add(whole)
        name = _text(context, whole)
        if name is not None and VARIABLE.match(name):
            yield whole, name


def _names_variable(context: PythonContext, name: ast.expr) -> bool:
    """Whether the environment is asked for an expression, or given a value under it."""
    parent = context.file.parents.get(name)
    if isinstance(parent, ast.Subscript):
        return parent.slice is name and context.names.qualified(parent.value) == _ENVIRONMENT
    if isinstance(parent, ast.Compare):
        return parent.left is name and context.names.qualified(parent.comparators[0]) == _ENVIRONMENT
    if isinstance(parent, ast.Call) and parent.args[:1] == [name]:
        function = context.names.qualified(parent.func) or ""
        return function in _FUNCTIONS or function.startswith(f"{_ENVIRONMENT}.")
    return False


def _text(context: PythonContext, expression: ast.expr, depth: int = 0) -> str | None:
    """Return the text of literals and of variables that are assigned one; None for others."""
    spend()
    parts: list[ast.expr] = []
    if depth > _DEEPEST:
        return None
    if isinstance(expression, ast.Name):
        values = [assigned_value(context.file, binding) for binding in context.names.bindings(expression)]
        return _text(context, values[0], depth + 1) if len(values) == 1 and values[0] is not None else None
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        parts = [expression.left, expression.right]
    elif isinstance(expression, ast.JoinedStr):
        parts = expression.values
    elif isinstance(expression, ast.FormattedValue):
        plain = expression.conversion == -1 and expression.format_spec is None
        return _text(context, expression.value, depth + 1) if plain else None
    texts = [_text(context, part, depth + 1) for part in parts]
    return (
        "".join(text for text in texts if text is not None) if parts and None not in texts else string_value(expression)
    )
