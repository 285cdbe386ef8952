"""Functions and classes that become a field of an object: `Settings(make=Net)`, `Settings(make=partial(Net, 3))`.

They are called where the field is asked for, and not where the object is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.programs.decorators import bound_in_project
from torchferry.programs.parameters import PARTIAL
from torchferry.programs.sources import Sources
from torchferry.programs.use_kinds import Place
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile


def asked_as_field(sources: Sources, file: PythonFile, names: Names, use: ast.AST) -> list[Place]:
    """Return where the field is asked for that holds what a name means; empty where none holds it, or nobody asks.

    Args:
        sources: The project's files.
        file: The file that speaks of the function or class.
        names: Its names.
        use: Where it does.
    """
    field = _field_of(sources.project, file, names, use)
    return [*_reads(sources, field)] if field else []


def _field_of(project: Project, file: PythonFile, names: Names, use: ast.AST) -> str:
    """Return the declared field of a class of the project that is given something; empty where none is."""
    given, parent = use, file.parents.get(use)
    while isinstance(parent, ast.Attribute):  # `Net.from_pretrained`
        given, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.Call) and last_name(parent.func) in PARTIAL and parent.args[:1] == [given]:
        given, parent = parent, file.parents.get(parent)
    call = file.parents.get(parent) if isinstance(parent, ast.keyword) and parent.arg is not None else None
    if not isinstance(parent, ast.keyword) or not isinstance(call, ast.Call):
        return ""
    bound = bound_in_project(project, file, names, call.func)
    made = bound[2] if bound is not None else None
    declared = made.body if isinstance(made, ast.ClassDef) else ()
    is_field = any(isinstance(each, ast.AnnAssign) and last_name(each.target) == parent.arg for each in declared)
    return (parent.arg or "") if is_field else ""


def _reads(sources: Sources, field: str) -> Iterator[Place]:
    for path in sorted(sources.words.as_attribute(field)):
        loaded = sources.file(path)
        for attribute in loaded[0].attributes.get(field, ()) if loaded is not None else ():
            if isinstance(attribute.ctx, ast.Load):
                yield Place(path, attribute)
