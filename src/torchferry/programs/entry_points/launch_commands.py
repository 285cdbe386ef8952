"""The commands of a project that start its files: in scripts, Dockerfiles, job files, documents and notebooks.

A command also switches on packages that no line of its program imports.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from torchferry.backends.target import Target
from torchferry.core.budget import TooCostlyError, budget_for_file
from torchferry.core.files import read_regular
from torchferry.core.finding import Location
from torchferry.core.record import NamedTuple
from torchferry.programs.entry_points.command_variables import NAMES as MAKEFILES
from torchferry.programs.entry_points.command_variables import MakeCall, lines_of, make_call
from torchferry.programs.entry_points.written_commands import (
    ENTER,
    LEAVE,
    MODULE_OPTION,
    NOT_STARTED,
    WrittenCommand,
    may_start,
    reads_commands,
    served_module,
    written_in,
)
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources, import_at
from torchferry.programs.model import MissingFeature, Program, Start
from torchferry.programs.options.switches import options_in
from torchferry.rules.base import Context, Options
from torchferry.rules.file_result import FileResult
from torchferry.rules.library.cuda_package import CudaPackage, advice
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind
from torchferry.source.roles import is_of_integration
from torchferry.source.shell import Command
from torchferry.source.shell_variables import with_arguments
from torchferry.source.text import UndecodableError

_LAUNCHERS = frozenset(
    [
        "accelerate.commands.accelerate_cli",
        "accelerate.commands.launch",
        "cProfile",
        "coverage",
        "debugpy",
        "deepspeed.launcher.runner",
        "kernprof",
        "pdb",
        "torch.distributed.launch",
        "torch.distributed.run",
        "trace",
    ]
)
"""Modules that start the program that is named behind them."""

_STARTER = re.compile(r"(?:i?python[\d.]*|torchrun|accelerate|deepspeed|debugpy|coverage|kernprof|uv)\Z")
"""Programs whose `-m` names a module to start."""

_TAKES = re.compile(r"\$(?:[@*\d]|\{[@*\d])")
"""What a script puts in of what it is given."""

_MOST_CALLS = 200
"""Calls of one script or Makefile that are read with what they give it."""

_HOME = re.compile(r"[\"']?(?:/|~|\$|`)")


class StartedFile(NamedTuple):
    """A command that starts a file of the project.

    Attributes:
        path: The file.
        start: The command.
        document: Whether it is in a document, for people.
    """

    path: str
    start: Start
    document: bool


class NamedProgram(NamedTuple):
    """What a command starts.

    Attributes:
        path: The file.
        arguments: What follows it.
        module: The module by which the command names it; empty where it names the file.
    """

    path: str
    arguments: tuple[str, ...]
    module: str = ""


class _ScriptCall(NamedTuple):
    """A command that starts a script of the project: what it gives it, where it stands, whether in a document."""

    arguments: tuple[str, ...]
    place: str
    document: bool


def _script_of(command: Command) -> int:
    """Return which word of a command is a script that it starts; -1 for none."""
    for number, word in enumerate(command.words[:4]):
        if word.value.endswith(".sh"):
            return number
    return -1


class StartingCommands:
    """Finds the commands that start the files of a project.

    Args:
        root: The project's folder.
        modules: Its imports.
        target: Where it is to run.
    """

    def __init__(self, root: Path, modules: Modules, target: Target) -> None:
        self._root = root
        self._modules = modules
        self._target = target
        self._paths = modules.project.paths
        self._by_name: dict[str, list[str]] = {}
        self._folders = {""}
        for path in sorted(self._paths):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
            folder = path.rpartition("/")[0]
            while folder and folder not in self._folders:
                self._folders.add(folder)
                folder = folder.rpartition("/")[0]

    def started(
        self, examined: Sequence[FileResult], given_commands: Mapping[str, tuple[WrittenCommand, ...]] | None = None
    ) -> Iterator[StartedFile]:
        """Yield the commands of all files, in their order.

        Args:
            examined: The files.
            given_commands: The commands of files in which they were looked for already, by the files.
        """
        files: list[tuple[FileResult, tuple[WrittenCommand, ...]]] = []
        for item in examined:
            if reads_commands(item.path, item.kind):
                written = (given_commands or {}).get(item.path)
                files.append((item, self._read(item.path, item.kind) if written is None else written))
        scripts = {item.path for item, _ in files if item.kind is Kind.SHELL}
        makefiles = {item.path for item, _ in files if item.kind is Kind.MAKEFILE}
        calls: dict[str, list[_ScriptCall]] = {}
        make_calls: dict[str, list[MakeCall]] = {}
        for item, commands in files:
            if is_of_integration(item.path):
                continue  # what a service gives a script or a Makefile says nothing of how a user starts it
            for command, place, current_folder in self._followed(item, commands):
                call = make_call(command, place, item.kind is Kind.MARKDOWN)
                read = self._makefile(call.folder, item.path, current_folder, makefiles) if call is not None else None
                if call is not None and read is not None:
                    make_calls.setdefault(read, []).append(call)
                script = _script_of(command)
                path = (
                    self._named(command.words[script].value, item.path, current_folder, scripts)
                    if script >= 0
                    else None
                )
                if path is not None and path != item.path:
                    given = tuple(word.text for word in command.words[script + 1 :])
                    calls.setdefault(path, []).append(_ScriptCall(given, place, item.kind is Kind.MARKDOWN))
        for item, commands in files:
            for make in make_calls.get(item.path, ())[:_MOST_CALLS]:
                yield from self._of_make(item, make)
            yield from self._of_file(item, commands, calls.get(item.path, ()))

    def _read(
        self, path: str, kind: Kind, given: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[WrittenCommand, ...]:
        try:
            data = read_regular(self._root / path)
            if not may_start(kind, data):
                return ()
            document = Document.read(path, kind, data)
            with budget_for_file():
                return written_in(document, Context(path, kind, document.source, self._target, Options()), given)
        except (OSError, UndecodableError, NotJsonError, TooCostlyError):  # the examination of the file says so
            return ()

    def _makefile(self, folder: str, path: str, current_folder: str, makefiles: Collection[str]) -> str | None:
        """Return the Makefile that a command of a file reads, or None."""
        own = path.rpartition("/")[0]
        folders = [_joined(each, folder) if folder else each for each in (current_folder, own, "")]
        named = (f"{each}/{name}" if each else name for each in folders if each is not None for name in MAKEFILES)
        return next((each for each in named if each in makefiles and each != path), None)

    def _of_make(self, item: FileResult, make: MakeCall) -> Iterator[StartedFile]:
        """Yield what a Makefile starts where a command gives it variables."""
        try:
            text = read_regular(self._root / item.path).decode("utf-8", "replace")
        except OSError:
            return
        run = lines_of(text, make.targets)
        for command, place, current_folder in self._followed(item, self._read(item.path, item.kind, make.variables)):
            line = int(place.rpartition(":")[2])
            file = self._of_command(command, item.path, current_folder) if any(a <= line < b for a, b in run) else None
            if file is not None:
                text = " ".join(word.value for word in command.words)[:160]
                assignments = tuple(word.value for word in command.assignments)
                start = Start(text, make.place, file.arguments, assignments, file.module)
                yield StartedFile(file.path, start, make.document)

    def _followed(self, item: FileResult, commands: Iterable[WrittenCommand]) -> Iterator[tuple[Command, str, str]]:
        """Yield the commands of a file that start something, each with its place and the folder it is run in."""
        own = current_folder = item.path.rpartition("/")[0]
        for command, place in commands:
            if command.program in ENTER and len(command.words) > 1:
                current_folder = self._entered(command.words[1].value, current_folder, own)
            elif command.program == LEAVE:
                current_folder = own
            elif command.words and command.program not in NOT_STARTED:
                yield command, place, current_folder

    def _of_file(
        self, item: FileResult, commands: Iterable[WrittenCommand], calls: Sequence[_ScriptCall]
    ) -> Iterator[StartedFile]:
        """Yield what the commands of a file start, as other files call it, where it hands on what it is given."""
        for command, place, current_folder in self._followed(item, commands):
            written = _ScriptCall((), place, item.kind is Kind.MARKDOWN)
            takes = any(_TAKES.search(word.text) for word in command.words)
            for call in calls[:_MOST_CALLS] if takes and calls else [written]:
                given = with_arguments(command, call.arguments) if takes and calls else command
                file = self._of_command(given, item.path, current_folder)
                if file is not None:
                    text = " ".join(word.value for word in given.words)[:160]
                    assignments = tuple(word.value for word in given.assignments)
                    start = Start(text, call.place, file.arguments, assignments, file.module)
                    yield StartedFile(file.path, start, call.document)

    def _named(self, value: str, path: str, current_folder: str, scripts: Collection[str]) -> str | None:
        """Return the script that a command names, from where it stands, from the root, or by its end."""
        own, rest = path.rpartition("/")[0], _behind_variable(value) if _HOME.match(value) else value
        named = (_joined(folder, rest) for folder in (current_folder, own, ""))
        return next((each for each in named if each in scripts), None)

    def program_of(self, command: Command, path: str) -> NamedProgram | None:
        """Return the file that a command of a file starts, and what follows it; None where it starts none."""
        if not command.words or command.program in NOT_STARTED:
            return None
        return self._of_command(command, path, path.rpartition("/")[0])

    def _of_command(self, command: Command, path: str, current_folder: str) -> NamedProgram | None:
        """Return the file that a command starts, and what follows it."""
        values = [word.value for word in command.words]
        starts_modules = False
        application = served_module(command)
        index = 0
        while index < len(values):
            value = values[index]
            is_variable = index == 0 and value.startswith("$")  # `$PYTHON -m work`, `[sys.executable, "-m", "work"]`
            starts_modules = starts_modules or is_variable or _STARTER.match(value.rpartition("/")[2]) is not None
            option = MODULE_OPTION.match(value) if starts_modules else None
            module = option["module"] if option is not None else ""
            if starts_modules and not module and (option or value == "--module") and index + 1 < len(values):
                index += 1
                module = values[index]
            elif starts_modules and value.startswith("--module="):
                module = value.removeprefix("--module=")
            file: str | None = None
            if module in _LAUNCHERS:
                pass
            elif module in NOT_STARTED:
                return None
            elif module:
                file = self._module(module, path)
            elif application and value.startswith(f"{application}:"):
                module = application
                file = self._module(application, path) or self._module_beside(application, current_folder)
            elif value.endswith(".py") and not value.startswith("-"):
                file = self._file(value, path.rpartition("/")[0], current_folder)
            if file is not None:
                is_package = bool(module) and file.endswith("/__main__.py") and not module.endswith("__main__")
                named = f"{module}.__main__" if is_package else module
                return NamedProgram(file, tuple(values[index + 1 :]), named)
            index += 1
        return None

    def _module(self, module: str, path: str) -> str | None:
        if not re.fullmatch(r"[\w.]+", module):
            return None
        file = self._modules.find(f"{module}.__main__", path)
        return file if file is not None else self._modules.find(module, path)

    def _module_beside(self, module: str, current_folder: str) -> str | None:
        """Return the file of a module where a command is started in another folder: `cd server && uvicorn main:app`."""
        path = _joined(current_folder, module.replace(".", "/") + ".py")
        return path if path in self._paths else None

    # --- folders ---

    def _entered(self, value: str, current_folder: str, own: str) -> str:
        """Return the folder that `cd` leads to, as far as it is one of the project's."""
        if value == "-":
            return own
        if _HOME.match(value):
            rest = _behind_variable(value)
            candidates = [_joined(own, rest), *_endings(rest)] if rest else [own]
        else:
            candidates = [_joined(folder, value) for folder in (current_folder, own, "")]
        return next((folder for folder in candidates if folder is not None and folder in self._folders), current_folder)

    def _file(self, value: str, own: str, current_folder: str) -> str | None:
        """Return the file that a command names, from where it stands, from the root, or by its end."""
        if _HOME.match(value):
            rest = _behind_variable(value)
            candidates = [_joined(current_folder, rest), _joined(own, rest), *_endings(rest)]
        else:
            rest = value
            candidates = [_joined(folder, value) for folder in (current_folder, own, "")]
        for candidate in candidates:
            if candidate is not None and candidate in self._paths:
                return candidate
        name = "/".join(part for part in rest.split("/") if part not in ("", ".", ".."))
        ending = [path for path in self._by_name.get(name.rpartition("/")[2], ()) if path.endswith(f"/{name}")]
        return ending[0] if len(ending) == 1 else None


