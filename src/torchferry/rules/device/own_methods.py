"""Classes of the project that define `cuda` or `is_cuda` themselves: their objects are not torch's."""

from __future__ import annotations

import ast

from torchferry.core.budget import spend
from torchferry.rules.base import PythonContext
from torchferry.source.names import assigned_value

_DEPTH = 50
"""Variables, attributes and bases that are followed, each once."""


def class_defines(definition: ast.ClassDef, member: str) -> bool:
    """Whether a class body defines `member`, as a method or an attribute."""
    for statement in definition.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == member:
            return True
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == member for target in targets):
            return True
    return False


def receiver_owns(context: PythonContext, receiver: ast.expr, member: str) -> bool:
    """Whether the object is known to be of a class of the project that has its own `member`.

    Knows `self` and `cls`, calls of a class, variables and attributes of `self` that one was assigned to.
    """
    return _owns(context, receiver, member, 0, set())


def _owns(context: PythonContext, receiver: ast.expr, member: str, depth: int, met: set[ast.AST]) -> bool:
    if depth > _DEPTH or receiver in met:
        return False
    spend()
    met.add(receiver)
    file, names = context.file, context.names
    if isinstance(receiver, ast.Name):
        if receiver.id in ("self", "cls"):
            own = file.enclosing_class(receiver)
            return own is not None and (_class_owns(context, own, member, depth, met) or _stores(context, own, member))
        return any(
            isinstance(value := assigned_value(file, binding), ast.expr)
            and _owns(context, value, member, depth + 1, met)
            for binding in names.bindings(receiver)
        )
    if isinstance(receiver, ast.Call):
        definition = _class_of(context, receiver.func)
        return definition is not None and _class_owns(context, definition, member, depth, met)
    if isinstance(receiver, ast.Attribute) and isinstance(receiver.value, ast.Name) and receiver.value.id == "self":
        own = file.enclosing_class(receiver)
        return any(
            isinstance(stored.ctx, ast.Store)
            and file.enclosing_class(stored) is own
            and isinstance(value := assigned_value(file, stored), ast.expr)
            and _owns(context, value, member, depth + 1, met)
            for stored in file.attributes.get(receiver.attr, ())
        )
    return False


def _class_of(context: PythonContext, func: ast.expr) -> ast.ClassDef | None:
    """Return the class of the project that a call makes an object of."""
    if isinstance(func, ast.Name):
        for binding in context.names.bindings(func):
            if isinstance(binding, ast.ClassDef):
                return binding
    qualified = context.names.qualified(func)
    if qualified is None or context.project is None:
        return None
    located = context.project.definition(qualified, context.path)
    return located[2] if located is not None and isinstance(located[2], ast.ClassDef) else None


def _class_owns(context: PythonContext, definition: ast.ClassDef, member: str, depth: int, met: set[ast.AST]) -> bool:
    if class_defines(definition, member):
        return True
    if depth > _DEPTH or definition in met or definition not in context.file.parents:
        return False
    met.add(definition)
    return any(
        base is not None and _class_owns(context, base, member, depth + 1, met)
        for base in (_class_of(context, expression) for expression in definition.bases)
    )


def _stores(context: PythonContext, definition: ast.ClassDef, member: str) -> bool:
    """Whether a method of the class assigns `self.<member>`."""
    return any(
        isinstance(stored.ctx, ast.Store)
        and isinstance(stored.value, ast.Name)
        and stored.value.id == "self"
        and context.file.enclosing_class(stored) is definition
        for stored in context.file.attributes.get(member, ())
    )


def is_library_name(context: PythonContext, attribute: ast.Attribute) -> bool:
    """Whether an attribute is a name of an imported module, such as `tvm.cuda`, and no method of an object.

    A variable of the project's own module, taken by `from model import net`, is an object like any other.
    """
    qualified = context.names.qualified(attribute)
    if qualified is None:
        return False
    module, _, member = qualified.rpartition(".")[0].rpartition(".")
    path = context.project.module_path(module, context.path) if context.project is not None and module else None
    loaded = context.project.file(path) if context.project is not None and path is not None else None
    if loaded is None:
        return True
    return not any(isinstance(binding, ast.Name) for binding in loaded[1].module_bindings(member))
