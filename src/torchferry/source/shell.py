"""Command lines in shell text: commands and their words with their places; comments and here-documents left out.

This is no shell. It knows quoting, comments, line continuation, `;`, `&&`, `|`, substitution by `$(...)` and
here-documents well enough to tell a command from a text, and never fails: what it cannot make out is a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_PLAIN = re.compile(r"[^\s'\"\\$`#;&|()<>]+")
_SPACE = re.compile(r"[ \t\r]+")
_BLANK = re.compile(r"\s+")
_HEREDOC = re.compile(r"<<-?[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\+|[:?!])?=")
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
        assignments: The words `NAME=value` that stand before the program.
        words: The program and its arguments; empty for a line of assignments.
    """

    assignments: tuple[Word, ...]
    words: tuple[Word, ...]

    @property
    def program(self) -> str:
        """The last part of the program's path; empty for a line of assignments."""
        return self.words[0].value.rpartition("/")[2] if self.words else ""


class _Open:
    """A command that is being read, and how what it stands in ends: `)`, a backquote, or the text's end."""

    __slots__ = ("closing", "in_quotes", "start", "words")

    def __init__(self, closing: str) -> None:
        self.closing = closing
        self.words: list[Word] = []
        self.start = -1
        self.in_quotes = False


def commands(text: str, start: int = 0, end: int | None = None) -> Iterator[Command]:
    """Yield the commands in a text or a part of it; those inside a substitution come before the one around it."""
    end = len(text) if end is None else end
    stack = [_Open("")]
    heredocs: list[str] = []
    at = start
    while at < end:
        level = stack[-1]
        char = text[at]
        if level.in_quotes:
            at = _in_quotes(text, at, end, stack)
            continue
        if char in " \t\r\n" and not (char == "\n" and (heredocs or level.words or level.start >= 0)):
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
        elif text.startswith("$(", at) and len(stack) < _DEEPEST:
            _begin_word(level, at)
            stack.append(_Open(")"))
            at += 2
        elif char == "`":
            if level.closing == "`":
                yield from _end_command(text, level, at)
                stack.pop()
            else:
                _begin_word(level, at)
                stack.append(_Open("`"))
            at += 1
        elif char == ")" and level.closing == ")":
            yield from _end_command(text, level, at)
            stack.pop()
            at += 1
        elif char == "\n" or char in ";&|()":
            yield from _end_command(text, level, at)
            at += 1
            if char == "\n" and heredocs:
                at = _behind_heredocs(text, at, end, heredocs)
        elif char in "<>":
            match = _HEREDOC.match(text, at) if not text.startswith("<<<", at) else None
            _end_word(text, level, at)
            if match is not None:
                heredocs.append(match["word"])
                at = match.end()
            else:
                at += 3 if text.startswith("<<<", at) else 1
        else:
            _begin_word(level, at)
            plain = _PLAIN.match(text, at, end)
            at = plain.end() if plain is not None else at + 1
    for level in reversed(stack):
        yield from _end_command(text, level, min(at, end))


def _in_quotes(text: str, at: int, end: int, stack: list[_Open]) -> int:
    """Read one step inside double quotes, where substitutions are commands and nothing else is."""
    level = stack[-1]
    char = text[at]
    if char == '"':
        level.in_quotes = False
        return at + 1
    if char == "\\":
        return at + 2
    if text.startswith("$(", at) and len(stack) < _DEEPEST:
        stack.append(_Open(")"))
        return at + 2
    return at + 1


def _begin_word(level: _Open, at: int) -> None:
    if level.start < 0:
        level.start = at


def _end_word(text: str, level: _Open, at: int) -> None:
    if level.start >= 0:
        level.words.append(Word(text[level.start : at], level.start, at))
        level.start = -1


def _end_command(text: str, level: _Open, at: int) -> Iterator[Command]:
    _end_word(text, level, at)
    level.in_quotes = False
    if level.words:
        first = 0
        while first < len(level.words) and _ASSIGNMENT.match(level.words[first].text):
            first += 1
        yield Command(tuple(level.words[:first]), tuple(level.words[first:]))
        level.words = []


def _behind_heredocs(text: str, at: int, end: int, heredocs: list[str]) -> int:
    """Return the offset behind the here-documents whose bodies begin at `at`."""
    for word in heredocs:
        match = re.compile(rf"^[ \t]*{re.escape(word)}[ \t]*\r?$", re.MULTILINE).search(text, at, end)
        at = match.end() if match is not None else end
    heredocs.clear()
    return at


def assigned_name(word: Word) -> str:
    """Return the variable that a word `NAME=value` assigns; empty for another word."""
    match = _ASSIGNMENT.match(word.text)
    return match["name"] if match is not None else ""
