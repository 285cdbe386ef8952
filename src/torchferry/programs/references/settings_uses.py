"""Where functions and classes are used by what settings name, and by entry points of the project's own metadata."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from torchferry.programs.imports import instantiations, plugin_loading
from torchferry.programs.imports.instantiations import Instantiation, SettingsNames, find_instantiations
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Reachability
from torchferry.programs.syntax.per_file import per_file
from torchferry.programs.syntax.use_syntax import Place, Use, is_export_list
from torchferry.source.flow.syntax import string_value
from torchferry.source.python import PythonFile


class SettingsUses:
    """Finds where objects are made of classes that settings name.

    Args:
        sources: The project's files.
        modules: Its imports.
        counts: Whether a file may be one of a program.
        passes_on: Whether a file takes a name from another one, or from one that passes it on.
    """

    def __init__(
        self,
        sources: Sources,
        modules: Modules,
        counts: Callable[[str], bool],
        passes_on: Callable[[str, str, str], bool],
    ) -> None:
        self.sources = sources
        self.modules = modules
        self._counts = counts
        self._passes_on = passes_on
        self.names = SettingsNames(modules.settings)

    def named(self, file: PythonFile, name: str, method: str = "") -> Iterator[Use]:
        """Yield where an object is made of a class, or a function called, since settings name it."""
        for named in self.names.ending_with(method or name) if self._making_paths else ():
            whole, _, last = named.name.rpartition(".")
            module, _, owner = whole.rpartition(".") if method else (whole, "", last)
            if (owner, last) != (name, method or name):
                continue
            path = self.modules.find(module, "") if module else None
            if path is None or not (path == file.path or self._passes_on(path, name, file.path)):
                continue
            choice = f"{named.name} ({named.path}:{named.line})"
            for maker, making in self.makings:
                for test in making.tests(named):
                    reachability = Reachability.ALWAYS if test is not None else Reachability.CHOSEN
                    yield Use(
                        Place(maker, making.node), reachability, "" if test else choice, test=test, settings=named.path
                    )

    def loaded_as_plugin(self, file: PythonFile, name: str) -> Iterator[Use]:
        """Yield where a function or class is loaded by an entry point of the project's own metadata."""
        own = self.modules.plugins
        points = [point for point in own.points if point.member == name]
        points = [point for point in points if self.modules.find(point.module, point.path) == file.path]
        for path in sorted(self.sources.words.holding_any(plugin_loading.WORDS)) if points else ():
            loaded = self.sources.file(path)
            for asked in self.modules.asked_plugins(*loaded) if loaded is not None else ():
                if any(map(asked.may_give, points)):
                    is_sure = asked.is_sure(own)
                    choice = "" if is_sure else f"{name} ({path}:{asked.node.lineno})"
                    yield Use(Place(path, asked.node), Reachability.ALWAYS if is_sure else Reachability.CHOSEN, choice)

    @cached_property
    def _making_paths(self) -> tuple[str, ...]:
        """The files that may make objects of what settings name, judged by their words and imports."""
        holding = self.sources.words.holding_any
        making = {path for path in holding(instantiations.WORDS) if self._imports_any(path, instantiations.LIBRARIES)}
        return tuple(sorted(path for path in making | holding(instantiations.IMPORTS_BY_NAME) if self._counts(path)))

    def _imports_any(self, path: str, packages: frozenset[str]) -> bool:
        imports = self.modules.imports.get(path, ())
        return any(imported.module.partition(".")[0] in packages for imported in imports)

    @cached_property
    def makings(self) -> tuple[tuple[str, Instantiation], ...]:
        """The calls that make objects of what settings name, each with its file."""
        loaded = ((path, self.sources.file(path)) for path in self._making_paths)
        return tuple((path, each) for path, file in loaded if file is not None for each in find_instantiations(*file))


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
            yield Use(Place(other.path, constant), Reachability.OPTION, option=f"{flag} {name}")
            continue
        if (
            dotted
            or (isinstance(parent, (ast.keyword, ast.Dict)) and registered)
            or (registered and isinstance(parent, (ast.Call, ast.Assign, ast.arguments)) and other.path != defining)
        ):
            yield Use(Place(other.path, constant))
