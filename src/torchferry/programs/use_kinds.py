"""The records of where functions and classes are used."""

from __future__ import annotations

import ast

from torchferry.core.record import NamedTuple
from torchferry.programs.model import Need


class Place(NamedTuple):
    """Where the search stands: a node of a file, None for the file as a whole."""

    path: str
    node: ast.AST | None
    through: ast.AST | None = None
    """The import that binds the name which is used there, where it stands inside of something."""


class Use(NamedTuple):
    """Where a function or class is spoken of, and what must be said or chosen for it to be meant.

    `test` is the condition that a look-up in a table asks for it, and `beside` are conditions in other places, with
    their files and the values that they must have; of `others` one must be said. Of `made`, where there are any, one
    must be a file of the program: those that make objects of the classes that mean it. Where `settings` names a file,
    that says it, so that a program which reads others does not mean it.
    """

    place: Place
    need: Need = Need.ALWAYS
    choice: str = ""
    option: str = ""
    test: ast.Compare | None = None
    others: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    beside: tuple[tuple[str, ast.expr, bool], ...] = ()
    settings: str = ""
