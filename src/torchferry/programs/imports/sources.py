"""The files of a project, parsed when they are requested: Python and the cells of notebooks."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from torchferry.core.files import read_regular
from torchferry.core.finding import Location
from torchferry.programs.imports.computed_names import calls_importing
from torchferry.programs.imports.instantiations import naming
from torchferry.programs.syntax.identifier_index import IdentifierIndex
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind
from torchferry.source.names import Names
from torchferry.source.nodes import children_of
from torchferry.source.notebook import Cell, cell_source
from torchferry.source.project import KEPT, Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import UndecodableError

_ROOM = KEPT
"""Nodes of the parsed files that are kept: the ways of all programs go through the same ones."""

_NOTEBOOKS = 100
"""Parsed notebooks that are kept."""

LONGEST = 2_000_000
"""Characters of a file that is looked into; generated files are longer."""


_Node = TypeVar("_Node", bound=ast.AST)


class Sources:
    """Reads and parses the files of a project.

    Args:
        project: The project's Python files.
        notebooks: Its notebooks.
        texts: The texts of notebooks that were parsed before.
        names: The words of files of which they are known, as `IdentifierIndex` takes them.
    """

    def __init__(
        self,
        project: Project,
        notebooks: Iterable[str] = (),
        texts: Mapping[str, str] | None = None,
        names: Mapping[str, bytes] | None = None,
    ) -> None:
        self.project = project
        self.notebooks = frozenset(notebooks)
        self.words = IdentifierIndex(sorted(project.paths | self.notebooks), self.text, names)
        project.keep(_ROOM)
        self._files: OrderedDict[str, tuple[PythonFile, Names] | None] = OrderedDict()
        self._short: set[str] = set()
        self._cells: dict[str, dict[int, Cell]] = {}
        self._texts = dict(texts or {})
        self._lines: dict[str, list[str]] = {}
        self._ends: WeakKeyDictionary[PythonFile, list[int]] = WeakKeyDictionary()
        self._nodes: dict[Location, tuple[PythonFile, ast.AST | None]] = {}

    def file(self, path: str) -> tuple[PythonFile, Names] | None:
        """Return a file, parsed, or None when it cannot be read."""
        if path not in self.notebooks:
            if path not in self._short:
                if len(self.text(path)) > LONGEST:
                    return None
                self._short.add(path)
            return self.project.file(path)
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        self._files[path] = loaded = self._notebook(path)
        while len(self._files) > _NOTEBOOKS:
            self._files.popitem(last=False)
        return loaded

    def is_parsed(self, path: str) -> bool:
        """Whether a file was parsed for some question before, and is Python."""
        return self._files.get(path) is not None if path in self.notebooks else self.project.is_parsed(path)

    def _notebook(self, path: str) -> tuple[PythonFile, Names] | None:
        try:
            document = Document.read(path, Kind.NOTEBOOK, read_regular(self.project.root / path))
            file = PythonFile(path, document.source)
            assert document.notebook is not None
            self._cells[path] = {cell.number: cell for cell in document.notebook.cells}
        except (OSError, UndecodableError, NotJsonError, UnparsableError):
            return None
        return file, Names(file, self.project)

    def node(self, place: Location) -> ast.AST | None:
        """Return the statement or expression at a place; None where there is none, or the file is no Python.

        What a notebook tells the shell is the statement that represents it.
        """
        loaded = self.file(place.path)
        if loaded is None:
            return None
        file, node = self._nodes.get(place, (None, None))
        if file is not loaded[0]:  # else the file is as it was when it was asked before
            node = self._found(place, loaded[0])
            self._nodes[place] = (loaded[0], node)
        return node

    def _found(self, place: Location, file: PythonFile) -> ast.AST | None:
        cell = self._cells[place.path].get(place.cell) if place.cell and place.path in self._cells else None
        if place.cell and cell is None:
            return None
        starts = file.source.starts if cell is None else cell_source(cell.text).starts
        base = 0 if cell is None else cell.start
        if not 0 < place.line <= len(starts):
            return None
        start = base + starts[place.line - 1] + place.column - 1
        end = base + starts[min(place.end_line, len(starts)) - 1] + place.end_column - 1
        text = file.source.text
        if cell is not None and text[start:end].isspace():  # a command, which is blank but for its first character
            start = max(self._end_of_code(file, start) - 1, 0)
            end = start + 1
        return file.node_at(start, max(end, start))

    def _end_of_code(self, file: PythonFile, offset: int) -> int:
        """Return where what is not blank ends before an offset of a notebook's text."""
        text = file.source.text
        if not text[offset - 1 : offset].isspace():
            return offset
        if file not in self._ends:
            self._ends[file] = [match.end() for match in re.finditer(r"\S+", text)]
        before = bisect_right(self._ends[file], offset)
        return self._ends[file][before - 1] if before else 0

    def statement(self, path: str, line: int) -> ast.AST | None:
        """Return the syntax of an import on a line of a file, or None where its text is no import.

        What asks a package for what this imports then is the statement, or the call in it.
        """
        loaded = self.file(path)
        if loaded is None:
            return None
        statement = import_at(loaded[0], line)
        if statement is not None:
            return statement
        calls = (call for call in calls_importing(*loaded) if call.lineno == line)
        named = next(calls, None) or next((node for node in naming(*loaded) if node.lineno == line), None)
        return named or _statement_at(loaded[0], line)

    def text(self, path: str) -> str:
        """Return the text of a file as Python sees it; empty when it cannot be read."""
        if path not in self._texts:
            if path in self.notebooks:
                loaded = self.file(path)
                self._texts[path] = loaded[0].source.text if loaded is not None else ""
            else:
                source = self.project.text(path)
                self._texts[path] = source.text if source is not None else ""
        return self._texts[path]

    def sets_by_magic(self, path: str, name: str) -> bool:
        """Whether a cell of a notebook sets a variable of the environment: `%env NAME=value`."""
        if self.file(path) is None:
            return False
        pattern = re.compile(rf"(?m)^[ \t]{{0,40}}%(?:set_)?env[ \t]{{1,40}}{re.escape(name)}\b")
        return any(pattern.search(cell.text) for cell in self._cells.get(path, {}).values())

    def line(self, path: str, number: int) -> str:
        """Return a line of a file, counted from 1; empty when there is none."""
        if path not in self._lines:
            self._lines[path] = self.text(path).split("\n")
        lines = self._lines[path]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def current(file: PythonFile, node: _Node) -> _Node:
    """Return a node of a file that was parsed before, as the file has it now: parsed files are not kept for ever."""
    if isinstance(node, ast.Subscript) and not hasattr(node, "lineno"):  # made of a part of the file: see `_made_again`
        of = current(file, node.value)
        return node if of is node.value else cast(_Node, ast.Subscript(of, node.slice, node.ctx))
    if node in file.parents or node is file.tree or not hasattr(node, "lineno"):
        return node
    try:
        same = file.node_at(*file.span(node))
    except (ValueError, IndexError):
        return node
    while same is not None and (type(same) is not type(node) or _place(same) != _place(node)):
        same = file.parents.get(same)
    if same is None and isinstance(node, ast.Compare):  # a condition that was made of parts of the file
        return cast(_Node, _made_again(file, node))
    return node if same is None else same


