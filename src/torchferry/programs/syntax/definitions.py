"""Which definition of a function or class counts, where its name is bound more than once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

Definition = FunctionNode | ast.ClassDef


def chosen_definitions(file: PythonFile, names: Names, unit: FunctionNode) -> Iterator[Definition]:
    """Yield a function, and the classes that it is defined in, as far as something else may be bound to their names.

    The context of such a definition decides whether the name means it.
    """
    defined: ast.AST | None = unit
    while isinstance(defined, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if _others(file, names, defined):
            yield defined
        defined = file.parents.get(defined)
        while isinstance(defined, (ast.If, ast.Try, ast.With)):
            defined = file.parents.get(defined)
        if not isinstance(defined, ast.ClassDef):
            return


def is_replaced(file: PythonFile, names: Names, defined: Definition) -> bool:
    """Whether a definition is followed by another one of its name before anything uses it: nobody can call it.

    A decorator may keep what it is given, and a definition may be in a branch that is not taken.
    """
    block = file.parents.get(defined)
    if defined.decorator_list or block is not file.scope(defined):
        return False
    others = _others(file, names, defined)
    later = [
        each
        for each in others
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and file.parents.get(each) is block
        and each.lineno > defined.lineno
    ]
    last = max((each.lineno for each in later), default=0)
    own = range(defined.lineno, (defined.end_lineno or defined.lineno) + 1)
    early = (use for use in file.names.get(defined.name, ()) if use.lineno <= last and use.lineno not in own)
    return last > 0 and next(early, None) is None


def _others(file: PythonFile, names: Names, defined: Definition) -> list[ast.AST]:
    """Return what else gives the name of a definition a meaning where it stands: `name = None` does not."""
    bound = (
        names.bound_in(defined.name, file.scope(defined))
        if len(file.binders.get(defined.name, ())) > 1 or (defined.name in file.names)
        else []
    )
    return [each for each in bound if each is not defined and not isinstance(assigned_value(file, each), ast.Constant)]
