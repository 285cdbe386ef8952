"""Class methods that make an object of their class, `Net.from_pretrained`, and that nobody asks for.

What they give the class decides nothing in a program that makes its objects otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.programs.imports.sources import Sources
from torchferry.programs.syntax.place_context import unit_of
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


def maker_of(file: PythonFile, call: ast.Call) -> tuple[str, str] | None:
    """Return the class method that makes an object of its class by a call, `cls(...)`, with the name of the class."""
    if not isinstance(call.func, ast.Name) or call.func.id != "cls":
        return None
    method, owner = unit_of(file, call), file.enclosing_class(call)
    if method is None or owner is None or file.parents.get(method) is not owner or method.name.startswith("__"):
        return None
    kinds = [last_name(each) for each in method.decorator_list]
    return (owner.name, method.name) if kinds == ["classmethod"] else None


def is_unasked(sources: Sources, paths: Iterable[str], maker: tuple[str, str]) -> bool:
    """Whether some files ask no object and no class that may be meant for a class method.

    Args:
        sources: The project's files.
        paths: The files that say its name.
        maker: The class and its method.
    """
    owner, method = maker
    if sources.words.as_base(owner):
        return False  # those that are derived from it have the method, too
    for path in paths:
        loaded = sources.file(path)
        if loaded is None or any(string_value(each) == method for each in loaded[0].strings):
            return False
        if any(_may_be_of(sources, *loaded, attribute, owner) for attribute in loaded[0].attributes.get(method, ())):
            return False
    return True


def _may_be_of(sources: Sources, file: PythonFile, names: Names, attribute: ast.Attribute, owner: str) -> bool:
    """Whether what is asked for a method may be a class: nothing else that a name certainly represents is."""
    value = attribute.value
    if isinstance(value, ast.Name) and value.id in ("self", "cls"):
        around_it = file.enclosing_class(attribute)
        return around_it is None or around_it.name == owner
    qualified = names.qualified(value)
    if qualified is not None:
        project = sources.project
        *before, last = qualified.split(".")
        beginnings = (".".join(before[:end]) for end in range(1, len(before) + 1))
        is_own = qualified[:1] == "." or any(project.module_path(each, file.path) is not None for each in beginnings)
        is_own = is_own or project.module_path(last, file.path) is not None
        return is_own and (last == owner or not _is_class(sources, last))
    bindings = names.bindings(value) if isinstance(value, ast.Name) else []
    if bindings and all(isinstance(each, ast.ClassDef) for each in bindings):
        return last_name(value) == owner
    return True


def _is_class(sources: Sources, name: str) -> bool:
    """Whether the project defines a class of a name: another one may be given to the class in question."""
    return any(f"class {name}" in sources.text(path) for path in sources.words.beginning(name))
