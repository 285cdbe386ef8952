"""Settings as Python declares them: defaults of options and arguments, entries of dictionaries, fields of classes."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, keyword_of
from torchferry.source.flow.syntax import last_name


class Declared(NamedTuple):
    """A setting with the value that it has unless something else is said.

    Attributes:
        name: Its name, with `_` for `-`.
        value: The expression that is its value.
        in_call: Whether it is an argument of a call.
    """

    name: str
    value: ast.expr
    in_call: bool


def declared_settings(context: PythonContext, names: Collection[str]) -> Iterator[Declared]:
    """Yield the settings of some names, in no order.

    Those are items of dictionaries, arguments of calls, defaults of functions and of the command line, fields of
    classes and variables of the module.
    """
    file = context.file
    for node in file.strings:
        name = str(node.value).lstrip("-").replace("-", "_")
        if name not in names:
            continue
        parent = file.parents.get(node)
        if isinstance(parent, ast.Dict) and node in parent.keys:
            yield Declared(name, parent.values[parent.keys.index(node)], False)
        elif isinstance(parent, ast.Subscript) and parent.slice is node:
            statement = file.parents.get(parent)
            if isinstance(statement, ast.Assign) and parent in statement.targets:
                yield Declared(name, statement.value, False)
        elif isinstance(parent, ast.Call) and last_name(parent.func) == "add_argument" and node in parent.args:
            default = keyword_of(parent, "default")
            if default is not None and str(node.value).startswith("-"):
                yield Declared(name, default.value, False)
    for name in names:
        for keyword in file.keywords.get(name, ()):
            if isinstance(file.parents.get(keyword), ast.Call):
                yield Declared(name, keyword.value, True)
        for attribute in file.attributes.get(name, ()):
            statement = file.parents.get(attribute)
            if isinstance(statement, ast.Assign) and attribute in statement.targets:
                yield Declared(name, statement.value, False)
        for variable in file.names.get(name, ()):
            statement = file.parents.get(variable)
            if not isinstance(variable.ctx, ast.Store) or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
                continue
            if statement.value is not None and isinstance(file.parents.get(statement), (ast.Module, ast.ClassDef)):
                yield Declared(name, _default_of_field(statement.value), False)
        for argument in file.arguments.get(name, ()):
            given = _default_of_argument(file.parents.get(argument), argument)
            if given is not None:
                yield Declared(name, given, False)


def _default_of_field(value: ast.expr) -> ast.expr:
    """Return the default of `field(default=...)`, or the value itself."""
    if isinstance(value, ast.Call) and last_name(value.func) in ("field", "Field"):
        default = keyword_of(value, "default")
        if default is not None:
            return default.value
        if value.args:
            return value.args[0]
    return value


def _default_of_argument(arguments: ast.AST | None, argument: ast.arg) -> ast.expr | None:
    if not isinstance(arguments, ast.arguments):
        return None
    ordered = [*arguments.posonlyargs, *arguments.args]
    if argument in ordered:
        at = ordered.index(argument) - len(ordered) + len(arguments.defaults)
        return arguments.defaults[at] if at >= 0 else None
    return arguments.kw_defaults[arguments.kwonlyargs.index(argument)] if argument in arguments.kwonlyargs else None
