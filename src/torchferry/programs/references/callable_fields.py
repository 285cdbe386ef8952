"""Functions and classes that become a field of an object: `Settings(make=Net)`, `Settings(make=partial(Net, 3))`.

They are called where the field is asked for, and not where the object is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.sources import Sources
from torchferry.programs.syntax.decorators import bound_in_project
from torchferry.programs.syntax.parameters import PARTIAL
from torchferry.programs.syntax.use_syntax import Place
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_ALL_FIELDS = ("asdict", "astuple", "fields", "vars")
"""What gives the fields of an object without their names."""


def asked_as_field(sources: Sources, file: PythonFile, names: Names, use: ast.AST) -> list[Place]:
    """Return where the field is asked for that holds what a name means; empty where none holds it, or nobody asks.

    Args:
        sources: The project's files.
        file: The file that speaks of the function or class.
        names: Its names.
        use: Where it does.
    """
    given = _field_of(sources.project, file, names, use)
    if given is None or _may_be_read_otherwise(sources, given.owner, given.path):
        return []
    return [*_reads(sources, given.field)]


def _may_be_read_otherwise(sources: Sources, owner: str, path: str) -> bool:
    """Whether a file that speaks of a class, or of its module, may read fields of an object without their names."""
    module = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
    for each in sources.words.holding_any(frozenset({owner, module})):
        loaded = sources.file(each)
        if loaded is None or loaded[0].attributes.get("__dict__"):
            return True
        if any(string_value(call.args[1]) is None for call in loaded[0].calls_by_name("getattr") if call.args[1:]):
            return True
        calls = (call for name in _ALL_FIELDS for call in loaded[0].calls_by_name(name))
        if any(not call.args or not _is_command_line(call.args[0]) for call in calls):
            return True
    return False


def _is_command_line(value: ast.expr) -> bool:
    """Whether a value is what the command line says, by what programs call it: `vars(args)`."""
    return last_name(value) in ("args", "parse_args")


class _GivenField(NamedTuple):
    """A field of a class of the project that is given something, and the file of the class."""

    field: str
    owner: str
    path: str


def _field_of(project: Project, file: PythonFile, names: Names, use: ast.AST) -> _GivenField | None:
    """Return the declared field that is given something; None where none is."""
    given, parent = use, file.parents.get(use)
    while isinstance(parent, ast.Attribute):  # `Net.from_pretrained`
        given, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.Call) and last_name(parent.func) in PARTIAL and parent.args[:1] == [given]:
        given, parent = parent, file.parents.get(parent)
    call = file.parents.get(parent) if isinstance(parent, ast.keyword) and parent.arg is not None else None
    if not isinstance(parent, ast.keyword) or not isinstance(call, ast.Call):
        return None
    bound = bound_in_project(project, file, names, call.func)
    owner = bound[2] if bound is not None else None
    if bound is None or not isinstance(owner, ast.ClassDef) or parent.arg is None:
        return None
    is_field = any(isinstance(each, ast.AnnAssign) and last_name(each.target) == parent.arg for each in owner.body)
    return _GivenField(parent.arg, owner.name, bound[0].path) if is_field else None


def _reads(sources: Sources, field: str) -> Iterator[Place]:
    for path in sorted(sources.words.as_attribute(field)):
        loaded = sources.file(path)
        for attribute in loaded[0].attributes.get(field, ()) if loaded is not None else ():
            if isinstance(attribute.ctx, ast.Load):
                yield Place(path, attribute)
