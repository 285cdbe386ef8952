"""Whether code copes with what it imports or calls being absent."""

from __future__ import annotations

import ast
from enum import Enum

from torchferry.core.finding import Effect, Grade
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name
from torchferry.source.python import PythonFile
from torchferry.source.roles import is_main

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "RuntimeError", "OSError"})
_ENDS = frozenset({"exit", "quit", "_exit", "abort"})


class Guard(Enum):
    """What stands between a place and the program that runs into it."""

    NONE = "none"
    """The place is reached when its file is imported or started."""

    LATE = "late"
    """A function or a condition is around it: it is reached only when something asks for it."""

    COPES = "copes"
    """The code says itself what happens without it: it catches the error, or asks first whether it is there."""


def without(guard: Guard, effect: Effect) -> tuple[Grade, Effect]:
    """Return the grade and the effect of what the target lacks; code that copes with its absence needs nothing.

    Args:
        guard: What stands around the place.
        effect: The effect where nothing copes with the absence.
    """
    return (Grade.NOTE, Effect.NOTHING) if guard is Guard.COPES else (Grade.MANUAL, effect)


def is_guarded(context: PythonContext, node: ast.AST) -> bool:
    """Whether a `try` that catches import errors, or a test whether something is available, is around `node`."""
    return guard_of(context.file, node) is Guard.COPES


def guard_of(file: PythonFile, node: ast.AST) -> Guard:
    """Return what stands around a place: a `try` that goes on without it, a test, a function, or nothing."""
    guard = Guard.NONE
    child: ast.AST = node
    parent = file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.Try) and child in parent.body and any(map(copes, parent.handlers)):
            return Guard.COPES
        if isinstance(parent, ast.With) and any(suppresses(item.context_expr) for item in parent.items):
            return Guard.COPES
        if isinstance(parent, ast.If) and child is not parent.test:
            if child in parent.body and (asks_availability(parent.test) or _is_for_types(parent.test)):
                return Guard.COPES
            if not is_main(parent.test):
                guard = Guard.LATE
        elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            guard = Guard.LATE
        child, parent = parent, file.parents.get(parent)
    return guard


def copes(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches import errors and goes on; one that raises or ends the program does not."""
    if handler.type is not None:
        types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(last_name(kind) in _CAUGHT for kind in types):
            return False
    return not any(
        isinstance(statement, ast.Raise)
        or (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and last_name(statement.value.func) in _ENDS
        )
        for statement in handler.body
    )


def suppresses(expression: ast.expr) -> bool:
    """Whether a `with` item is `contextlib.suppress(ImportError)`."""
    return (
        isinstance(expression, ast.Call)
        and last_name(expression.func) == "suppress"
        and any(last_name(kind) in _CAUGHT for kind in expression.args)
    )


def _is_for_types(test: ast.expr) -> bool:
    return last_name(test) == "TYPE_CHECKING"


_OF_AVAILABILITY = ("available", "installed", "cudaenableddevicecount")


def asks_availability(test: ast.expr) -> bool:
    """Whether a test asks if a module or feature is there: `is_xformers_available()`, `HAS_APEX`."""
    for node in ast.walk(test):
        name = last_name(node).lower() if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if any(word in name for word in _OF_AVAILABILITY) or name.startswith(("has_", "have_", "use_", "find_spec")):
            return True
    return False
