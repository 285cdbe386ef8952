"""Star imports: what `from module import *` binds, and what it may bind where nobody has read the module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from torchferry.core.record import NamedTuple
from torchferry.source.python import PythonFile


class StarImport(NamedTuple):
    """What `from module import *` binds.

    Attributes:
        names: The names that it is known to bind, with the canonical name of each.
        unread: The modules that may bind more, since nobody could read what they export.
    """

    names: Mapping[str, str]
    unread: tuple[str, ...]


class NamesByStars(Protocol):
    """What names mean in a file that has star imports."""

    file: PythonFile

    def stars(self) -> list[tuple[ast.ImportFrom, StarImport]]:
        """Return the star imports with what each binds."""

    def unread_stars(self, name: ast.Name) -> tuple[str, ...]:
        """Return the modules of which one may bind a name; empty for a name that is bound."""


def unread_module(
    statement: ast.Import | ast.ImportFrom, stars: Iterable[tuple[ast.ImportFrom, StarImport]]
) -> str | None:
    """Return the module of a star import that nobody has read, so that it may bind any name; None for another one."""
    module = statement.module if isinstance(statement, ast.ImportFrom) and not statement.level else None
    return module if any(each is statement and module in star.unread for each, star in stars) else None


def uses_of_unread(names: NamesByStars, package: str) -> Iterator[tuple[ast.Name, str]]:
    """Yield the uses of names that star imports of a package may bind, with the module that may.

    Args:
        names: What names mean in the file.
        package: A top-level package of which nobody has read what a star brings.
    """
    unread = {module for _, star in names.stars() for module in star.unread if module.partition(".")[0] == package}
    for use in (use for uses in names.file.names.values() for use in uses) if unread else ():
        for module in unread.intersection(names.unread_stars(use)) if isinstance(use.ctx, ast.Load) else ():
            yield use, module
