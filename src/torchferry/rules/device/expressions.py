"""How the target's device is written as an expression."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext

_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)
"""Expressions that stand in an f-string as they are."""


def device_expression(context: PythonContext) -> tuple[str, tuple[str, ...]]:
    """Return the expression for the target's device, and the modules it needs imported."""
    backend = context.target.backend
    if backend.DEVICE_FACTORY:
        module = backend.DEVICE_FACTORY.partition(".")[0]
        return f'{backend.DEVICE_FACTORY}("{backend.DEVICE_TYPE}")', (module,)
    return f'"{backend.DEVICE_TYPE}"', ()


def indexed_device(context: PythonContext, index: ast.expr) -> str | None:
    """Return the device string for an index: `"npu:0"`, `f"npu:{rank}"`; None for what an f-string cannot hold."""
    device = context.target.backend.DEVICE_TYPE
    if isinstance(index, ast.Constant):
        return f'"{device}:{index.value}"' if isinstance(index.value, int) else None
    text = context.file.text(index)
    if not isinstance(index, _PLAIN) or any(char in text for char in "\"'\\\n\r{}#:!="):
        return None
    return f'f"{device}:{{{text}}}"'


def quoted_for(context: PythonContext, node: ast.AST, text: str) -> str | None:
    """Return an expression with quotes that can stand where `node` does; None where neither kind can.

    Before Python 3.12 an f-string cannot hold its own quotes, and the project may run on such a Python.
    """
    joined = context.file.fstring_of(node)
    if joined is None or '"' not in text:
        return text
    source = context.file.text(joined)
    if '"' not in source:
        return text
    return text.replace('"', "'") if "'" not in source else None