def _behind_variable(value: str) -> str:
    """Return what follows the variable or substitution that a path begins with, or behind its first slash."""
    if value.startswith(("$(", "`")):
        return value[max(value.rfind(")"), value.rfind("`")) + 1 :].lstrip("/")
    if value.startswith(("$", "~")):
        return value.partition("/")[2]
    return value.lstrip("/")


def _joined(folder: str, value: str) -> str | None:
    """Return a path of the project that is named from a folder, or None when it lies outside."""
    path = posixpath.normpath(f"{folder}/{value}" if folder else value)
    if path == ".":
        return ""
    return None if path.startswith(("../", "/")) or path == ".." else path


def _endings(path: str) -> list[str]:
    """Return a path without its first folders, the longest first."""
    parts = posixpath.normpath(path).split("/")
    return ["/".join(parts[index:]) for index in range(len(parts))]


# --- packages that a command switches on: `--deepspeed config.json` is an option of transformers' own arguments, which
# then imports DeepSpeed; a launcher belongs to the package that it comes from ---

_OPTIONS = {"deepspeed": "deepspeed"}
"""Options of transformers' arguments that name a file of settings of a package, and the package."""

_TAKES_OPTIONS = frozenset({"HfArgumentParser", "TrainingArguments", "Seq2SeqTrainingArguments"})
"""What reads such options, of which each is one of its own."""

