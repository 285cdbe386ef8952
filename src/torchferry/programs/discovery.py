"""Which programs a project has, and the commands that start them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchferry.backends.target import Target
from torchferry.core import toml
from torchferry.core.files import read_regular
from torchferry.programs.model import Form, Program, Start
from torchferry.programs.modules import Modules
from torchferry.programs.sources import Sources
from torchferry.rules.base import Context, Options
from torchferry.rules.commands import COMMAND_KINDS, commands_of
from torchferry.rules.examined import Examined
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind
from torchferry.source.markdown import command_view
from torchferry.source.shell import Command
from torchferry.source.text import SourceText, UndecodableError, decode_text

ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|benchmarks?|docs?|ci|\.[^/]+)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest|setup|versioneer)\.py\Z"
)
"""Files that are no programs of the project's users: tests, measurements, documentation, build scripts."""

_READ = (*COMMAND_KINDS, Kind.MARKDOWN, Kind.COMPOSE)
_NOT_STARTED = frozenset(
    [
        "@echo",
        "ADD",
        "COPY",
        "autopep8",
        "black",
        "cat",
        "chmod",
        "coverage",
        "cp",
        "curl",
        "diff",
        "echo",
        "find",
        "flake8",
        "git",
        "grep",
        "head",
        "isort",
        "less",
        "ls",
        "mv",
        "mypy",
        "nano",
        "pip",
        "pre-commit",
        "pylint",
        "pytest",
        "rm",
        "ruff",
        "sed",
        "tail",
        "touch",
        "vi",
        "vim",
        "wget",
        "yapf",
    ]
)
"""Programs that read or write a file and do not start it."""

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

_LARGEST = 1_000_000
"""Bytes of a document that commands are looked for in."""

_MOST_STARTS = 8
"""Commands of one program that are kept."""


def programs_of(
    sources: Sources,
    modules: Modules,
    examined: Sequence[Examined],
    target: Target,
    named: Iterable[str] = (),
) -> list[Program]:
    """Return the programs of a project, the ones that its documents start first.

    Args:
        sources: The project's files.
        modules: Its imports.
        examined: Every file that was examined.
        target: Where it is to run.
        named: Files that the user says are programs.
    """
    finder = _Finder(sources, modules, examined, target)
    return finder.programs(frozenset(named))


class _Found(NamedTuple):
    path: str
    start: Start
    document: bool


