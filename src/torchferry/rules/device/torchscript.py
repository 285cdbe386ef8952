"""Which code TorchScript compiles: it knows tensors as torch itself has them, without what a plugin adds to them."""

from __future__ import annotations

import ast

from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import callee
from torchferry.source.names import Names

_COMPILED = frozenset(
    f"torch.jit.{name}" for name in ("ScriptModule", "export", "script", "script_if_tracing", "script_method")
)
_LEFT_OUT = frozenset({"torch.jit.ignore", "torch.jit.unused", "torch.compile"})

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_scripted(context: PythonContext, node: ast.AST) -> bool:
    """Whether TorchScript compiles a place, or may.

    What is compiled takes what it calls with it, methods of submodules among them, so that every method counts of a
    file that has something compiled, what these and compiled functions name, and what such a file imports by name
    from this one.
    """
    outermost: ast.AST | None = None
    current: ast.AST | None = node
    while current is not None:
        if isinstance(current, (*_FUNCTIONS, ast.ClassDef)):
            if not isinstance(current, ast.ClassDef) and _has_compiled(context, current):
                break  # what is defined in it may be what it compiles
            outermost = current
            decorators = map(callee, current.decorator_list)
            if any(context.names.qualified(decorator) in _LEFT_OUT for decorator in decorators):
                return False
        current = context.file.parents.get(current)
    if not isinstance(outermost, (*_FUNCTIONS, ast.ClassDef)):
        return False
    if _compiles(context.names) and (isinstance(outermost, ast.ClassDef) or _is_taken(context, outermost, set())):
        return True
    return context.project is not None and any(
        _compiles(names) for _, names, _ in context.project.importers(context.path, outermost.name)
    )


def _is_taken(context: PythonContext, function: ast.FunctionDef | ast.AsyncFunctionDef, seen: set[ast.AST]) -> bool:
    """Whether a function of a file is compiled, or named where something is that may be: not where it is only run."""
    seen.add(function)
    decorators = map(callee, function.decorator_list)
    if any(context.names.qualified(decorator) in _COMPILED for decorator in decorators):
        return True
    for use in context.names.uses(function.name, context.file.scope(function)):
        call = context.file.parents.get(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            return True  # handed on, perhaps to be compiled
        around = _outermost(context, use)
        if isinstance(around, ast.ClassDef):
            return True
        if isinstance(around, _FUNCTIONS) and around not in seen and _is_taken(context, around, seen):
            return True
    return False


def _outermost(context: PythonContext, node: ast.AST) -> ast.AST | None:
    """Return the function or class at the top of the file that holds a node, or None."""
    top: ast.AST | None = None
    current: ast.AST | None = node
    while current is not None:
        top = current if isinstance(current, (*_FUNCTIONS, ast.ClassDef)) else top
        current = context.file.parents.get(current)
    return top


def _has_compiled(context: PythonContext, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body of a function has something compiled, so that it is no code which TorchScript knows."""
    return any(
        reference.name in _COMPILED and _is_in_body(context, function, reference.node)
        for reference in context.names.references("torch")
    )


def _is_in_body(context: PythonContext, function: ast.AST, node: ast.AST) -> bool:
    """Whether a node lies in the body of a function, and decorates nothing there."""
    child = node
    while (parent := context.file.parents.get(child)) is not None:
        if isinstance(parent, (*_FUNCTIONS, ast.ClassDef)):
            if child in parent.decorator_list:
                return False
            if parent is function:
                return child in parent.body
        child = parent
    return False


def _compiles(names: Names) -> bool:
    return any(reference.name in _COMPILED for reference in names.references("torch") if not reference.is_import)
