"""Whether a program comes to a piece of code at all, whatever has to hold on the way.

What a migration changes is counted where a program comes to it. There are thousands of such places, so that each is
asked of its function or file, and each of these once: which uses and imports lead there, from the file that is
started. Conditions are not asked: code behind an option is changed too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torchferry.programs.around import is_under_main, unit_of
from torchferry.programs.model import Form, Program
from torchferry.programs.modules import Edge, Modules
from torchferry.programs.sources import Sources, current
from torchferry.programs.uses import Place, Uses
from torchferry.source.flow.syntax import last_name


class _Piece(NamedTuple):
    """A function, by its file and place; with line 0 what runs when the file itself does."""

    path: str
    line: int = 0
    column: int = 0


class Live:
    """Says what one program comes to.

    Args:
        program: The program.
        sources: The project's files.
        modules: Its imports.
        closure: The files that the program reaches by imports, wherever these stand.
        uses: Where functions and classes are used.
        statement: Returns the syntax of an import.
    """

    def __init__(
        self,
        program: Program,
        sources: Sources,
        modules: Modules,
        closure: dict[str, Edge | None],
        uses: Uses,
        statement: Callable[[Edge], ast.AST | None],
    ) -> None:
        self._program = program
        self._sources = sources
        self._modules = modules
        self._closure = closure
        self._uses = uses
        self._statement = statement
        self._units: dict[_Piece, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._known: dict[_Piece, bool] = {}
        self._words: dict[str, int] = {}

    def runs(self, path: str) -> bool:
        """Whether the program comes to a file of those that it reaches by imports."""
        return self._is_live(_Piece(path))

    def comes_to(self, path: str, node: ast.AST) -> bool:
        """Whether the program comes to a node of such a file."""
        piece = self._piece(path, node)
        return piece is not None and self._is_live(piece)

    def _piece(self, path: str, node: ast.AST) -> _Piece | None:
        """Return what a node is a part of; None where it is run only when another file is started."""
        loaded = self._sources.file(path)
        if loaded is None:
            return _Piece(path)
        file, _ = loaded
        node = current(file, node)
        unit = unit_of(file, node)
        if unit is not None:
            piece = _Piece(path, unit.lineno, unit.col_offset)
            self._units[piece] = unit
            return piece
        is_started = path == self._program.path and self._program.form is not Form.CONSOLE
        return _Piece(path) if is_started or not is_under_main(file, node) else None

    def _is_live(self, start: _Piece) -> bool:
        todo = [start]
        after: dict[_Piece, _Piece] = {}
        seen = {start}
        while todo:
            piece = todo.pop()
            if self._known.get(piece) or self._begins_in(piece):
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

    def _begins_in(self, piece: _Piece) -> bool:
        """Whether the user's command leads here by itself."""
        program = self._program
        if not piece.line:
            return piece.path == program.path or self._closure.get(piece.path, program) is None
        unit = self._units[piece]
        if program.form is Form.LIBRARY:
            return not unit.name.startswith("_")
        return program.form is Form.CONSOLE and piece.path == program.path and unit.name == program.function

    def _before(self, piece: _Piece) -> Iterator[_Piece]:
        """Yield what leads to a piece: who imports the file, who speaks of the function."""
        if not piece.line:
            for edge in self._modules.importers.get(piece.path, ()):
                if edge.importer in self._closure:
                    node = self._statement(edge) if edge.indented else None
                    found = self._piece(edge.importer, node) if node is not None else _Piece(edge.importer)
                    if found is not None and (node is not None or not edge.indented):
                        yield found
            return
        loaded = self._sources.file(piece.path)
        if loaded is None:
            return
        file, names = loaded
        for use in self._uses.of(file, names, current(file, self._units[piece])):
            if use.place.path in self._closure and use.place.node is not None and self._is_taken(use.place):
                found = self._piece(use.place.path, use.place.node)
                if found is not None:
                    yield found

    def _is_taken(self, place: Place) -> bool:
        """Whether a name is used where it is spoken of: not in a table of a module that nothing reached looks into."""
        loaded = self._sources.file(place.path)
        if loaded is None or place.node is None:
            return True
        file, _ = loaded
        table = file.parents.get(current(file, place.node))
        statement = file.parents.get(table) if isinstance(table, ast.Dict) else None
        if not isinstance(statement, ast.Assign) or file.parents.get(statement) is not file.tree:
            return True
        name = last_name(statement.targets[0])
        if name not in self._words:
            word = re.compile(rf"\b{re.escape(name)}\b")
            times = sum(len(word.findall(self._sources.text(path))) for path in self._closure)
            self._words[name] = times
        return self._words[name] > 1
