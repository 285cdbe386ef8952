"""Programs that other programs start: `os.system("python train.py ...")`, `subprocess.run([...])`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from torchferry.core.finding import Location
from torchferry.core.record import NamedTuple
from torchferry.programs.commands import StartingCommands, names_program
from torchferry.programs.discovery import is_build_script
from torchferry.programs.model import Program, Start
from torchferry.programs.sources import Sources
from torchferry.rules.words import BETWEEN_NAMES
from torchferry.source.names import Names
from torchferry.source.python import PythonFile
from torchferry.source.python_commands import STARTERS, started_commands
from torchferry.source.shell import Command

_MOST = 20
"""Programs that one file starts, of which each is judged."""


class Starting(NamedTuple):
    """A call that starts a program of the project, by its place."""

    place: Location
    program: Program


class StartCommands(NamedTuple):
    """A call that starts commands of which one may be a program of the project.

    Attributes:
        place: The call.
        commands: Those commands.
    """

    place: Location
    commands: tuple[Command, ...]


_CALLED = frozenset(name.rpartition(".")[2].encode() for name in set().union(*STARTERS.values()))


def may_call_starter(text: str, names: bytes | None = None) -> bool:
    """Whether a file may start a program of the project, judged by its text.

    Args:
        text: The text.
        names: Its names in ASCII, each once, where they are known.
    """
    said = text.encode("utf-8", "surrogatepass").translate(BETWEEN_NAMES) if names is None else names
    if _CALLED.isdisjoint(said.split()) or not any(module in text for module in STARTERS):
        return False
    return ".py" in text or '-m"' in text or "-m'" in text or " -m " in text


def start_calls(file: PythonFile, names: Names) -> tuple[StartCommands, ...]:
    """Return the calls in a file that may start a program of the project."""
    _, found = started_commands(file, names)
    calls = []
    for started in found:
        commands = tuple(command for command in started.commands if names_program(command))
        if commands:
            calls.append(StartCommands(_location(file, started.call), commands))
    return tuple(calls)


def _location(file: PythonFile, call: ast.Call) -> Location:
    try:
        return file.location(*file.span(call))
    except ValueError:  # in an f-string that could not be read
        return file.location(*file.span(file.statement(call)))


class StartedPrograms:
    """Finds what the files of a project start.

    Args:
        sources: The project's files.
        commands: Says which file a command starts.
        noted: The calls of files in which they were looked for already, by the files.
    """

    def __init__(
        self,
        sources: Sources,
        commands: StartingCommands,
        noted: Mapping[str, tuple[StartCommands, ...]] | None = None,
    ) -> None:
        self._sources = sources
        self._commands = commands
        self._noted = noted or {}
        self._by_path: dict[str, tuple[Starting, ...]] = {}
        self._beyond: dict[str, Location] = {}

    def beyond(self, path: str) -> Location | None:
        """Return the first call of a file that is not looked at; None where it starts no more than are."""
        self.of(path)
        return self._beyond.get(path)

    def of(self, path: str) -> tuple[Starting, ...]:
        """Return what a file starts when its code is run, each program with the arguments of its command."""
        if path not in self._by_path:
            calls = self._noted.get(path)
            if calls is None:
                loaded = self._sources.file(path) if may_call_starter(self._sources.text(path)) else None
                calls = start_calls(*loaded) if loaded is not None else ()
            self._by_path[path] = self._started(path, calls)
        return self._by_path[path]

    def _started(self, path: str, calls: Iterable[StartCommands]) -> tuple[Starting, ...]:
        unique: dict[tuple[str, tuple[str, ...]], Starting] = {}
        for call in calls:
            for command in call.commands:
                file = self._commands.file_of(command, path)
                if file is None or file[0] == path:  # a program that starts itself again is judged already
                    continue
                if is_build_script(file[0]):  # it installs what the program imports, and that is judged by the import
                    continue
                text = " ".join(word.value for word in command.words)[:160]
                start = Start(text, f"{path}:{call.place.line}", file[1])
                unique.setdefault(file, Starting(call.place, Program(file[0], starts=(start,))))
        found = tuple(unique.values())
        if len(found) > _MOST:
            self._beyond[path] = found[_MOST].place
        return found[:_MOST]
