"""Parameters of functions, and what calls give to them."""

from __future__ import annotations

import ast

from torchferry.core.record import NamedTuple
from torchferry.programs.around import FunctionNode
from torchferry.source.python import PythonFile

MOST_CALLS = 200
"""Calls of one function that are looked at for the value of a parameter."""


class Parameter(NamedTuple):
    """A parameter of a function: the function's file and place, and the parameter's name."""

    path: str
    line: int
    name: str


class Given(NamedTuple):
    """What a call gives to a parameter: an expression, and the file that it stands in."""

    path: str
    value: ast.expr


def given_by(path: str, function: FunctionNode, call: ast.Call, caller: str, *, bound: bool) -> dict[Parameter, Given]:
    """Return what a call gives to the parameters of a function.

    Args:
        path: The function's file.
        function: The function.
        call: The call.
        caller: The file of the call.
        bound: Whether the first parameter is given by Python, as `self` is.
    """
    found: dict[Parameter, Given] = {}
    arguments = function.args
    positions = [*arguments.posonlyargs, *arguments.args][bound:]
    for argument, value in zip(positions, call.args, strict=False):
        if isinstance(value, ast.Starred):
            return found
        found[Parameter(path, function.lineno, argument.arg)] = Given(caller, value)
    named = {argument.arg for argument in (*positions, *arguments.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg in named:
            found[Parameter(path, function.lineno, str(keyword.arg))] = Given(caller, keyword.value)
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return found
    for argument in (*positions, *arguments.kwonlyargs):
        default = default_of(arguments, argument)
        if default is not None:
            found.setdefault(Parameter(path, function.lineno, argument.arg), Given(path, default))
    return found


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


def called_as(file: PythonFile, function: FunctionNode) -> str:
    """Return the name by which a function is called: that of the class for its `__init__`."""
    owner = file.parents.get(function)
    return owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
