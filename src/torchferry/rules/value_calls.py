"""What a call does with an argument: shows it, takes it apart, or hands it to a function of the project."""

from __future__ import annotations

import ast
from enum import Enum
from string import Formatter

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

NUMBERS = frozenset({"float", "int", "list", "max", "min", "range", "round", "sum", "tuple"})
"""Functions of numbers, which raise on None."""


def converts(name: str) -> bool:
    """Whether the result of a function says the same as its argument: `version.parse(f"{major}.{minor}")`."""
    return name in NUMBERS or name in ("str", "parse") or "version" in name.lower()


class Passing(Enum):
    """What becomes of an argument: it is shown or asked of, taken apart, or nobody knows."""

    SHOWN = "shown"
    TAKEN_APART = "taken apart"
    OPEN = "open"


CONTAINERS = frozenset({"list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "enumerate", "deque", "zip"})
"""Functions whose result holds what their argument held."""

_TAKE_APART = (
    NUMBERS
    | CONTAINERS
    | {"map", "filter", "next", "any", "all", "dict", "len", "abs", "divmod", "pow", "complex", "chr", "hex", "bin"}
)
_SHOW = frozenset({"print", "repr", "str", "type", "id", "bool", "isinstance", "hash", "callable", "pprint", "pformat"})
_LOG = frozenset(
    {"debug", "info", "warning", "warn", "error", "critical", "exception", "log", "dump", "dumps", "print"}
)
_OF_NUMBERS = frozenset("diouxXeEfFgGc")
"""Conversions of `%` that refuse None."""

_CONVERSION = lazy_regex(
    r"%(?P<key>\([^()]*\))?[-#0 +]*(?P<width>\*|(?!0)\d*)(?:\.(?:\*|\d*))?[hlL]?(?P<kind>[a-zA-Z%])"
)


def passing(names: Names, call: ast.Call, argument: ast.expr) -> Passing:
    """Return what a call of a function that is not the project's does with an argument."""
    function, name = call.func, last_name(call.func)
    if isinstance(function, ast.Name) and not names.bindings(function):
        if name in _SHOW or (name == "format" and len(call.args) == 1):
            return Passing.SHOWN
        if name in _TAKE_APART:
            return Passing.TAKEN_APART
    if isinstance(function, ast.Attribute):
        if name == "format":
            return _by_format(call, argument)
        if name == "join":
            return Passing.TAKEN_APART
        top = (names.qualified(function) or "").partition(".")[0]
        if name in _LOG and top not in ("math", "numpy", "torch"):
            return Passing.SHOWN
    return Passing.TAKEN_APART if converts(name) else Passing.OPEN


def _by_format(call: ast.Call, argument: ast.expr) -> Passing:
    """Return what `form.format(...)` does with an argument: `{}` shows it, `{0[0]}` and `{:d}` take it apart."""
    form = string_value(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if form is None:
        return Passing.OPEN
    try:
        fields = [field for field in Formatter().parse(form) if field[1] is not None]
    except ValueError:
        return Passing.OPEN
    place = str(call.args.index(argument)) if argument in call.args else ""
    keyword = next((each.arg for each in call.keywords if each.value is argument), None)
    for number, (_, field, spec, conversion) in enumerate(fields):
        text = field or ""
        name = text.partition(".")[0].partition("[")[0] or str(number)
        if name in (place, keyword) and ((name != text and text) or (spec and not conversion)):
            return Passing.TAKEN_APART
    return Passing.SHOWN


def formats_none(form: str | None, index: int, count: int) -> bool | None:
    """Whether `form % values` writes one of so many values also where it is None; None where nobody knows."""
    if form is None:
        return None
    conversions = [conversion for conversion in _CONVERSION.finditer(form) if conversion["kind"] != "%"]
    if any(conversion["key"] or "*" in conversion[0] for conversion in conversions):
        return None
    if len(conversions) != count:
        return False
    return conversions[index]["kind"] not in _OF_NUMBERS


class IntoFunction(NamedTuple):
    """Where an argument goes.

    Attributes:
        parameter: The parameter that takes it.
        gathered: Whether the parameter is a tuple or dictionary with it: `*args`, `**options`.
        file: The file of the function.
        names: Name resolution there.
    """

    parameter: ast.arg
    gathered: bool
    file: PythonFile
    names: Names


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters_of(
    file: PythonFile, names: Names, project: Project | None, call: ast.Call, argument: ast.expr, keyword: str | None
) -> IntoFunction | None:
    """Return the parameter of a function of the project that takes an argument of a call; None where there is none."""
    called = _called(file, names, project, call)
    if called is None:
        return None
    file, names, function, is_bound = called
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][1 if is_bound else 0 :]
    parameter: ast.arg | None = None
    gathered = False
    if keyword is not None:
        named = (each for each in (*arguments.args, *arguments.kwonlyargs) if each.arg == keyword)
        parameter = next(named, None)
        if parameter is None:
            parameter, gathered = arguments.kwarg, True
    elif argument in call.args:
        place = call.args.index(argument)
        if any(isinstance(each, ast.Starred) for each in call.args[:place]):
            return None
        parameter = positional[place] if place < len(positional) else arguments.vararg
        gathered = place >= len(positional)
    return None if parameter is None else IntoFunction(parameter, gathered, file, names)


def _called(
    file: PythonFile, names: Names, project: Project | None, call: ast.Call
) -> tuple[PythonFile, Names, _Function, bool] | None:
    """Return the function of the project that a call runs, and whether its first parameter is given by itself."""
    return function_named(file, names, project, call.func)


def function_named(
    file: PythonFile, names: Names, project: Project | None, function: ast.expr
) -> tuple[PythonFile, Names, _Function, bool] | None:
    """Return the function of the project that an expression is, and whether its first parameter is given by itself.

    A class is the function that makes one of it.
    """
    if isinstance(function, ast.Attribute) and last_name(function.value) in ("self", "cls"):
        owner = file.enclosing_class(function)
        method = _method(owner, function.attr) if owner is not None else None
        return (file, names, method, not _is_static(method)) if method is not None else None
    defined = _definition(file, names, project, function)
    if defined is None:
        return None
    file, names, definition = defined
    if isinstance(definition, ast.ClassDef):
        making = _method(definition, "__init__")
        return (file, names, making, True) if making is not None else None
    return file, names, definition, False


def _definition(
    file: PythonFile, names: Names, project: Project | None, called: ast.expr
) -> tuple[PythonFile, Names, _Function | ast.ClassDef] | None:
    """Return the function or class of the project that an expression is, with its file."""
    if isinstance(called, ast.Name):
        bound = [each for each in names.bindings(called) if isinstance(each, (*_FUNCTIONS, ast.ClassDef))]
        if len(bound) == 1 == len(names.bindings(called)):
            return file, names, bound[0]
    qualified = names.qualified(called) if project is not None else None
    return project.definition(qualified, file.path) if project is not None and qualified is not None else None


class Field(NamedTuple):
    """An attribute that an object gets when it is made.

    Attributes:
        name: Its name.
        owner: The class of the object; None where that is not the project's.
        file: The file of the class.
        names: Name resolution there.
    """

    name: str
    owner: ast.ClassDef | None
    file: PythonFile
    names: Names


_OF_KEYWORDS = frozenset({"SimpleNamespace", "Namespace"})
"""Classes whose objects have each keyword argument as an attribute."""


def field_of(
    file: PythonFile, names: Names, project: Project | None, call: ast.Call, argument: ast.expr, keyword: str | None
) -> Field | None:
    """Return the attribute that an argument becomes where the class has no `__init__` of its own: of a dataclass."""
    defined = _definition(file, names, project, call.func)
    owner = defined[2] if defined is not None else None
    if defined is None or not isinstance(owner, ast.ClassDef):
        is_any = keyword is not None and last_name(call.func) in _OF_KEYWORDS
        return Field(keyword or "", None, file, names) if is_any else None
    if keyword is None and argument in call.args and not any(isinstance(each, ast.Starred) for each in call.args):
        annotated = [each.target for each in owner.body if isinstance(each, ast.AnnAssign)]
        place = call.args.index(argument)
        named = annotated[place] if place < len(annotated) else None
        keyword = named.id if isinstance(named, ast.Name) else None
    return None if keyword is None else Field(keyword, owner, *defined[:2])


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _method(owner: ast.ClassDef, name: str) -> _Function | None:
    return next((each for each in owner.body if isinstance(each, _FUNCTIONS) and each.name == name), None)


def _is_static(function: _Function) -> bool:
    return any(last_name(decorator) == "staticmethod" for decorator in function.decorator_list)
