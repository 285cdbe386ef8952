"""The language of CMake as far as a port needs it: commands, their arguments, and which text is a comment.

The syntax is that of cmake-language(7): a file is a list of commands, `name(arguments)`; arguments are quoted, in
brackets (`[=[...]=]`) or unquoted, and may hold parentheses, generator expressions and references to variables, which
are not taken apart here. Nothing is refused: what does not close ends with the file, and the command says so. Every
character is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple


class Quoting(Enum):
    """How an argument is written."""

    NONE = "unquoted"
    QUOTED = "quoted"
    BRACKET = "bracket"


class Argument(NamedTuple):
    """One argument of a command.

    Attributes:
        start: Where its text begins, behind quotes or brackets.
        end: Where its text ends.
        text: The text as it is written; escapes and references stay.
        quoting: How it is written.
    """

    start: int
    end: int
    text: str
    quoting: Quoting


class CmakeCommand(NamedTuple):
    """One command of a CMake file.

    Attributes:
        name: Its name in lower case, as CMake compares it.
        start: Where its name begins.
        name_end: Where its name ends.
        end: Behind its closing parenthesis.
        arguments: Its arguments in order; parentheses among them are left out.
        closed: Whether its parenthesis is closed.
    """

    name: str
    start: int
    name_end: int
    end: int
    arguments: tuple[Argument, ...]
    closed: bool

    def holds(self, *words: str) -> bool:
        """Whether one of the arguments is one of these words."""
        return any(argument.text in words for argument in self.arguments)


_OUTSIDE = lazy_regex(r"#\[(=*)\[|#[^\n]*|(?<!\w)\w+(?=[ \t]*\()|\"")
_INSIDE = lazy_regex(r"#\[(=*)\[|#[^\n]*|\[(=*)\[|\"|[()]|\s+|(?:\\.|\$\([^()\s\"#]*\)|[^\s()#\"\\])+|.", re.DOTALL)
_QUOTED_END = lazy_regex(r'(?:[^"\\]|\\.)*', re.DOTALL)


def commands(text: str) -> Iterator[CmakeCommand]:
    """Yield the commands of a CMake file in order."""
    at = 0
    while (match := _OUTSIDE.search(text, at)) is not None:
        piece = match.group()
        if piece.startswith("#["):
            at = _bracket_end(text, match.end(), match[1] or "")[1]
        elif piece[0] == "#":
            at = match.end()
        elif piece == '"':
            at = _quoted_end(text, match.end()) + 1
        else:
            command = _command(text, match.start(), match.end())
            yield command
            at = command.end


def _command(text: str, start: int, name_end: int) -> CmakeCommand:
    at = text.index("(", name_end) + 1
    depth = 1
    arguments: list[Argument] = []
    while depth and (match := _INSIDE.match(text, at)) is not None:
        piece = match.group()
        at = match.end()
        if piece.startswith("#["):
            at = _bracket_end(text, at, match[1] or "")[1]
        elif piece.startswith("[") and match[2] is not None:
            inside, behind = _bracket_end(text, at, match[2])
            arguments.append(Argument(at, inside, text[at:inside], Quoting.BRACKET))
            at = behind
        elif piece == '"':
            inside = _quoted_end(text, at)
            arguments.append(Argument(at, inside, text[at:inside], Quoting.QUOTED))
            at = min(inside + 1, len(text))
        elif piece == "(":
            depth += 1
        elif piece == ")":
            depth -= 1
        elif piece[0] != "#" and not piece.isspace():
            arguments.append(Argument(match.start(), at, piece, Quoting.NONE))
    name = text[start:name_end].lower()
    return CmakeCommand(name, start, name_end, at, tuple(arguments), not depth)


def _bracket_end(text: str, start: int, level: str) -> tuple[int, int]:
    """Return where a bracket's text ends, and what is behind its closing; the file's end where there is none."""
    closing = f"]{level}]"
    end = text.find(closing, start)
    return (len(text), len(text)) if end < 0 else (end, end + len(closing))


def _quoted_end(text: str, start: int) -> int:
    match = _QUOTED_END.match(text, start)
    return match.end() if match else len(text)
