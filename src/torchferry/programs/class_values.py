"""What the body of a class gives an attribute, where it is known which class an object is or is of.

`CFG.fast` after `class CFG: fast = True`, `config.fast` where the calls on the way give the class or what it makes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from torchferry.core.record import NamedTuple
from torchferry.programs.sources import Sources
from torchferry.programs.stored import stores_in
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEEPEST = 6
"""Variables, parameters and bases that are followed to a class."""


class Expression(NamedTuple):
    """An expression of a file."""

    file: PythonFile
    names: Names
    node: ast.expr


class ClassObject(NamedTuple):
    """A class, or an object of it.

    Attributes:
        file: The file that defines it.
        names: What names mean there.
        node: Its definition.
        made: The call that makes the object; None for the class itself.
    """

    file: PythonFile
    names: Names
    node: ast.ClassDef
    made: Expression | None = None


Given = Callable[[PythonFile, Names, ast.arg], Iterable[Expression]]
"""Yields what the calls of a function give to a parameter; nothing where that is not known."""


def class_of(sources: Sources, where: Expression, given: Given, depth: int = 0) -> ClassObject | None:
    """Return the class that an expression means or makes an object of; None where that is not known.

    Args:
        sources: The project's files.
        where: The expression.
        given: What is known of parameters.
        depth: How many names were followed so far.
    """
    file, names, node = where
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Call):
        made = class_of(sources, Expression(file, names, node.func), given, depth + 1)
        return made._replace(made=where) if made is not None and made.made is None else None
    bindings = names.bindings(node) if isinstance(node, ast.Name) else []
    if len(bindings) == 1 and not isinstance(bindings[0], ast.alias):
        binding = bindings[0]
        if isinstance(binding, ast.ClassDef):
            return ClassObject(file, names, binding)
        if isinstance(binding, ast.arg):
            meant = [class_of(sources, each, given, depth + 1) for each in given(file, names, binding)]
            return meant[0] if meant and all(each == meant[0] for each in meant) else None
        value = assigned_value(file, binding)
        return class_of(sources, Expression(file, names, value), given, depth + 1) if value is not None else None
    qualified = names.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    defined = sources.project.definition(qualified, file.path) if qualified is not None else None
    return ClassObject(*defined) if defined is not None and isinstance(defined[2], ast.ClassDef) else None  # type: ignore[arg-type]


def class_value(sources: Sources, of: ClassObject, name: str, given: Given, depth: int = 0) -> Expression | None:
    """Return the value that the class of an object gives an attribute, and nothing changes; None where none is known.

    Args:
        sources: The project's files.
        of: The class or object.
        name: The attribute.
        given: What is known of parameters.
        depth: How many bases were looked into so far.
    """
    if of.made is not None and isinstance(of.made.node, ast.Call):
        call = of.made.node
        keyword = next((each for each in call.keywords if each.arg == name), None)
        if keyword is not None:
            return Expression(of.made.file, of.made.names, keyword.value)
        if call.args or any(each.arg is None for each in call.keywords) or any(stores_in(of.file, "self", name)):
            return None
    if of.node.decorator_list or _is_changed(of, name):  # fields of dataclasses are options: `switches` knows them
        return None
    values = [
        statement.value
        for statement in of.node.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and target.id == name
    ]
    if len(values) == 1:
        return Expression(of.file, of.names, values[0]) if values[0] is not None else None
    for base in of.node.bases if not values and depth < _DEEPEST else ():
        inner = class_of(sources, Expression(of.file, of.names, base), given)
        value = class_value(sources, inner._replace(made=None), name, given, depth + 1) if inner is not None else None
        if value is not None:
            return value
    return None


def _is_changed(of: ClassObject, name: str) -> bool:
    """Whether the file of a class gives the attribute another value, by its name or in a loop over names."""
    if f"setattr({of.node.name}" in of.file.source.text:
        return True
    return any(
        isinstance(store.ctx, ast.Store) and isinstance(store.value, ast.Name) and store.value.id != "self"
        for store in of.file.attributes.get(name, ())
    )
