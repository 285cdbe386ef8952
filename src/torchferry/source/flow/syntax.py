"""Small questions about syntax that several contexts ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator

STRING_METHODS = frozenset(
    {
        "startswith",
        "endswith",
        "split",
        "rsplit",
        "partition",
        "rpartition",
        "replace",
        "strip",
        "lstrip",
        "rstrip",
        "removeprefix",
        "removesuffix",
        "find",
        "index",
        "count",
    }
)
"""Methods of a string whose argument is held against it."""

CUTTING_METHODS = frozenset({"partition", "rpartition", "split", "rsplit"})
"""Those that cut a string in pieces, of which the first is its beginning."""

PASSING_METHODS = frozenset({"format", "lower", "upper", "capitalize", "title", "strip", "join", "casefold"})
"""Methods whose result is still the string."""

LOOKUPS = frozenset({"get", "pop", "setdefault", "getenv"})
"""Functions that take a key and a default."""


def string_value(node: ast.AST | None) -> str | None:
    """Return the value of a string literal, or None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def last_name(node: ast.AST) -> str:
    """Return the last identifier of a dotted expression or of what it calls; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return ""


def callee(node: ast.expr) -> ast.expr:
    """Return what a call calls, and any other expression as it is: `@wrap` and `@wrap(2)` name the same decorator."""
    return node.func if isinstance(node, ast.Call) else node


def defaults_of(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the parameters that may have a default, each with it."""
    positional = [*arguments.posonlyargs, *arguments.args]
    if arguments.defaults:
        yield from zip(positional[-len(arguments.defaults) :], arguments.defaults, strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
