"""What the packages of a project, and objects of its own classes, import when they are asked for something.

`from nets import Net` imports `nets.fast`, where the package `nets` says so in a table; and of
`fast = LazyModule("nets.fast")` the module is imported when something of it is used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.computed_names import ComputedName, Parsed
from torchferry.source.exports import dotted
from torchferry.source.flow.syntax import last_name
from torchferry.source.import_calls import all_import_calls, argument
from torchferry.source.lazy_packages import LazyExports, exports_for_types, lazy_exports
from torchferry.source.names import Names, assigned_value
from torchferry.source.outline import Outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

Texts = Callable[[PythonFile, Names, ast.expr], tuple[str, ...]]
"""Returns the texts that an expression may have."""

_DEEPEST = 10
"""Packages that take a name from one another, each when it is asked for it."""


class StandIn(NamedTuple):
    """A class of the project whose objects import a module when something of it is asked of them.

    Attributes:
        path: The file of the class.
        position: The argument that names the module.
        keyword: The name of that argument.
    """

    path: str
    position: int
    keyword: str


class LazyImports:
    """Answers what is imported when it is requested.

    Args:
        outlines: What the files import.
        paths: The files of the project.
        text: Returns the text of a file.
        parsed: Returns a file, parsed.
        find: Returns the file that a module name means to a file.
    """

    def __init__(
        self,
        outlines: Sequence[Outline],
        paths: Iterable[str],
        text: Callable[[str], str],
        parsed: Parsed,
        find: Callable[[str, str], str | None],
    ) -> None:
        self._packages = frozenset(outline.path for outline in outlines if outline.may_be_lazy)
        self._dynamic = sorted(outline.path for outline in outlines if outline.is_dynamic)
        self._paths = paths
        self._text = text
        self._parsed = parsed
        self._find = find
        self._exports: dict[str, LazyExports | None] = {}

    # --- packages ---

    def exports(self, path: str) -> LazyExports | None:
        """Return what the file of a package imports when it is requested; None where it does not do so."""
        if path not in self._packages:
            return None
        if path not in self._exports:
            loaded = self._parsed(path)
            exported = lazy_exports(loaded[0].tree) if loaded is not None else None
            stub = self._parsed(f"{path}i") if exported is not None and exported.stub else None
            if exported is not None and stub is not None:
                exported = exports_for_types(stub[0].tree)
            self._exports[path] = exported
        return self._exports[path]

    def modules(self, path: str, names: Iterable[str], depth: int = 0) -> Iterator[str]:
        """Yield the modules that a package imports when it is asked for some names; `*` represents all.

        Args:
            path: The file of the package.
            names: The names.
            depth: How many packages were asked before.
        """
        exports = self.exports(path)
        if exports is None or depth > _DEEPEST:
            return
        package = "." + dotted(path.removesuffix("/__init__.py")) if "/" in path else "."
        for name in exports.modules if "*" in names else names:
            module = exports.modules.get(name) or self._by_star(exports, package, path, name)
            if module is None:
                continue
            whole = f"{package}.{module}"
            yield whole
            inner = self._find(whole, path)
            if inner is not None and module != name:
                yield from self.modules(inner, [name], depth + 1)

    def _by_star(self, exports: LazyExports, package: str, path: str, name: str) -> str | None:
        """Return the module of a package that defines a name, of those of which it takes all names."""
        for module in exports.stars:
            own = self._find(f"{package}.{module}", path)
            if own is not None and re.search(
                rf"^(?:def|class) {re.escape(name)}\b|^{re.escape(name)} ?=", self._text(own), re.M
            ):
                return module
        return None

    def asked(self, path: str, package: str) -> Iterator[tuple[str, int]]:
        """Yield the modules that a file asks a package for by attributes, such as `nets.Net`, with the lines."""
        exports, loaded = self.exports(package), self._parsed(path)
        if exports is None or loaded is None:
            return
        file, names = loaded
        for name in file.attributes if exports.stars else [name for name in file.attributes if name in exports.modules]:
            for attribute in file.attributes[name]:
                module = names.qualified(attribute.value)
                if module is not None and self._find(module, path) == package:
                    line = file.statement(attribute).lineno
                    yield from ((each, line) for each in self.modules(package, [name]))

    def says_all(self, path: str, owner: str) -> bool:
        """Whether it is told elsewhere what a class of a file imports, or the `__getattr__` of a module.

        The tables of the packages say it for which objects of the class stand in, or those who make its objects.
        """
        if owner == "__getattr__":
            return self._is_whole(path)
        if not owner or owner in self.stand_ins:
            return bool(owner)
        packages = [each for each in sorted(self._packages) if f"{owner}(" in self._text(each)]
        return bool(packages) and all(map(self._is_whole, packages))

    def _is_whole(self, path: str) -> bool:
        exports = self.exports(path)
        return exports is not None and not exports.is_open

    # --- objects that stand in for a module ---

    @cached_property
    def stand_ins(self) -> dict[str, StandIn]:
        """The classes whose objects import a module when something of it is asked of them, by their names."""
        stand_ins: dict[str, StandIn] = {}
        for path in self._dynamic:
            text = self._text(path)
            loaded = self._parsed(path) if "def __getattr__(self" in text and "class " in text else None
            if loaded is None:
                continue
            file, names = loaded
            for imported in all_import_calls(names):
                owner = file.enclosing_class(imported.call)
                argument = _argument(file, owner, imported.asked) if owner is not None else None
                if owner is not None and argument is not None:
                    stand_ins.setdefault(owner.name, StandIn(path, *argument))
        return stand_ins

    @cached_property
    def _makers(self) -> set[str]:
        """The files that may make such an object, judged by their texts."""
        called = [f"{name}(" for name in self.stand_ins]
        paths = self._paths if called else ()
        return {path for path in paths if any(each in self._text(path) for each in called)}

    def stand_in(self, file: PythonFile, names: Names, call: ast.Call) -> StandIn | None:
        """Return the class whose object a call makes; None where that stands in for no module."""
        stand_in = self.stand_ins.get(last_name(call.func))
        if stand_in is None:
            return None
        module, _, name = (names.qualified(call.func) or "").rpartition(".")
        if not module:
            is_here = stand_in.path == file.path and any(each.name == last_name(call.func) for each in file.classes)
            return stand_in if is_here else None
        path = self._find(module, file.path)
        return stand_in if path is not None and (path == stand_in.path or name in self._text(path)) else None

    def take_made(self, path: str, texts: Texts) -> Iterator[ComputedName]:
        """Yield the modules for which objects of a file stand in, once.

        Args:
            path: The file.
            texts: Returns the texts that an expression may have.
        """
        if path not in self._makers:
            return
        self._makers.discard(path)
        loaded = self._parsed(path)
        if loaded is None:
            return
        file, names = loaded
        for call, given in self._made(file, names):
            text = " ".join(file.text(call).split())[:80]
            yield ComputedName(call.lineno, text, texts(file, names, given), every=False)

    def _made(self, file: PythonFile, names: Names) -> Iterator[tuple[ast.Call, ast.expr]]:
        """Yield the calls of a file that make such objects, each with what names the module."""
        for name in self.stand_ins:
            for call in file.calls_by_name(name):
                stand_in = self.stand_in(file, names, call)
                given = argument(call, stand_in.position, stand_in.keyword) if stand_in is not None else None
                if given is not None:
                    yield call, given


def _argument(file: PythonFile, owner: ast.ClassDef, asked: ast.expr | None) -> tuple[int, str] | None:
    """Return which argument of a class is the name of the module that its objects import, by place and by name.

    `self.module` is what `self.module = name` stores, and the name of a module is what its base is given.
    """
    if not isinstance(asked, ast.Attribute) or not isinstance(asked.value, ast.Name) or asked.value.id != "self":
        return None
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    maker = methods.get("__init__")
    if maker is None or "__getattr__" not in methods:
        return None
    given: list[ast.expr | None] = [
        assigned_value(file, store)
        for store in file.attributes.get(asked.attr, ())
        if isinstance(store.ctx, ast.Store) and file.enclosing_function(store) is maker
    ]
    if asked.attr == "__name__":
        calls = (each for each in file.calls_by_name("__init__") if file.enclosing_function(each) is maker)
        given = [each.args[0] for each in calls if each.args]
    name = given[0].id if len(given) == 1 and isinstance(given[0], ast.Name) else ""
    arguments = [each.arg for each in (*maker.args.posonlyargs, *maker.args.args)]
    if name in arguments[1:]:
        return arguments.index(name) - 1, name
    return (len(arguments), name) if name in {each.arg for each in maker.args.kwonlyargs} else None


def names_taken(project: Project, path: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that an import takes of a module; a star takes those in `__all__`, and imports what is a module.

    Where `__all__` of a package is computed, it may name each of its modules.

    Args:
        project: The project.
        path: The file of the module; None for one that has none.
        names: The names as they are written.
    """
    if path is None or "*" not in names or not path.endswith("__init__.py"):
        return names
    source = project.text(path)
    exports = project.exports(path) if source is not None and "__all__" in source.text else None
    if exports is None:
        return names
    folder = path.removesuffix("__init__.py")
    stems = (each.removeprefix(folder).removesuffix(".py") for each in project.paths if each.startswith(folder))
    below = sorted(stem.removesuffix("/__init__") for stem in stems) if exports.is_open else ()
    return (*names, *(exports.declared or ()), *(stem for stem in below if stem.isidentifier() and stem != "__init__"))
