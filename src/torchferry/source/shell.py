"""Command lines in shell text: commands and their words with their places; comments left out, here-documents apart.

This is no shell. It knows quoting, comments, line continuation, `;`, `&&`, `|`, substitution by `$(...)`, arrays,
arithmetic and here-documents well enough to tell a command from a text, and never fails: what it cannot make out is a
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_PLAIN = lazy_regex(r"[^\s'\"\\$`#;&|()<>]+")
_SPACE = lazy_regex(r"[ \t\r]+")
_BLANK = lazy_regex(r"\s+")
_HEREDOC = lazy_regex(r"<<-?[ \t]*(?P<quote>['\"]?)(?P<escape>\\?)(?P<word>[A-Za-z_][\w.-]*)(?P=quote)")
_ARITHMETIC = lazy_regex(r"\$?\(\((?:[^()\n]|\([^()\n]{0,200}\)){0,500}\)\)")
_MISSES = 20
"""So many here-documents without an end, and no further one is believed; keeps hostile text linear."""
_ASSIGNMENT = lazy_regex(r"(?P<name>[A-Za-z_]\w*)(?:\+|[:?!])?=")
_DEEPEST = 50
"""Levels of substitution that are followed; deeper ones are read as words."""


class Word(NamedTuple):
    """One word of a command, as written.

    Attributes:
        text: The word with its quotes.
        start: Offset of its first character.
        end: Offset behind its last one.
    """

    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """The word without its quotes."""
        return self.text.replace('"', "").replace("'", "") if '"' in self.text or "'" in self.text else self.text


class Command(NamedTuple):
    """One simple command: assignments in front of it, then its words.

    Attributes:
        assignments: The words `NAME=value` that precede the program.
        words: The program and its arguments; empty for a line of assignments.
    """

    assignments: tuple[Word, ...]
    words: tuple[Word, ...]

    @property
    def program(self) -> str:
        """The last part of the program's path; empty for a line of assignments."""
        return self.words[0].value.rpartition("/")[2] if self.words else ""


class Heredoc(NamedTuple):
    """The body of a here-document.

    Attributes:
        command: The command whose input it is.
        start: Offset of the first line of the body.
        end: Offset behind its last line.
        expands: Whether variables in it are replaced, as they are unless its mark is quoted.
    """

    command: Command
    start: int
    end: int
    expands: bool


class _OpenCommand:
    """A command that is being read, and how what it is in ends: `)`, a backquote, or the text's end."""

    __slots__ = ("array", "closing", "heredocs", "in_quotes", "start", "words")

    def __init__(self, closing: str, array: Word | None = None) -> None:
        self.closing = closing
        self.words: list[Word] = []
        self.heredocs: list[_Mark] = []
        self.start = -1
        self.in_quotes = False
        self.array = array


class _Mark:
    """The mark that ends a here-document which has begun on this line."""

    __slots__ = ("command", "expands", "word")

    def __init__(self, word: str, expands: bool) -> None:
        self.word = word
        self.expands = expands
        self.command = Command((), ())


def commands(text: str, start: int = 0, end: int | None = None) -> Iterator[Command]:
    """Yield the commands in a text or a part of it; those inside a substitution come before the one around it."""
    for part in parts(text, start, end):
        if isinstance(part, Command):
            yield part


