"""The files of a project, parsed when they are asked for: Python and the cells of notebooks."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Iterable

from torchferry.core.files import read_regular
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import UndecodableError

_PARSED = 200
"""Parsed files that are kept: the ways of all programs go through the same ones."""

_LONGEST = 2_000_000
"""Characters of a file that is looked into; generated files are longer."""


class Sources:
    """Reads and parses the files of a project.

    Args:
        project: The project's Python files.
        notebooks: Its notebooks.
    """

    def __init__(self, project: Project, notebooks: Iterable[str] = ()) -> None:
        self.project = project
        self.notebooks = frozenset(notebooks)
        self._files: OrderedDict[str, tuple[PythonFile, Names] | None] = OrderedDict()
        self._texts: dict[str, str] = {}

    def file(self, path: str) -> tuple[PythonFile, Names] | None:
        """Return a file, parsed, or None when it cannot be read."""
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        loaded = self._notebook(path) if path in self.notebooks else self._python(path)
        self._files[path] = loaded
        while len(self._files) > _PARSED:
            self._files.popitem(last=False)
        return loaded

    def _python(self, path: str) -> tuple[PythonFile, Names] | None:
        text = self.project.text(path)
        if text is None or len(text.text) > _LONGEST:
            return None
        return self.project.file(path)

    def _notebook(self, path: str) -> tuple[PythonFile, Names] | None:
        try:
            document = Document.read(path, Kind.NOTEBOOK, read_regular(self.project.root / path))
            file = PythonFile(path, document.source)
        except (OSError, UndecodableError, NotJsonError, UnparsableError):
            return None
        return file, Names(file, self.project)

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

    def holding(self, word: str, paths: Iterable[str]) -> list[str]:
        """Return the files among some that hold a word."""
        return [path for path in paths if word in self.text(path)]


def statement_at(file: PythonFile, line: int, kinds: tuple[type[ast.stmt], ...]) -> ast.stmt | None:
    """Return the statement of some kinds that begins on a line, or None."""
    if ast.Import in kinds or ast.ImportFrom in kinds:
        return next((statement for statement in file.imports if statement.lineno == line), None)
    return next(
        (node for node in ast.walk(file.tree) if isinstance(node, kinds) and node.lineno == line),
        None,
    )
