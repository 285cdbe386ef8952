"""The instructions of a Dockerfile and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.shell import Command, Heredoc, Word, assigned_name, commands, parts

_KEYWORD = lazy_regex(r"[ \t]*(?P<keyword>[A-Za-z]+)(?:[ \t]+|(?=\\))")
_CONTINUED = lazy_regex(r"\\[ \t]*\r?\Z")
_EXEC_WORD = lazy_regex(r'"((?:[^"\\]|\\.)*)("?)')
_FLAG = lazy_regex(r"[ \t]*--[\w-]+(?:=\S+)?(?=[ \t])")
_HEREDOC = lazy_regex(r"<<-?(['\"]?)([A-Za-z_][\w.-]*)\1")
_MISSES = 20
"""So many here-documents without an end, and no further one is believed; keeps hostile text linear."""


class Instruction(NamedTuple):
    """One instruction: its keyword in capitals, and where its arguments stand, continuation lines included.

    The bodies of its here-documents belong to it.
    """

    keyword: str
    start: int
    end: int


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile, comments left out."""
    at = 0
    misses = 0
    while at < len(text):
        line_end = _line_end(text, at)
        line = text[at:line_end]
        match = _KEYWORD.match(line)
        if match is None or line.lstrip().startswith("#"):
            at = line_end + 1
            continue
        keyword = match["keyword"].upper()
        start = at + match.end()
        end = line_end
        while end < len(text) and (_CONTINUED.search(text[at:end]) or text[at:end].lstrip().startswith("#")):
            at = end + 1
            end = _line_end(text, at)
        if keyword in ("RUN", "COPY", "ADD"):
            for mark in _HEREDOC.finditer(text, start, end):
                if misses >= _MISSES:
                    break
                closing = re.compile(rf"^[ \t]*{re.escape(mark.group(2))}[ \t]*\r?$", re.MULTILINE).search(text, end)
                if closing is None:
                    misses += 1
                else:
                    end = closing.end()
        yield Instruction(keyword, start, end)
        at = end + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def docker_parts(text: str) -> Iterator[Command | Heredoc]:
    """Yield the commands that the image runs, in the shell form and in the form of a JSON list."""
    for instruction in instructions(text):
        start, end = instruction.start, instruction.end
        if instruction.keyword not in ("RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK"):
            continue
        while (flag := _FLAG.match(text, start, end)) is not None:
            start = flag.end()
        if text[start:end].lstrip().startswith("["):
            words = tuple(
                Word(match.group(1), match.start(1), match.end(1))
                for match in _EXEC_WORD.finditer(text, start, end)
                if match.group(2)
            )
            if words:
                yield Command((), words)
        else:
            yield from parts(text, start, end)


def docker_variables(text: str) -> Iterator[tuple[int, str, str, bool]]:
    """Yield what `ENV` and `ARG` set: the offset, the name, the value, and whether programs see it."""
    for instruction in instructions(text):
        if instruction.keyword.lower() not in ("env", "arg"):
            continue
        for command in commands(text, instruction.start, instruction.end):
            words = (*command.assignments, *command.words)
            is_env = instruction.keyword.lower() == "env"
            if is_env and len(words) > 1 and not assigned_name(words[0]):  # ENV NAME the value
                yield instruction.start, words[0].value, " ".join(word.value for word in words[1:]), True
                continue
            for word in words:
                if assigned_name(word):
                    yield instruction.start, assigned_name(word), word.text.partition("=")[2], is_env
