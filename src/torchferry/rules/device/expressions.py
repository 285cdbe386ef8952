"""How the target's device is written as an expression."""

from __future__ import annotations

import ast

from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import PythonContext

_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)
"""Expressions that stand in an f-string as they are."""


def device_expression(context: PythonContext) -> tuple[str, tuple[str, ...]]:
    """Return the expression for the target's device, and the modules it needs imported."""
    backend = context.target.backend
    if context.target.module:
        return f"{context.target.module}.this_device()", (context.target.module,)
    if backend.DEVICE_FACTORY:
        module = backend.DEVICE_FACTORY.partition(".")[0]
        return f'{backend.DEVICE_FACTORY}("{backend.DEVICE_TYPE}")', (module,)
    return f'"{backend.DEVICE_TYPE}"', ()


def indexed_device(context: PythonContext, index: ast.expr) -> str | None:
    """Return the device string for an index: `"npu:0"`, `f"npu:{rank}"`; None for what an f-string cannot hold."""
    device = context.target.backend.DEVICE_TYPE
    module = context.target.module
    if isinstance(index, ast.Constant):
        if not isinstance(index.value, int):
            return None
        return f"{module}.this_device({index.value})" if module else f'"{device}:{index.value}"'
    text = context.file.text(index)
    if module:
        return f"{module}.this_device({text})"  # which takes devices as well
    if not isinstance(index, _PLAIN) or any(char in text for char in "\"'\\\n\r{}#:!="):
        return None
    return f'f"{device}:{{{text}}}"'


def device_again(context: PythonContext, given: ast.expr) -> str | None:
    """Return a device that a call is given, as the target has it, to be written at a second place.

    That is a literal of CUDA, a number, a name, an attribute or an item, and `str()` of these; None for all else.
    """
    if isinstance(given, ast.Constant):
        if isinstance(given.value, int) and not isinstance(given.value, bool):
            return indexed_device(context, given)
        match = _LITERAL.fullmatch(given.value) if isinstance(given.value, str) else None
        if match is None:
            return None
        if context.target.module:
            return f"{context.target.module}.device_string({match[1] or ''})"
        own = context.target.backend.DEVICE_TYPE
        index = f":{match[1]}" if match[1] else ""
        return device_expression(context)[0].replace(f'"{own}"', f'"{own}{index}"')
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "str":
        return device_again(context, given.args[0]) if len(given.args) == 1 and not given.keywords else None
    innermost: ast.expr = given
    while isinstance(innermost, (ast.Attribute, ast.Subscript)):
        if isinstance(innermost, ast.Subscript) and not isinstance(innermost.slice, (ast.Constant, ast.Name)):
            return None
        innermost = innermost.value
    return context.file.text(given) if isinstance(innermost, ast.Name) else None


_LITERAL = lazy_regex(r"cuda(?::(\d{1,9}))?")


def device_type(context: PythonContext) -> str:
    """Return the expression for the type of the target's device, as tensors on it have it; see `portable_imports`.

    It is a constant of the portable module, since such a question stands in loops and in code that is compiled.
    """
    module = context.target.module
    return f"{module}.ACCELERATOR_TYPE" if module else f'"{context.target.backend.DEVICE_TYPE}"'


def portable_imports(context: PythonContext) -> tuple[str, ...]:
    """Return the module that portable expressions need imported; none where the vendor's own names are written."""
    return (context.target.module,) if context.target.module else ()


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
