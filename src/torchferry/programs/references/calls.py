"""Where the functions of a project are called by their names, file by file, whichever program asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.sources import Sources
from torchferry.programs.references.escapes import Escape, escapes_in
from torchferry.programs.syntax.dynamic_lookups import namespace_lookups
from torchferry.programs.syntax.parameters import handed_on
from torchferry.programs.syntax.per_file import per_file
from torchferry.programs.syntax.place_context import FunctionNode, is_under_main
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_ASKS = lazy_regex(r"\bgetattr\(\s{0,20}(?:\w+\.)*(\w+)\s{0,20},")

FunctionPlace = tuple[str, str, int]
"""A function: its file, the name by which it is called, and its line."""


class Called(NamedTuple):
    """A name that is called, the call, and whether that is only where the file is the one that is started."""

    callee: ast.Name | ast.Attribute
    call: ast.Call
    when_started: bool


class CallPlace(NamedTuple):
    """Where a name is called: the line and the column, and whether it is so only where the file is started."""

    line: int
    column: int
    when_started: bool


class CallPlaces:
    """Tells where functions are called: of each file this is known without its syntax once it was asked."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._places: dict[tuple[str, FunctionPlace], tuple[CallPlace, ...]] = {}
        self._paths: dict[FunctionPlace, frozenset[str]] = {}
        self._asked: dict[str, tuple[str, ...]] = {}
        self._escapes: dict[tuple[str, FunctionPlace], tuple[Escape, ...]] = {}

    def paths(self, of: FunctionPlace) -> frozenset[str]:
        """Return the files that may call a function."""
        if of not in self._paths:
            defined_in, called, _ = of
            words = self._sources.words
            self._paths[of] = words.as_call(called) | words.as_argument(called) | {defined_in}
        return self._paths[of]

    def within(self, path: str, of: FunctionPlace) -> tuple[CallPlace, ...]:
        """Return where a file may call a function."""
        if (path, of) not in self._places:
            self._places[path, of] = tuple(self._found(path, of))
        return self._places[path, of]

    def escapes(self, path: str, of: FunctionPlace) -> tuple[Escape, ...]:
        """Return where a file speaks of a function and does not call it."""
        if (path, of) not in self._escapes:
            defined_in, called, line = of
            defining, loaded = self._sources.file(defined_in), self._sources.file(path)
            function = next((each for each in defining[0].functions if each.lineno == line), None) if defining else None
            escapes = escapes_in(*loaded, called, function) if loaded is not None and function is not None else ()
            self._escapes[path, of] = tuple(escapes)
        return self._escapes[path, of]

    def modules_asked(self, path: str) -> tuple[str, ...]:
        """Return the modules in which a file looks names up by texts, as it has them; empty for itself."""
        if path not in self._asked:
            loaded = self._sources.file(path) if _may_look_up(self._sources.text(path)) else None
            lookups = namespace_lookups(*loaded) if loaded is not None else ()
            self._asked[path] = tuple(dict.fromkeys(each.module for each in lookups))
        return self._asked[path]

    def _found(self, path: str, of: FunctionPlace) -> Iterator[CallPlace]:
        defined_in, called, line = of
        defining, loaded = self._sources.file(defined_in), self._sources.file(path)
        function = next((each for each in defining[0].functions if each.lineno == line), None) if defining else None
        for callee, _, when_started in calls_in(loaded[0], (called, function)) if loaded and function else ():
            assert loaded is not None
            if self._may_mean(*loaded, callee, defined_in, called):
                yield CallPlace(callee.lineno, callee.col_offset, when_started)

    def _may_mean(self, other: PythonFile, names: Names, callee: ast.expr, defined_in: str, called: str) -> bool:
        """Whether a name that is called may be that of a file: no other file is known to define it."""
        if isinstance(callee, ast.Name):
            bindings = names.bindings(callee)
            own = [each for each in bindings if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
            if own and len(own) == len(bindings):
                return other.path == defined_in
        qualified = names.qualified(callee)
        module = qualified.rpartition(".")[0] if qualified is not None else ""
        path = self._sources.project.module_path(module, other.path) if module.strip(".") else None
        if path is None or path == defined_in:
            return True
        text = self._sources.text(path)
        return f"def {called}(" not in text and f"class {called}" not in text


def _may_look_up(text: str) -> bool:
    """Whether a file may look a name up in a module by a text: in itself, or in one that it imports."""
    if "globals()" in text or "__dict__[" in text or "sys.modules[" in text:
        return True
    asked = {match[1] for match in _ASKS.finditer(text)} if "getattr(" in text else ()
    return any(re.search(rf"^[ \t]*(?:from|import)\b[^\n]*\b{name}\b", text, re.MULTILINE) for name in asked)


@per_file
def calls_in(file: PythonFile, of: tuple[str, FunctionNode]) -> list[Called]:
    """Return where a file may call a function, by the name under which it is called, or hands it on."""
    called, function = of
    calls = [(callee, _call_of(file, callee, function)) for callee in _callees(file, called)]
    calls += calls_of_own_kind(file, called)
    return [Called(callee, call, is_under_main(file, callee)) for callee, call in calls if call is not None]


def _callees(file: PythonFile, name: str) -> Iterator[ast.Name | ast.Attribute]:
    """Yield where a file reads a name, or a member of that name; of a class also where it calls itself `cls`."""
    for callee in (*file.names.get(name, ()), *file.attributes.get(name, ())):
        if isinstance(callee.ctx, ast.Load):
            yield callee
    for callee in file.names.get("cls", ()):
        around = file.enclosing_class(callee)
        if around is not None and around.name == name:
            yield callee


def calls_of_own_kind(file: PythonFile, name: str) -> Iterator[tuple[ast.Name | ast.Attribute, ast.Call]]:
    """Yield the calls by which an object of a class makes another one: `type(self)(...)`, `self.__class__(...)`."""
    for use in (*file.names.get("type", ()), *file.attributes.get("__class__", ())):
        around = file.enclosing_class(use)
        asked: ast.AST | None = use
        if isinstance(use, ast.Name):
            asked = file.parents.get(use)
            if not isinstance(asked, ast.Call) or asked.func is not use or len(asked.args) != 1:
                continue
        call = file.parents.get(asked) if asked is not None else None
        if around is not None and around.name == name and isinstance(call, ast.Call) and call.func is asked:
            yield use, call


def _call_of(file: PythonFile, callee: ast.Name | ast.Attribute, function: FunctionNode) -> ast.Call | None:
    """Return the call of a name, or the one that it is handed on to; None where it is neither."""
    parent = file.parents.get(callee)
    return parent if isinstance(parent, ast.Call) and parent.func is callee else handed_on(file, callee, function)