class _Finder:
    def __init__(self, sources: Sources, modules: Modules, examined: Sequence[Examined], target: Target) -> None:
        self.sources = sources
        self.modules = modules
        self.examined = examined
        self.target = target
        self.root = sources.project.root

    def programs(self, named: frozenset[str]) -> list[Program]:
        starts: dict[str, list[_Found]] = {}
        for found in self._started():
            starts.setdefault(found.path, []).append(found)
        programs: dict[tuple[str, str], Program] = {}
        for item in self.examined:
            if item.outline is None or (ASIDE.search(item.path) and item.path not in named):
                continue
            own = starts.get(item.path, [])
            if item.kind is Kind.NOTEBOOK:
                programs[item.path, ""] = Program(item.path, Form.NOTEBOOK, starts=_first(own))
            elif item.path in named or own or self._is_started(item):
                programs[item.path, ""] = Program(item.path, Form.SCRIPT, starts=_first(own))
        for program in self._console_scripts():
            script = programs.get((program.path, ""))
            if script is None or not script.starts:
                programs.pop((program.path, ""), None)
            programs[program.path, program.function] = program
        if not programs:
            programs = {(program.path, ""): program for program in self._libraries()}
        return sorted(
            programs.values(), key=lambda program: (not program.starts, program.path.count("/"), program.path)
        )

    def _is_started(self, item: Examined) -> bool:
        assert item.outline is not None
        imported = any(edge.importer != item.path for edge in self.modules.importers.get(item.path, ()))
        if item.outline.is_program:
            return not item.path.endswith("__init__.py")
        return item.outline.does_things and not imported and not item.path.endswith("__init__.py")

    # --- commands ---

    def _started(self) -> Iterator[_Found]:
        for item in self.examined:
            if item.kind not in _READ or any(part.startswith(".") for part in item.path.split("/")):
                continue
            try:
                data = read_regular(self.root / item.path)
            except OSError:
                continue
            if len(data) > _LARGEST or (b".py" not in data and b" -m " not in data):
                continue
            try:
                source = decode_text(data)
            except UndecodableError:
                continue
            kind = item.kind
            if kind is Kind.MARKDOWN:
                source, kind = SourceText(command_view(source.text)), Kind.SHELL
            context = Context(item.path, kind, source, self.target, Options())
            for command in commands_of(context):
                yield from self._of_command(item.path, source, command, item.kind is Kind.MARKDOWN)

    def _of_command(self, path: str, source: SourceText, command: Command, document: bool) -> Iterator[_Found]:
        if not command.words or command.program in _NOT_STARTED:
            return
        values = [word.value for word in command.words]
        if len(values) > 1 and values[0] in ("python", "python3") and values[1:3] == ["-m", "pip"]:
            return
        for index, value in enumerate(values):
            file: str | None = None
            if value == "-m" and index + 1 < len(values) and values[index - 1].rpartition("/")[2].startswith("python"):
                if values[index + 1] in _LAUNCHERS:
                    continue
                file = self._module(values[index + 1], path)
                index += 1
            elif value.endswith(".py") and not value.startswith("-"):
                file = self._file(value, path)
            if file is None:
                continue
            line = source.position(command.words[0].start)[0]
            text = " ".join(values)[:160]
            yield _Found(file, Start(text, f"{path}:{line}", tuple(values[index + 1 :])), document)
            return

    def _module(self, module: str, path: str) -> str | None:
        if not re.fullmatch(r"[\w.]+", module):
            return None
        file = self.modules.find(f"{module}.__main__", path)
        return file if file is not None else self.modules.find(module, path)

    def _file(self, value: str, path: str) -> str | None:
        """Return the file that a command names, from where it stands, from the root, or by its end."""
        parts = [part for part in value.split("/") if part not in ("", ".")]
        while parts and ("$" in parts[0] or parts[0] == ".." or ")" in parts[0]):
            parts = parts[1:]
        name = "/".join(parts)
        folder = path.rpartition("/")[0]
        for candidate in (f"{folder}/{name}" if folder else name, name):
            if candidate in self.sources.project.paths:
                return candidate
        ending = [known for known in self.sources.project.paths if known.endswith(f"/{name}")]
        return ending[0] if len(ending) == 1 and name else None

    # --- what an installation makes ---

    def _console_scripts(self) -> Iterator[Program]:
        for item in self.examined:
            name = item.path.rpartition("/")[2]
            if name not in ("pyproject.toml", "setup.cfg", "setup.py") or ASIDE.search(
                item.path.rpartition("/")[0] + "/"
            ):
                continue
            try:
                data = read_regular(self.root / item.path)
                text = data.decode("utf-8", "replace")
            except OSError:
                continue
            if len(data) > _LARGEST:
                continue
            for script, value in _entry_points(name, text):
                module, _, function = value.partition(":")
                path = self.modules.find(module.strip(), item.path)
                if path is None:
                    continue
                function = function.partition("[")[0].strip()
                start = Start(script, f"{item.path}:{_line_of(text, value)}")
                yield Program(path, Form.CONSOLE, script, function, (start,))

    def _libraries(self) -> Iterator[Program]:
        """Yield the packages of a project that has no programs."""
        tops = [
            item.path
            for item in self.examined
            if item.kind is Kind.PYTHON
            and item.path.endswith("/__init__.py")
            and not ASIDE.search(item.path)
            and f"{item.path.rsplit('/', 2)[0]}/__init__.py" != item.path
            and not (
                item.path.count("/") > 1 and f"{item.path.rsplit('/', 2)[0]}/__init__.py" in self.sources.project.paths
            )
        ]
        for path in tops:
            yield Program(path, Form.LIBRARY, path.removesuffix("/__init__.py").rpartition("/")[2])
        if not tops:
            for item in self.examined:
                if (
                    item.kind is Kind.PYTHON
                    and not ASIDE.search(item.path)
                    and not self.modules.importers.get(item.path)
                ):
                    yield Program(item.path, Form.LIBRARY, item.path)


def _first(found: list[_Found]) -> tuple[Start, ...]:
    """Return the commands that start a program, those of documents first, each once."""
    ordered = sorted(found, key=lambda one: (not one.document, one.start.place.count("/")))
    unique: dict[str, Start] = {}
    for one in ordered:
        unique.setdefault(one.start.command, one.start)
    return tuple(unique.values())[:_MOST_STARTS]


_CFG_SECTION = re.compile(r"^\[options\.entry_points\]\s*$(?P<body>.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_CFG_SCRIPTS = re.compile(r"^(?:console_scripts|gui_scripts)\s*=\s*(?P<body>(?:\n?[ \t]+[^\n]*)+)", re.MULTILINE)
_ENTRY = re.compile(r"^\s*([\w.-]+)\s*=\s*([\w.]+(?::[\w.]+)?(?:\s*\[[^\]]*\])?)\s*$", re.MULTILINE)


def _entry_points(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the scripts that a packaging file declares, with what each calls."""
    if name == "pyproject.toml":
        try:
            document = toml.loads(text)
        except ValueError:
            return
        tables = [document.get("project"), _inner(document, "tool", "poetry")]
        for table in tables:
            for key in ("scripts", "gui-scripts"):
                scripts = table.get(key) if isinstance(table, dict) else None
                for script, value in scripts.items() if isinstance(scripts, dict) else ():
                    if isinstance(value, str):
                        yield script, value
    elif name == "setup.cfg":
        for section in _CFG_SECTION.finditer(text):
            for scripts in _CFG_SCRIPTS.finditer(section["body"]):
                yield from _ENTRY.findall(scripts["body"])
    else:
        yield from _of_setup(text)


def _inner(document: object, *keys: str) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _of_setup(text: str) -> Iterator[tuple[str, str]]:
    if "console_scripts" not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or last_name(node.func) != "setup":
            continue
        for inner in ast.walk(node):
            value = string_value(inner)
            if value is not None and "=" in value and ":" in value:
                yield from _ENTRY.findall(value)


def _line_of(text: str, value: str) -> int:
    at = text.find(value)
    return text.count("\n", 0, at) + 1 if at >= 0 else 1
