"""Whether a program reaches a piece of code at all, whatever has to hold on the way.

What a migration changes is counted where a program reaches it. There are thousands of such places, so that each is
asked of its function or file, and each of these once: which uses and imports lead there, from the file that is
started. Conditions are not asked: code behind an option is changed too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.module_graph import Edge, Modules
from torchferry.programs.imports.sources import Sources, current
from torchferry.programs.model import Form, Program
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.place_context import is_under_main, unit_of
from torchferry.source.flow.syntax import last_name

_MOST_UNITS = 1_000
"""Functions of a project whose references are searched for here; code that only further ones lead to counts as reached.

Projects with 50 to 1,000 files ask for 10 to 370. In a library of 1,500 files that import one another on first use
(diffusers) one question of one program comes to 4,000, each 40 ms: methods of common names lead everywhere.
"""


class _CodeUnit(NamedTuple):
    """A function, by its file and place; with line 0 what runs when the file itself does."""

    path: str
    line: int = 0
    column: int = 0


class ReferenceEdge(NamedTuple):
    """What leads to a piece: another piece that imports or names it.

    Attributes:
        piece: That piece.
        when_started: Whether it is run only where its file is the one that is started.
        table: The table of its module in which alone the name stands; empty where it is used.
    """

    piece: _CodeUnit
    when_started: bool = False
    table: str = ""


class _Imported(NamedTuple):
    """What imports a file: how many imports there are, what is at the left margin, and the places of the rest."""

    edges: int
    plain: tuple[ReferenceEdge, ...]
    inside: tuple[tuple[str, int], ...]


class ReferenceGraph:
    """What leads to the pieces of a project, for all its programs: each is worked out once.

    Args:
        sources: The project's files.
        modules: Its imports.
        uses: Where functions and classes are used.
    """

    def __init__(self, sources: Sources, modules: Modules, uses: Uses) -> None:
        self._sources = sources
        self._modules = modules
        self._uses = uses
        self._into: dict[_CodeUnit, tuple[ReferenceEdge, ...]] = {}
        self._imported: dict[str, _Imported] = {}
        self._importing: dict[tuple[str, int], ReferenceEdge | None] = {}
        self._around: dict[ast.AST, ReferenceEdge] = {}
        self._mentions: dict[str, dict[str, int]] = {}
        self.units: dict[_CodeUnit, ast.FunctionDef | ast.AsyncFunctionDef] = {}

    def into(self, piece: _CodeUnit, among: Container[str]) -> Iterator[ReferenceEdge]:
        """Yield what leads to a piece from some files: who imports the file, who speaks of the function."""
        if not piece.line:
            yield from self._importers(piece.path, among)
            return
        if piece not in self._into:
            self._into[piece] = tuple(dict.fromkeys(self._users(piece)))
        for edge in self._into[piece]:
            if edge.piece.path in among:
                yield edge

    def is_beyond(self, piece: _CodeUnit) -> bool:
        """Whether a function is one of those whose references are not searched for any more."""
        return bool(piece.line) and len(self._into) >= _MOST_UNITS and piece not in self._into

    def of(self, path: str, node: ast.AST) -> ReferenceEdge:
        """Return what a node is a part of."""
        if node not in self._around:
            self._around[node] = self._of(path, node)
        return self._around[node]

    def _of(self, path: str, node: ast.AST) -> ReferenceEdge:
        loaded = self._sources.file(path)
        if loaded is None:
            return ReferenceEdge(_CodeUnit(path))
        file, _ = loaded
        node = current(file, node)
        unit = unit_of(file, node)
        if unit is None:
            return ReferenceEdge(_CodeUnit(path), is_under_main(file, node))
        piece = _CodeUnit(path, unit.lineno, unit.col_offset)
        self.units[piece] = unit
        return ReferenceEdge(piece)

    def mentions(self, name: str) -> dict[str, int]:
        """Return how often files hold a name; those that do not are left out."""
        if name not in self._mentions:
            word = re.compile(rf"\b{re.escape(name)}\b")
            texts = ((path, self._sources.text(path)) for path in self._sources.words.holding(name))
            self._mentions[name] = {path: len(word.findall(text)) for path, text in texts}
        return self._mentions[name]

    def _importers(self, path: str, among: Container[str]) -> Iterator[ReferenceEdge]:
        """Yield what imports a file, the imports at the left margin first: the others take a look at the syntax."""
        edges = self._modules.importers.get(path, ())
        if path not in self._imported or self._imported[path].edges < len(edges):  # computed ones are met late
            plain = dict.fromkeys(edge.importer for edge in edges if not edge.indented)
            inside = tuple((edge.importer, edge.line) for edge in edges if edge.indented)
            self._imported[path] = _Imported(
                len(edges), tuple(ReferenceEdge(_CodeUnit(importer)) for importer in plain), inside
            )
        imported = self._imported[path]
        for edge in imported.plain:
            if edge.piece.path in among:
                yield edge
        for importer, line in imported.inside:
            inner = self._import_at(importer, line) if importer in among else None
            if inner is not None:
                yield inner

    def _import_at(self, importer: str, line: int) -> ReferenceEdge | None:
        if (importer, line) not in self._importing:
            node = self._sources.statement(importer, line)
            self._importing[importer, line] = self.of(importer, node) if node is not None else None
        return self._importing[importer, line]

    def _users(self, piece: _CodeUnit) -> Iterator[ReferenceEdge]:
        loaded = self._sources.file(piece.path)
        if loaded is None:
            return
        file, names = loaded
        for use in self._uses.each(file, names, current(file, self.units[piece])):
            if use.place.node is not None:
                table = self._table(use.place.path, use.place.node)
                yield self.of(use.place.path, use.place.node)._replace(table=table)

    def _table(self, path: str, node: ast.AST) -> str:
        """Return the name of the table of a module in which a node stands; empty where it is in none."""
        loaded = self._sources.file(path)
        if loaded is None:
            return ""
        file, _ = loaded
        table = file.parents.get(current(file, node))
        statement = file.parents.get(table) if isinstance(table, ast.Dict) else None
        if not isinstance(statement, ast.Assign) or file.parents.get(statement) is not file.tree:
            return ""
        return last_name(statement.targets[0])


class ReachableCode:
    """Says what one program comes to.

    Args:
        program: The program.
        closure: The files that the program reaches by imports, wherever these stand.
        references: The references to the functions and files of the project.
        plain: Files that are run whenever the program is.
    """

    def __init__(
        self, program: Program, closure: dict[str, Edge | None], references: ReferenceGraph, plain: Iterable[str]
    ) -> None:
        self._program = program
        self._closure = closure
        self._references = references
        self._known: dict[_CodeUnit, bool] = dict.fromkeys(map(_CodeUnit, plain), True)
        self._looked_up: dict[str, bool] = {}

    def runs(self, path: str) -> bool:
        """Whether the program reaches a file of those that it reaches by imports."""
        return self._is_live(_CodeUnit(path))

    def comes_to(self, path: str, node: ast.AST) -> bool:
        """Whether the program reaches a node of such a file."""
        return self.leads_here(self._references.of(path, node))

    def leads_here(self, edge: ReferenceEdge) -> bool:
        """Whether the program comes to what a place of such a file is a part of."""
        return self._counts(edge) and self._is_live(edge.piece)

    def _is_live(self, start: _CodeUnit) -> bool:
        if start in self._known:
            return self._known[start]
        todo = [start]
        after: dict[_CodeUnit, _CodeUnit] = {}
        seen = {start}
        while todo:
            piece = todo.pop()
            if self._known.get(piece) or self._begins_in(piece) or self._references.is_beyond(piece):
                self._known[piece] = True
                while piece != start:  # what it leads to is live too
                    piece = after[piece]
                    self._known[piece] = True
                return True
            for before in self._before(piece) if piece not in self._known else ():
                if before not in seen:
                    seen.add(before)
                    after[before] = piece
                    todo.append(before)
        self._known |= dict.fromkeys(seen, False)
        return False

    def _begins_in(self, piece: _CodeUnit) -> bool:
        """Whether the user's command leads here by itself."""
        program = self._program
        if not piece.line:
            return piece.path == program.path or self._closure.get(piece.path, program) is None
        unit = self._references.units[piece]
        if program.form is Form.LIBRARY:
            return program.offers(piece.path, unit.name)
        return program.form is Form.CONSOLE and piece.path == program.path and unit.name == program.function

    def _before(self, piece: _CodeUnit) -> Iterator[_CodeUnit]:
        """Yield what leads to a piece in the files of the program."""
        for edge in self._references.into(piece, self._closure):
            if self._counts(edge) and (not edge.table or self._is_looked_up(edge.table)):
                yield edge.piece

    def _counts(self, edge: ReferenceEdge) -> bool:
        """Whether something is run in this program: not what only another file runs when it is started."""
        is_started = edge.piece.path == self._program.path and self._program.form is not Form.CONSOLE
        return is_started or not edge.when_started

    def _is_looked_up(self, table: str) -> bool:
        """Whether anything that is reached looks into a table of a module, or names it again."""
        if table not in self._looked_up:
            mentions = self._references.mentions(table)
            self._looked_up[table] = sum(times for path, times in mentions.items() if path in self._closure) > 1
        return self._looked_up[table]
