"""The names under which objects have a method: its own, and those that the body of its class gives it besides."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.source.flow.syntax import last_name
from torchferry.source.python import PythonFile

_PARTS: dict[str, type[ast.expr_context]] = {"setter": ast.Store, "deleter": ast.Del}
"""How an attribute is used that a function of a property is called for, by the decorator that makes it one."""

_GIVEN: dict[str, type[ast.expr_context]] = {"fget": ast.Load, "fset": ast.Store, "fdel": ast.Del}

_OF_PROPERTY = frozenset({"setter", "getter", "deleter"})


_IMPLICIT = frozenset({"forward", "backward", "setup_context", "main", "reset_parameters", "extra_repr"})
"""Methods that torch calls, beside those with two underscores."""


def is_implicit(name: str) -> bool:
    """Whether Python or torch calls a method of the name."""
    return (name.startswith("__") and name.endswith("__")) or name in _IMPLICIT


class MethodName(NamedTuple):
    """A name that an object has for a method.

    Attributes:
        name: The name.
        access: How the attribute of the name is used for the method to be called: read, stored, or deleted.
        tests: Conditions that must hold for the name to mean the method, with the value that they must have.
        table: The value in the table of that name which is the method; None where the name is the method itself.
    """

    name: str
    access: type[ast.expr_context] = ast.Load
    tests: tuple[tuple[ast.expr, bool], ...] = ()
    table: ast.Name | None = None

    def is_used_by(self, file: PythonFile, attribute: ast.Attribute) -> bool:
        """Whether an attribute of the name is used in the way for which the method is called."""
        if isinstance(attribute.ctx, self.access):
            return True
        return self.access is ast.Load and isinstance(file.parents.get(attribute), ast.AugAssign)


def names_of_method(file: PythonFile, owner: ast.ClassDef, unit: FunctionNode) -> Iterator[MethodName]:
    """Yield the names that objects of a class have for one of its methods."""
    parts = (_PARTS.get(each.attr) for each in unit.decorator_list if isinstance(each, ast.Attribute))
    todo, met = [MethodName(unit.name, next(filter(None, parts), ast.Load))], {unit.name}
    while todo:
        name = todo.pop()
        yield name
        for use in uses_in_body(file, owner, name.name) if name.table is None else ():
            statement = file.statement(use)
            tests = (*name.tests, *place_context(file, use).tests)
            is_table = any(isinstance(each, ast.Dict) for each in _outwards(file, use, statement))
            for target in _targets(statement):
                if target not in met:
                    met.add(target)
                    access = _given_as(file, use) or name.access
                    todo.append(MethodName(target, access, tests, use if is_table else None))


def uses_in_body(file: PythonFile, owner: ast.ClassDef, name: str) -> Iterator[ast.Name]:
    """Yield where the body of a class itself names what it defined before: `forward = fast`, `check(fast)`."""
    for use in file.names.get(name, ()):
        if isinstance(use.ctx, ast.Load) and file.scope(use) is owner:
            around_it = file.parents.get(use)
            if not isinstance(around_it, ast.Attribute) or around_it.attr not in _OF_PROPERTY:
                yield use


def gives_a_name(statement: ast.stmt) -> bool:
    """Whether a statement in the body of a class gives names to what it holds."""
    return next(_targets(statement), None) is not None


def _targets(statement: ast.stmt) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def _outwards(file: PythonFile, node: ast.AST, end: ast.AST) -> Iterator[ast.AST]:
    while node is not end:
        node = file.parents[node]
        yield node


def _given_as(file: PythonFile, use: ast.Name) -> type[ast.expr_context] | None:
    """Return for which use of a property a function is given: `data = property(read, write)`; None for no property."""
    call = file.parents.get(use)
    part = ""
    if isinstance(call, ast.keyword):
        part, call = call.arg or "", file.parents.get(call)
    elif isinstance(call, ast.Call) and use in call.args[: len(_GIVEN)]:
        part = [*_GIVEN][call.args.index(use)]
    if not isinstance(call, ast.Call) or last_name(call.func) != "property":
        return None
    return _GIVEN.get(part, ast.Load)
