"""Programs that other programs start: `os.system("python train.py ...")`, `subprocess.run([...])`."""

from __future__ import annotations

import ast

from torchferry.core.record import NamedTuple
from torchferry.programs.commands import StartingCommands
from torchferry.programs.discovery import is_build_script
from torchferry.programs.model import Program, Start
from torchferry.programs.sources import Sources
from torchferry.source.python_commands import STARTERS, started_commands

_MOST = 20
"""Commands of one file that are looked at."""


class Starting(NamedTuple):
    """A call that starts a program of the project."""

    call: ast.Call
    program: Program


class StartedPrograms:
    """Finds what the files of a project start.

    Args:
        sources: The project's files.
        commands: Says which file a command starts.
    """

    def __init__(self, sources: Sources, commands: StartingCommands) -> None:
        self._sources = sources
        self._commands = commands
        self._by_path: dict[str, tuple[Starting, ...]] = {}

    def of(self, path: str) -> tuple[Starting, ...]:
        """Return what a file starts when its code is run, each program with the arguments of its command."""
        if path not in self._by_path:
            text = self._sources.text(path)
            may = (".py" in text or '-m"' in text or "-m'" in text or " -m " in text) and any(
                module in text for module in STARTERS
            )
            self._by_path[path] = self._read(path) if may else ()
        return self._by_path[path]

    def _read(self, path: str) -> tuple[Starting, ...]:
        loaded = self._sources.file(path)
        if loaded is None:
            return ()
        _, found = started_commands(*loaded)
        unique: dict[tuple[str, tuple[str, ...]], Starting] = {}
        for started in found:
            for command in started.commands:
                file = self._commands.file_of(command, path)
                if file is None or file[0] == path:  # a program that starts itself again is judged already
                    continue
                if is_build_script(file[0]):  # it installs what the program imports, and that is judged by the import
                    continue
                text = " ".join(word.value for word in command.words)[:160]
                start = Start(text, f"{path}:{started.call.lineno}", file[1])
                unique.setdefault(file, Starting(started.call, Program(file[0], starts=(start,))))
        return tuple(unique.values())[:_MOST]
