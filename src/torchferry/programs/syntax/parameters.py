"""Parameters of functions, and what calls give to them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

MOST_CALLS = 200
"""Calls of one function that are looked at for the value of a parameter."""


class Parameter(NamedTuple):
    """A parameter of a function: the function's file and place, and the parameter's name."""

    path: str
    line: int
    name: str


class BoundArgument(NamedTuple):
    """What a call gives to a parameter: an expression, and the file that it stands in."""

    path: str
    value: ast.expr


class Expression(NamedTuple):
    """An expression of a file.

    Attributes:
        file: The file.
        names: What names mean there.
        node: The expression.
        given: What is given to parameters of functions around it, where one call of them is looked at.
    """

    file: PythonFile
    names: Names
    node: ast.expr
    given: Mapping[Parameter, Expression] = MappingProxyType({})

    def part(self, node: ast.expr) -> Expression:
        """Return another expression of the same place."""
        file, names, _, given = self  # a new one takes a third of the time of `_replace`
        return Expression(file, names, node, given)

    @property
    def place(self) -> tuple[str, int, int]:
        """Where it stands."""
        return self.file.path, getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0)


def given_by(
    path: str, function: FunctionNode, call: ast.Call, caller: str, *, bound: bool
) -> dict[Parameter, BoundArgument]:
    """Return what a call gives to the parameters of a function.

    Args:
        path: The function's file.
        function: The function.
        call: The call.
        caller: The file of the call.
        bound: Whether the first parameter is given by Python, as `self` is.
    """
    given_arguments: dict[Parameter, BoundArgument] = {}
    arguments = function.args
    positions = [*arguments.posonlyargs, *arguments.args][bound:]
    for argument, value in zip(positions, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return given_arguments
        given_arguments[Parameter(path, function.lineno, argument.arg)] = BoundArgument(caller, value)
    named = {argument.arg for argument in (*positions, *arguments.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg in named:
            given_arguments[Parameter(path, function.lineno, str(keyword.arg))] = BoundArgument(caller, keyword.value)
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return given_arguments
    for argument in (*positions, *arguments.kwonlyargs):
        default = default_of(arguments, argument)
        if default is not None:
            given_arguments.setdefault(Parameter(path, function.lineno, argument.arg), BoundArgument(path, default))
    return given_arguments


def is_given_by_python(owner: ast.AST | None, function: FunctionNode, call: ast.Call | None = None) -> bool:
    """Whether Python gives the first parameter of a function, as it does with `self`.

    Not that of a static method, and not where a method is asked of its class: `Base.__init__(self, width)`.

    Args:
        owner: What the function stands in.
        function: The function.
        call: The call; None where it does not count.
    """
    if not isinstance(owner, ast.ClassDef) or any(
        last_name(each) == "staticmethod" for each in function.decorator_list
    ):
        return False
    asked = call.func if call is not None else None
    if call is None or not isinstance(asked, ast.Attribute) or asked.attr != function.name or not call.args:
        return True
    if any(last_name(each) == "classmethod" for each in function.decorator_list):
        return True
    of = last_name(asked.value) if isinstance(asked.value, (ast.Name, ast.Attribute)) else ""
    is_itself = isinstance(call.args[0], ast.Name) and call.args[0].id == "self"
    return of != owner.name and not (is_itself and of[:1].isupper())


def given_itself(method: tuple[Expression, FunctionNode], itself: Expression) -> dict[Parameter, Expression]:
    """Return what Python gives to a method by itself: the object that it is asked of."""
    inside, function = method
    positions = [*function.args.posonlyargs, *function.args.args]
    if not positions or positions[0].arg not in ("self", "cls"):
        return {}
    return {Parameter(inside.file.path, function.lineno, positions[0].arg): itself}


def default_of(arguments: ast.arguments, argument: ast.arg) -> ast.expr | None:
    """Return the default value of a parameter, or None."""
    positions = [*arguments.posonlyargs, *arguments.args]
    if argument in positions:
        index = positions.index(argument) - (len(positions) - len(arguments.defaults))
        return arguments.defaults[index] if index >= 0 else None
    if argument in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(argument)]
    return None


def function_of(file: PythonFile, argument: ast.arg) -> FunctionNode | None:
    """Return the function that has a parameter; None for that of a lambda."""
    function = file.parents.get(file.parents[argument])
    return function if isinstance(function, FunctionNode) else None


def argument_of(file: PythonFile, parameter: Parameter) -> ast.arg | None:
    """Return a parameter of a file by its place and name."""
    for argument in file.arguments.get(parameter.name, ()):
        function = function_of(file, argument)
        if function is not None and function.lineno == parameter.line:
            return argument
    return None


def called_as(file: PythonFile, function: FunctionNode) -> str:
    """Return the name by which a function is called: that of the class for its `__init__`."""
    owner = file.parents.get(function)
    return owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name


_MAPPING = frozenset({"map", "imap", "imap_unordered", "map_async"})
_UNPACKING = frozenset({"starmap", "starmap_async"})
_APPLYING = frozenset({"apply", "apply_async", "Process", "Thread", "Timer", "spawn", "start_processes", "launch"})
PARTIAL = frozenset({"partial", "partialmethod"})
_PASSING = PARTIAL | frozenset({"submit", "to_thread", "run_in_executor", "call_soon"})
_ARGUMENTS = frozenset({"args", "kwargs", "kwds", "fn_kwargs"})


def handed_on(file: PythonFile, function: ast.Name | ast.Attribute, defined: FunctionNode) -> ast.Call | None:
    """Return the call that a function gets where it is handed on: `Process(target=f, args=(1,))` calls `f(1)`.

    None where it is not handed on, or nobody can tell what it will be given. An `await` represents what is not told.

    Args:
        file: The file.
        function: The name of the function where it is handed on.
        defined: The function.
    """
    parent = file.parents.get(function)
    call = file.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is function:
        return None
    kind = last_name(call.func)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if isinstance(parent, ast.keyword) and parent.arg not in ("target", "func", "fn", "function"):
        return None
    if kind == "apply" and len(call.args) == 1 and not _ARGUMENTS.intersection(map(str, keywords)):
        return None  # that of a table of data gives each of them something
    behind = call.args[call.args.index(function) + 1 :] if function in call.args else []
    unknown = ast.copy_location(ast.Await(function), function)
    given: list[ast.expr] = []
    named = [ast.keyword(arg, value) for arg, value in keywords.items() if arg is not None]
    if kind in _PASSING:
        given = behind
    elif kind in _MAPPING:
        given = [unknown]
    elif kind in _UNPACKING:
        given = [ast.copy_location(ast.Starred(unknown, ast.Load()), function)]
    elif kind in _APPLYING:
        values = keywords.get("args", next((part for part in behind if isinstance(part, (ast.Tuple, ast.List))), None))
        given = [unknown] if kind in ("spawn", "start_processes") else []
        if isinstance(values, (ast.Tuple, ast.List)):
            given = [*given, *values.elts]
        elif values is not None:
            given = [*given, ast.copy_location(ast.Starred(unknown, ast.Load()), function)]
    else:
        return None
    if kind not in _PASSING:
        named = [keyword for name in _ARGUMENTS - {"args"} for keyword in _items(keywords.get(name))]
    handed = ast.copy_location(ast.Call(function, given, named), call)
    names = {keyword.arg for keyword in named}
    handed.args += [unknown for argument in mandatory(file, defined)[len(given) :] if argument not in names]
    return handed


def _items(table: ast.expr | None) -> list[ast.keyword]:
    if isinstance(table, ast.Dict):
        pairs = zip(table.keys, table.values, strict=True)
        return [ast.keyword(text, value) for key, value in pairs for text in [string_value(key)] if text is not None]
    if isinstance(table, ast.Call) and last_name(table.func) == "dict":
        return table.keywords
    return [] if table is None else [ast.keyword(None, table)]


def mandatory(file: PythonFile, function: FunctionNode) -> list[str]:
    """Return the parameters that every call must give something."""
    arguments = function.args
    positions = [*arguments.posonlyargs, *arguments.args]
    bound = is_given_by_python(file.parents.get(function), function)
    return [each.arg for each in positions[bound : len(positions) - len(arguments.defaults)]]
