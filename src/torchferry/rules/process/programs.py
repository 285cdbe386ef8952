"""Programs of the CUDA toolkit in a command line; shared by the rules for Python, shell and containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Grade
from torchferry.core.messages import Message, noted, say, say_in
from torchferry.core.record import NamedTuple


class ProgramUse(NamedTuple):
    """A program found in a command line.

    Attributes:
        start: Offset of its name.
        end: Offset of the end of the name.
        message: What to do about it.
        grade: How sure the edit is.
        edits: What to write instead; none where nothing is known.
    """

    start: int
    end: int
    message: Message
    grade: Grade
    edits: tuple[Edit, ...]


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    groups = cuda.groups("tools")
    anywhere = groups[_INFERENCE].names  # TensorRT is unpacked wherever one likes
    usual = [name for key, group in groups.items() if key != _INFERENCE for name in group.names]
    return re.compile(
        rf"(?<![\w./-])(?:/usr/(?:local/cuda[\w.-]*/)?bin/)?({_either(usual)})(?![\w-])"
        rf"|(?<![\w.-])({_either(anywhere)})(?![\w.-])"
    )


_INFERENCE = "inference"


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def find_programs(target: Target, text: str, start: int, end: int) -> Iterator[ProgramUse]:
    """Yield the programs of the CUDA toolkit named in `text[start:end]`."""
    for match in _pattern().finditer(text, start, end):
        name = match[match.lastindex or 0]
        at = match.start(match.lastindex or 0)
        row = target.row("tools", name)
        command = _command(row.extra.get("commands", {}), text, at, end)
        if command is not None:
            old, new = command
            message = noted(say("`{old}` is `{new}` on {target}", old=old, new=new, target=target.title), row.remark)
            edit = Edit(at, at + len(old), new)
            yield ProgramUse(at, match.end(), message, Grade.UNSAFE, (edit,))
        elif row.use:
            message = say(
                "`{name}` is a program of NVIDIA; {target} has `{use}`, with other options and output",
                name=name,
                target=target.title,
                use=row.use,
            )
            yield ProgramUse(at, match.end(), message, Grade.MANUAL, ())
        else:
            message = noted(
                say(
                    "`{name}` is a program of NVIDIA; its counterpart on {target}: {status}",
                    name=name,
                    target=target.title,
                    status=say_in("in place of a name", "nothing") if row.status == "missing" else "UNKNOWN",
                ),
                row.remark,
            )
            yield ProgramUse(at, match.end(), message, Grade.MANUAL, ())


def _command(commands: dict[str, str], text: str, at: int, end: int) -> tuple[str, str] | None:
    """Return the longest known command that stands at `at` and is not followed by more arguments."""
    for old in sorted(commands, key=len, reverse=True):
        if text.startswith(old, at):
            behind = text[at + len(old) : end].lstrip(" \t")
            if not behind or behind[0] in "|;&>\r\n'\"`)#":
                return old, commands[old]
    return None
