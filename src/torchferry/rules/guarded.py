"""Whether code copes with what it imports or calls being absent."""

from __future__ import annotations

import ast
import builtins
from enum import Enum

from torchferry.core.finding import Effect, Grade
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name
from torchferry.source.import_calls import ImportTime, import_of
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile
from torchferry.source.roles import is_main

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "RuntimeError", "OSError"})
"""What code catches that goes on where something cannot be loaded, of which is not known how it fails."""

MISSING = "ModuleNotFoundError"
"""What the import of a package raises that is not there."""

ENDS = frozenset({"exit", "quit", "_exit", "abort"})
"""Functions that end the program."""


_KEEPS_ERRORS = frozenset({"try_import", "LazyImport"})
"""Functions and classes of Optuna, lazy-imports and Haystack that keep the error of an import in a `with` block."""


class Guard(Enum):
    """The text between a place and the program that runs into it."""

    NONE = "none"
    """The place is reached when its file is imported or started."""

    LATE = "late"
    """A function or a condition is around it: it is reached only when something asks for it."""

    COPES = "copes"
    """The code says itself what happens without it: it catches the error, or asks first whether it is there."""


def without(guard: Guard, effect: Effect) -> tuple[Grade, Effect]:
    """Return the grade and the effect of what the target lacks; code that copes with its absence needs nothing.

    Args:
        guard: The context of the place.
        effect: The effect where nothing copes with the absence.
    """
    return (Grade.NOTE, Effect.NOTHING) if guard is Guard.COPES else (Grade.MANUAL, effect)


def is_guarded(context: PythonContext, node: ast.AST) -> bool:
    """Whether a `try` that catches import errors, or a test whether something is available, is around `node`."""
    return guard_of(context.file, node) is Guard.COPES


def is_attempted(context: PythonContext, node: ast.AST) -> bool:
    """Whether a `try` around `node` goes on without a name: a question for CUDA is one for the target by then."""
    parents = context.file.parents
    child, parent = node, parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.Try) and child in parent.body and copes(parent, "AttributeError"):
            return True
        if isinstance(parent, ast.With) and any(
            suppresses(item.context_expr, "AttributeError") for item in parent.items
        ):
            return True
        child, parent = parent, parents.get(parent)
    return False


def guard_of(file: PythonFile, node: ast.AST, error: str = "") -> Guard:
    """Return the context of a place: a `try` that goes on without it, a test, a function, or nothing.

    Args:
        file: The file.
        node: The place.
        error: The exception that is raised there; empty where that is not known.
    """
    guard = Guard.NONE
    child: ast.AST = node
    parent = file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.Try) and child in parent.body and copes(parent, error):
            return Guard.COPES
        if isinstance(parent, ast.With) and any(suppresses(item.context_expr, error) for item in parent.items):
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


def guard_of_import(context: PythonContext, place: ast.AST, error: str = "") -> Guard:
    """Return the context of an import, also of a call that fails only where what it gives back is used."""
    guard = guard_of(context.file, place, error)
    imported = import_of(context.names, place) if isinstance(place, ast.Call) else None
    if imported is None or imported.how is ImportTime.AT_ONCE or guard is Guard.COPES:
        return guard
    return Guard.COPES if imported.how is ImportTime.AS_PAIR else Guard.LATE


def copes(attempt: ast.Try, error: str = "") -> bool:
    """Whether a `try` catches an error and goes on; a handler that raises or ends the program does not.

    Args:
        attempt: The `try`.
        error: The exception, by its name; empty where it is not known what is raised: any handler may be the one.
    """
    return any(not _ends(handler) for handler in catching(attempt, error))


def catching(attempt: ast.Try, error: str = "") -> list[ast.ExceptHandler]:
    """Return the handlers of a `try` of which one handles an error: the first that catches it, where it is known."""
    handlers = [handler for handler in attempt.handlers if _catches(handler, error)]
    return handlers[:1] if error else handlers


def _ends(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, or ends the program."""
    return any(
        isinstance(statement, ast.Raise)
        or (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and last_name(statement.value.func) in ENDS
        )
        for statement in handler.body
    )


def _catches(handler: ast.ExceptHandler, error: str) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_is_caught(error, last_name(kind)) for kind in types)


def _is_caught(error: str, name: str) -> bool:
    """Whether who catches exceptions of a name catches an error."""
    raised, caught = getattr(builtins, error, None), getattr(builtins, name, None)
    if isinstance(raised, type) and isinstance(caught, type):
        return issubclass(raised, caught)
    if not error:  # any may be raised
        return name in _CAUGHT
    # an exception of a library or of the project; NVMLError_NoPermission derives from NVMLError
    return name == error or error.startswith(f"{name}_") or caught in (Exception, BaseException)


def suppresses(expression: ast.expr, error: str = "") -> bool:
    """Whether a `with` item is `contextlib.suppress(ImportError)`; the error is that of `copes`.

    Or one that keeps the error of an import for whoever asks: `with try_import() as imports:`.
    """
    if isinstance(expression, ast.Call) and last_name(expression.func) in _KEEPS_ERRORS:
        return not error or error == MISSING
    return (
        isinstance(expression, ast.Call)
        and last_name(expression.func) == "suppress"
        and any(_is_caught(error, last_name(kind)) for kind in expression.args)
    )


def _is_for_types(test: ast.expr) -> bool:
    return last_name(test) == "TYPE_CHECKING"


_OF_AVAILABILITY = ("available", "installed", "cudaenableddevicecount")


def asks_availability(test: ast.expr) -> bool:
    """Whether a test asks if a module or feature is there: `is_xformers_available()`, `HAS_APEX`."""
    for node in nodes_in(test):
        name = last_name(node).lower() if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if any(word in name for word in _OF_AVAILABILITY) or name.startswith(("has_", "have_", "use_", "find_spec")):
            return True
    return False
