"""The programs of a project: files that are started by their roles or by commands, and what an installation makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchferry.core.finding import Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.entry_points.launch_commands import NamedProgram, StartedFile, StartingCommands
from torchferry.programs.entry_points.written_commands import names_program
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.packaging_metadata import INSTALLERS
from torchferry.programs.imports.setup_scripts import SCRIPT_GROUPS
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Form, Program, Start
from torchferry.rules.file_result import FileResult
from torchferry.rules.words import BETWEEN_NAMES
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile
from torchferry.source.python_commands import STARTERS, started_commands
from torchferry.source.roles import ASIDE, Role, Roles, is_build_script, is_set_aside
from torchferry.source.shell import Command, Word

_MOST_STARTS = 8
"""Commands of one program that are kept."""

_HELP = frozenset({"-h", "--help", "--helpfull"})
_MAIN = lazy_regex(r"^if[ \t]+__name__[ \t]*==[ \t]*[\"']__main__[\"']", re.MULTILINE)

_MOST_STARTED = 20
"""Programs that one file starts, of which each is judged."""


def programs_of(
    sources: Sources,
    modules: Modules,
    examined: Sequence[FileResult],
    roles: Roles,
    commands: Iterable[StartedFile],
    named: Iterable[str] = (),
    asked: Iterable[str] = (),
) -> list[Program]:
    """Return the programs of a project, the ones that its documents start first.

    Args:
        sources: The project's files.
        modules: Its imports.
        examined: Every file that was examined.
        roles: What the files are for.
        commands: The commands that start them.
        named: Files that the user says are programs.
        asked: Files that the user asks about: one that starts nothing is what others call, whatever they call.
    """
    return _Finder(sources, modules, examined, roles).programs(frozenset(named), frozenset(asked), commands)


_CALLED_TESTS = frozenset({"test", "tests", "testing"})


class _Finder:
    def __init__(self, sources: Sources, modules: Modules, examined: Sequence[FileResult], roles: Roles) -> None:
        self.sources = sources
        self.modules = modules
        self.examined = examined
        self.roles = roles
        self.root = sources.project.root

    def programs(self, named: frozenset[str], asked: frozenset[str], commands: Iterable[StartedFile]) -> list[Program]:
        starts: dict[str, list[StartedFile]] = {}
        for command in commands:
            starts.setdefault(command.path, []).append(command)
        programs: dict[tuple[str, str], Program] = {}
        without_tests = self._folders_without_tests(starts)
        for item in self.examined:
            own = starts.get(item.path, [])
            role = self._role(item.path, own, named, asked) if item.outline is not None else self._unread_role(item)
            if role is None and item.path.rpartition("/")[0] in without_tests and self.roles.is_started(item.path):
                role = Role.SCRIPT
            if role is Role.MODULE:
                programs[item.path, ""] = Program(item.path, Form.LIBRARY, item.path, role=role)
            elif role is not None:
                form = Form.NOTEBOOK if item.kind is Kind.NOTEBOOK else Form.SCRIPT
                programs[item.path, ""] = Program(item.path, form, starts=_first(own), role=role)
        for program in self._console_scripts():
            script = programs.get((program.path, ""))
            if script is None or not script.own_starts:
                programs.pop((program.path, ""), None)
            programs[program.path, program.function] = program
        if not programs:
            programs = {(program.path, ""): program for program in self._libraries()}
            if not any(path.endswith("/__init__.py") for path, _ in programs):
                programs |= {(program.path, ""): program for program in self._in_documents(starts)}
        return sorted(
            programs.values(), key=lambda program: (not program.own_starts, program.path.count("/"), program.path)
        )

    def _folders_without_tests(self, starts: Mapping[str, Sequence[StartedFile]]) -> set[str]:
        """Return the folders that are called after tests and hold none: documents start programs in them."""
        folders = set()
        for path, own in starts.items():
            folder = path.rpartition("/")[0]
            is_launched = any(not is_set_aside(each.start.place.partition(":")[0]) for each in own)
            if is_launched and folder.rpartition("/")[2] in _CALLED_TESTS:
                folders.add(folder)
        tested = {path.rpartition("/")[0] for path in self.sources.project.paths if folders and self.roles.tests(path)}
        return folders - tested

    def _role(
        self, path: str, starts: Sequence[StartedFile], named: frozenset[str], asked: frozenset[str]
    ) -> Role | None:
        """Return the role of a file among the programs, or None where it is none of the users' programs.

        A document may say how to start a measurement; what starts a test, or a copy of another project, among these
        makes it none.
        """
        role = self.roles.of(path)
        if role in (Role.SCRIPT, Role.NOTEBOOK):
            return role
        if (path in named or path in asked) and role is not Role.MODULE:
            return role
        if is_build_script(path) or self.roles.tests(path):
            return None
        is_launched = any(not is_set_aside(started.start.place.partition(":")[0]) for started in starts)
        if is_launched or (starts and not is_set_aside(path)):
            return Role.LAUNCHED
        if path in named:
            return Role.SCRIPT
        return Role.MODULE if path in asked else None

    def _unread_role(self, item: FileResult) -> Role | None:
        """Return the role of a file that cannot be parsed: a program, where its text says that it is one."""
        is_aside = item.kind is not Kind.PYTHON or ASIDE.search(item.path) or is_set_aside(item.path)
        return None if is_aside or _MAIN.search(self.sources.text(item.path)) is None else Role.SCRIPT

    def _in_documents(self, starts: Mapping[str, list[StartedFile]]) -> Iterator[Program]:
        """Yield the notebooks and scripts among the documents of a project that is nothing but documents."""
        for item in self.examined:
            if self.roles.of(item.path) is Role.BUILD and self.roles.is_started(item.path):
                form = Form.NOTEBOOK if item.kind is Kind.NOTEBOOK else Form.SCRIPT
                role = Role.NOTEBOOK if item.kind is Kind.NOTEBOOK else Role.SCRIPT
                yield Program(item.path, form, starts=_first(starts.get(item.path, [])), role=role)

    # --- what an installation makes ---

    def _console_scripts(self) -> Iterator[Program]:
        for item in self.examined:
            name = item.path.rpartition("/")[2]
            if name not in INSTALLERS or is_set_aside(item.path):
                continue
            declared = self.modules.packaging.of(item.path)
            for script, value in ((each.name, each.value) for each in declared.points if each.group in SCRIPT_GROUPS):
                module, _, function = value.partition(":")
                path = self.modules.find(module.strip(), item.path)
                function = function.partition("[")[0].strip()
                if path is None or not function:
                    continue
                start = Start(script, f"{item.path}:{_line_of(declared.text, value)}", module=module.strip())
                yield Program(path, Form.CONSOLE, script, function, (start,), Role.CONSOLE)

    def _libraries(self) -> Iterator[Program]:
        """Yield the packages of a project that has no programs; without packages, the files that no other imports."""
        files = [item.path for item in self.examined if item.kind is Kind.PYTHON and not ASIDE.search(item.path)]
        files = [path for path in files if not is_set_aside(path)] or files
        tops = []
        for path in files:
            package = path.removesuffix("/__init__.py")
            if package != path:
                parent = package.rpartition("/")[0]
                if not parent or f"{parent}/__init__.py" not in self.sources.project.paths:
                    tops.append(path)
        for path in tops:
            name = path.removesuffix("/__init__.py").rpartition("/")[2]
            yield Program(path, Form.LIBRARY, name, role=Role.LIBRARY)
        if not tops:
            alone = [path for path in files if not self.modules.importers.get(path) and not self.roles.is_ours(path)]
            for path in alone or files:
                yield Program(path, Form.LIBRARY, path, role=Role.LIBRARY)


def _first(launches: list[StartedFile]) -> tuple[Start, ...]:
    """Return the commands that start a program, each once: those of documents first, those of services last.

    What only asks for help comes behind those that do the program's work.
    """

    def order(each: StartedFile) -> tuple[bool, bool, bool, int]:
        start = each.start
        is_help = not _HELP.isdisjoint(start.arguments)
        return start.is_of_service, is_help, not each.document, start.place.count("/")

    ordered = sorted(launches, key=order)
    unique: dict[str, Start] = {}
    for started in ordered:
        unique.setdefault(started.start.command, started.start)
    return tuple(unique.values())[:_MOST_STARTS]


def _line_of(text: str, value: str) -> int:
    at = text.find(value)
    return text.count("\n", 0, at) + 1 if at >= 0 else 1


# --- programs that other programs start: os.system("python train.py ..."), subprocess.run([...]) ---


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
    if "runpy" in text or ("exec(" in text and ".py" in text):
        return True
    words = text.encode("utf-8", "surrogatepass").translate(BETWEEN_NAMES) if names is None else names
    if _CALLED.isdisjoint(words.split()) or not any(module in text for module in STARTERS):
        return False
    return ".py" in text or '-m"' in text or "-m'" in text or " -m " in text


def start_calls(file: PythonFile, names: Names) -> tuple[StartCommands, ...]:
    """Return the calls in a file that may start a program of the project."""
    _, starting_calls = started_commands(file, names)
    calls = []
    for started in starting_calls:
        commands = tuple(command for command in started.commands if names_program(command))
        if commands:
            calls.append(StartCommands(_location(file, started.call), commands))
    return (*calls, *_run_inside(file, names))


def _run_inside(file: PythonFile, names: Names) -> Iterator[StartCommands]:
    """Yield the calls that run a file of the project in the same process: `runpy.run_path("a.py")`, `exec(...)`."""
    executed = [callee for callee in file.names.get("exec", ()) if not names.bindings(callee)]
    run = [each for each in names.references("runpy") if each.name in ("runpy.run_path", "runpy.run_module")]
    for callee in (*executed, *(each.node for each in run)):
        call = file.parents.get(callee)
        if not isinstance(call, ast.Call) or call.func is not callee:
            continue
        texts = [text for part in _said_in(file, names, call) for text in [string_value(part)] if text]
        words = ["-m", *texts[:1]] if last_name(callee) == "run_module" else [t for t in texts if t.endswith(".py")][:1]
        if words:
            yield StartCommands(
                _location(file, call), (Command((), tuple(Word(word, 0, 0) for word in ("python", *words))),)
            )


def _said_in(file: PythonFile, names: Names, call: ast.Call) -> list[ast.expr]:
    """Return the expressions in a call, and those that its variables represent: `with open(path) as code`."""
    parts = [each for each in nodes_in(call) if isinstance(each, ast.expr)]
    for name in parts:  # those of variables are added while it runs
        for binding in names.reaching_bindings(name) if isinstance(name, ast.Name) and len(parts) < _MOST_SAID else ():
            item = file.parents.get(binding)
            value = item.context_expr if isinstance(item, ast.withitem) else assigned_value(file, binding)
            if value is not None and value not in parts:
                parts += [each for each in nodes_in(value) if isinstance(each, ast.expr)]
    return parts


_MOST_SAID = 200
"""Expressions that are looked at for one call."""


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
        self._of_cells: dict[str, list[Program]] = {}

    def take_cells(self, commands: Iterable[StartedFile]) -> None:
        """Take in the commands of notebooks: `!python train.py`, `%run train.py`."""
        self._of_cells = {}
        for each in commands:
            notebook, in_cell, _ = each.start.place.rpartition(":cell ")
            if in_cell and each.path != notebook and not is_build_script(each.path):
                self._of_cells.setdefault(notebook, []).append(Program(each.path, starts=(each.start,)))

    def of_cells(self, notebook: str) -> tuple[Program, ...]:
        """Return what the cells of a notebook start by commands."""
        return tuple(self._of_cells.get(notebook, ()))

    def begun_by(self, paths: Iterable[str]) -> set[str]:
        """Return the files that some files start, with those that these start."""
        begun: set[str] = set()
        todo = [*paths]
        while todo:
            path = todo.pop()
            inner = {each.program.path for each in self.of(path)} | {each.path for each in self.of_cells(path)}
            todo += inner - begun
            begun |= inner
        return begun

    def others(self, path: str) -> bool:
        """Whether a file starts other programs, by its code or in its cells."""
        return bool(self.of(path) or self.of_cells(path))

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
        unique: dict[NamedProgram, Starting] = {}
        for call in calls:
            for command in call.commands:
                file = self._commands.program_of(command, path)
                if file is None or file.path == path:  # a program that starts itself again is judged already
                    continue
                if is_build_script(file.path):  # it installs what the program imports, and that is judged by the import
                    continue
                text = " ".join(word.value for word in command.words)[:160]
                start = Start(text, f"{path}:{call.place.line}", file.arguments, module=file.module)
                unique.setdefault(file, Starting(call.place, Program(file.path, starts=(start,))))
        starting = tuple(unique.values())
        if len(starting) > _MOST_STARTED:
            self._beyond[path] = starting[_MOST_STARTED].place
        return starting[:_MOST_STARTED]