_LAUNCHER_PACKAGES = {"deepspeed": "deepspeed", "--use_deepspeed": "deepspeed"}
"""Words of a command in front of the program, and the package that each needs."""

_OFF = frozenset({"", "none", "null", "false", "0"})


def packages_enabled_by_command(
    program: Program, closure: Iterable[str], modules: Modules, sources: Sources, target: Target
) -> Iterator[MissingFeature]:
    """Yield the packages that the target does not have and the first command of a program switches on.

    Args:
        program: The program.
        closure: The files that it reaches by imports.
        modules: The project's imports.
        sources: Its files.
        target: Where it is to run.
    """
    if not program.own_starts:
        return
    given = options_in(program.arguments)
    options = [name for name in _OPTIONS if given.get(name, "").lower() not in _OFF]
    place = _reader(closure, modules, sources) if options else None
    if place is not None:
        for name in options:
            yield from _lacking(_OPTIONS[name], place, target)
        return
    words = [word.rpartition("/")[2] for word in program.own_starts[0].command.split()]
    before = words[: next((number for number, word in enumerate(words) if word.endswith(".py")), len(words))]
    for word in before:
        if word in _LAUNCHER_PACKAGES:
            yield from _lacking(_LAUNCHER_PACKAGES[word], Location(program.path, 1, 1, 1, 1), target)


def _reader(closure: Iterable[str], modules: Modules, sources: Sources) -> Location | None:
    """Return the nearest import of what reads the options of transformers, or None."""
    for path in closure:
        for external in modules.externals.get(path, ()):
            if external.module.partition(".")[0] != "transformers":
                continue
            text = sources.text(path)
            if _TAKES_OPTIONS.isdisjoint(external.names) and not any(f".{name}" in text for name in _TAKES_OPTIONS):
                continue
            loaded = sources.file(path)
            statement = import_at(loaded[0], external.line) if loaded is not None else None
            if loaded is not None and statement is not None:
                return loaded[0].location(*loaded[0].span(statement))
    return None


def _lacking(name: str, place: Location, target: Target) -> Iterator[MissingFeature]:
    row = target.row("packages", name)
    if row.status == "missing":
        yield MissingFeature(name, CudaPackage.CODE, place, advice(target.title, name, row))