def parts(text: str, start: int = 0, end: int | None = None) -> Iterator[Command | Heredoc]:
    """Yield the commands in a text or a part of it, and behind each line the here-documents that it begins.

    The items of an array, `NAME=(...)`, are the words of a command whose assignment is `NAME=`.
    """
    end = len(text) if end is None else end
    stack = [_OpenCommand("")]
    heredocs: list[_Mark] = []
    misses = 0
    at = start
    while at < end:
        level = stack[-1]
        char = text[at]
        if level.in_quotes:
            at = _in_quotes(text, at, end, stack)
            continue
        if char in " \t\r\n" and not (
            char == "\n" and level.array is None and (heredocs or level.words or level.start >= 0)
        ):
            _end_word(text, level, at)
            blank = _BLANK.match(text, at, end) if not heredocs and not level.words else _SPACE.match(text, at, end)
            at = blank.end() if blank is not None else at + 1
        elif char == "\\":
            if text.startswith(("\\\n", "\\\r\n"), at):
                _end_word(text, level, at)
                at += 3 if text[at + 1] == "\r" else 2
            else:
                _begin_word(level, at)
                at += 2
        elif char == "#" and level.start < 0:
            line_end = text.find("\n", at, end)
            at = end if line_end < 0 else line_end
        elif char == "'":
            _begin_word(level, at)
            closing = text.find("'", at + 1, end)
            at = end if closing < 0 else closing + 1
        elif char == '"':
            _begin_word(level, at)
            level.in_quotes = True
            at += 1
        elif text.startswith(("$((", "(("), at) and (arithmetic := _ARITHMETIC.match(text, at, end)) is not None:
            _begin_word(level, at)
            at = arithmetic.end()
        elif text.startswith("$(", at) and len(stack) < _DEEPEST:
            _begin_word(level, at)
            stack.append(_OpenCommand(")"))
            at += 2
        elif char == "(" and _begins_array(text, level, at) and len(stack) < _DEEPEST:
            stack.append(_OpenCommand(")", Word(text[level.start : at], level.start, at)))
            at += 1
        elif char == "`":
            if level.closing == "`":
                yield from _end_command(text, level, at)
                stack.pop()
            else:
                _begin_word(level, at)
                stack.append(_OpenCommand("`"))
            at += 1
        elif char == ")" and level.closing == ")":
            yield from _end_command(text, level, at)
            stack.pop()
            at += 1
        elif char == "\n" or char in ";&|()":
            yield from _end_command(text, level, at)
            at += 1
            if char == "\n" and heredocs:
                for mark in heredocs:
                    body_end, behind = _body(text, at, end, mark.word) if misses < _MISSES else (-1, at)
                    if body_end < 0:
                        misses += 1
                    else:
                        yield Heredoc(mark.command, at, body_end, mark.expands)
                        at = behind
                heredocs.clear()
        elif char in "<>":
            match = _HEREDOC.match(text, at) if not text.startswith("<<<", at) else None
            _end_word(text, level, at)
            if match is not None:
                mark = _Mark(match["word"], not match["quote"] and not match["escape"])
                heredocs.append(mark)
                level.heredocs.append(mark)
                at = match.end()
            else:
                at += 3 if text.startswith("<<<", at) else 1
        else:
            _begin_word(level, at)
            plain = _PLAIN.match(text, at, end)
            at = plain.end() if plain is not None else at + 1
    for level in reversed(stack):
        yield from _end_command(text, level, min(at, end))


def _in_quotes(text: str, at: int, end: int, stack: list[_OpenCommand]) -> int:
    """Read one step inside double quotes, where substitutions are commands and nothing else is."""
    level = stack[-1]
    char = text[at]
    if char == '"':
        level.in_quotes = False
        return at + 1
    if char == "\\":
        return at + 2
    if text.startswith("$(", at) and len(stack) < _DEEPEST:
        stack.append(_OpenCommand(")"))
        return at + 2
    return at + 1


def _begin_word(level: _OpenCommand, at: int) -> None:
    if level.start < 0:
        level.start = at


def _end_word(text: str, level: _OpenCommand, at: int) -> None:
    if level.start >= 0:
        level.words.append(Word(text[level.start : at], level.start, at))
        level.start = -1


def _begins_array(text: str, level: _OpenCommand, at: int) -> bool:
    """Whether the parenthesis at `at` opens the items of `NAME=(...)`."""
    if level.start < 0 or text[at - 1] != "=" or at - level.start > 200:
        return False
    return _ASSIGNMENT.fullmatch(text, level.start, at) is not None


def _end_command(text: str, level: _OpenCommand, at: int) -> Iterator[Command]:
    _end_word(text, level, at)
    level.in_quotes = False
    if level.words:
        first = 0
        if level.array is None:
            while first < len(level.words) and _ASSIGNMENT.match(level.words[first].text):
                first += 1
            assignments = tuple(level.words[:first])
        else:
            assignments = (level.array,)
        command = Command(assignments, tuple(level.words[first:]))
        for mark in level.heredocs:
            mark.command = command
        yield command
        level.words = []
    level.heredocs.clear()


def _body(text: str, at: int, end: int, word: str) -> tuple[int, int]:
    """Return where the here-document that begins at `at` ends, and the offset behind its mark; -1 without an end."""
    match = re.compile(rf"^[ \t]*{re.escape(word)}[ \t]*\r?$", re.MULTILINE).search(text, at, end)
    return (match.start(), match.end()) if match is not None else (-1, at)


def assigned_name(word: Word) -> str:
    """Return the variable that a word `NAME=value` assigns; empty for another word."""
    match = _ASSIGNMENT.match(word.text)
    return match["name"] if match is not None else ""
