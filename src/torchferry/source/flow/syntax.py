"""Small questions about syntax that several contexts ask."""

from __future__ import annotations

import ast

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

PASSING_METHODS = frozenset({"format", "lower", "upper", "strip", "join", "casefold"})
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
