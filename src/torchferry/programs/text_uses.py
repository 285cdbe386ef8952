"""Where functions and classes are chosen by texts: `default="name"`, `type="name"`, `_target_="package.name"`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.programs.model import Need
from torchferry.programs.per_file import per_file
from torchferry.programs.use_kinds import Place, Use
from torchferry.programs.use_syntax import is_export_list
from torchferry.source.flow.syntax import string_value
from torchferry.source.python import PythonFile


@per_file
def _strings(file: PythonFile, name: str) -> list[ast.Constant]:
    """Return the strings of a file that are a name, or end with a dot and the name."""
    return [constant for constant in file.strings if str(constant.value).rpartition(".")[2] == name]


def string_uses(other: PythonFile, name: str, registered: bool, defining: str) -> Iterator[Use]:
    """Yield where a file chooses a name as a text.

    Args:
        other: The file.
        name: The name of a function or class.
        registered: Whether something keeps it by its name.
        defining: The file that defines it.
    """
    for constant in _strings(other, name):
        dotted = constant.value != name
        parent = other.parents.get(constant)
        if isinstance(parent, (ast.List, ast.Tuple)) and is_export_list(other, parent):
            continue
        if isinstance(parent, ast.Expr):
            continue
        if isinstance(parent, ast.keyword) and parent.arg == "default":
            yield Use(Place(other.path, constant))
            continue
        call = other.parents.get(parent) if isinstance(parent, (ast.List, ast.Tuple)) else None
        if isinstance(call, ast.keyword) and call.arg == "choices":
            option = other.parents.get(call)
            flag = next((string_value(part) for part in getattr(option, "args", ()) if string_value(part)), name)
            yield Use(Place(other.path, constant), Need.OPTION, option=f"{flag} {name}")
            continue
        if (
            dotted
            or (isinstance(parent, (ast.keyword, ast.Dict)) and registered)
            or (registered and isinstance(parent, (ast.Call, ast.Assign, ast.arguments)) and other.path != defining)
        ):
            yield Use(Place(other.path, constant))