def _made_again(file: PythonFile, comparison: ast.Compare) -> ast.Compare:
    """Return a comparison that is in no file, with its parts as the file has them now."""
    left, *others = (current(file, part) for part in (comparison.left, *comparison.comparators))
    is_current = all(
        new is old for new, old in zip((left, *others), (comparison.left, *comparison.comparators), strict=True)
    )
    return comparison if is_current else ast.copy_location(ast.Compare(left, comparison.ops, others), comparison)


def _place(node: ast.AST) -> tuple[int, ...]:
    return tuple(getattr(node, field, 0) for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"))


def _statement_at(file: PythonFile, line: int) -> ast.AST | None:
    """Return what begins on a line: the call whose value a statement takes, or the statement itself."""
    waiting: list[ast.AST] = [file.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt) and node.lineno == line:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)) else None
            return value if isinstance(value, ast.Call) else node
        waiting += (
            child
            for child in children_of(node)
            if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)) and _spans(child, line)
        )
    return None


def _spans(node: ast.AST, line: int) -> bool:
    first = getattr(node, "lineno", None)
    return first is None or first <= line <= (getattr(node, "end_lineno", None) or first)


def import_at(file: PythonFile, line: int) -> ast.Import | ast.ImportFrom | None:
    """Return the import statement that begins on a line, or None."""
    return next((statement for statement in file.imports if statement.lineno == line), None)
