"""Which programs a project has, and the commands that start them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from torchferry.backends.target import Target
from torchferry.core import toml
from torchferry.core.files import read_regular
from torchferry.core.vendored import FIRST
from torchferry.programs.commands import INSTALLERS, LARGEST_DOCUMENT, Started, StartingCommands
from torchferry.programs.model import Form, Program, Start
from torchferry.programs.modules import Modules
from torchferry.programs.sources import Sources
from torchferry.rules.file_result import FileResult
from torchferry.rules.guarded import work_at_top
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind

ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|benchmarks?|docs?|ci|\.[^/]+)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest|setup|versioneer)\.py\Z"
)
"""Files that are no programs of the project's users: tests, measurements, documentation, build scripts."""

_BUILDS = re.compile(r"(?:^|/)(?:conftest|setup|versioneer)\.py\Z")
_TESTS = re.compile(r"^[ \t]*(?:async )?def test_|^[ \t]*(?:import|from) (?:pytest|unittest)\b", re.MULTILINE)

_MOST_STARTS = 8
"""Commands of one program that are kept."""


def programs_of(
    sources: Sources,
    modules: Modules,
    examined: Sequence[FileResult],
    target: Target,
    named: Iterable[str] = (),
    commands: Iterable[Started] | None = None,
) -> list[Program]:
    """Return the programs of a project, the ones that its documents start first.

    Args:
        sources: The project's files.
        modules: Its imports.
        examined: Every file that was examined.
        target: Where it is to run.
        named: Files that the user says are programs.
        commands: The commands that start the project's files; None where they were not looked for yet.
    """
    if commands is None:
        commands = StartingCommands(sources.project.root, modules, target).started(examined)
    return _Finder(sources, modules, examined).programs(frozenset(named), commands)


class _Finder:
    def __init__(self, sources: Sources, modules: Modules, examined: Sequence[FileResult]) -> None:
        self.sources = sources
        self.modules = modules
        self.examined = examined
        self.root = sources.project.root

    def programs(self, named: frozenset[str], commands: Iterable[Started]) -> list[Program]:
        starts: dict[str, list[Started]] = {}
        for found in commands:
            starts.setdefault(found.path, []).append(found)
        programs: dict[tuple[str, str], Program] = {}
        for item in self.examined:
            own = starts.get(item.path, [])
            if item.outline is None or (item.path not in named and self._is_aside(item.path, own)):
                continue
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

    def _is_aside(self, path: str, starts: Sequence[Started]) -> bool:
        """Whether a file is no program of the project's users: they start neither tests nor build scripts.

        `test_net.py` may be a program that evaluates, and a document may say how to start a measurement.
        """
        if not ASIDE.search(path):
            return False
        if is_build_script(path) or _TESTS.search(self.sources.text(path)):
            return True
        if any(not ASIDE.search(started.start.place.partition(":")[0]) for started in starts):
            return False
        return ASIDE.search(f"{path.rpartition('/')[0]}/") is not None

    def _is_started(self, item: FileResult) -> bool:
        assert item.outline is not None
        imported = any(edge.importer != item.path for edge in self.modules.importers.get(item.path, ()))
        if item.path.endswith("__init__.py"):
            return False
        starts = item.outline.is_program or (item.outline.does_things and not imported and self._does_work(item.path))
        return starts and not self._is_ours(item.path)

    def _is_ours(self, path: str) -> bool:
        """Whether a file is the device module that torchferry writes into projects."""
        return self.sources.text(path).startswith(FIRST)

    def _does_work(self, path: str) -> bool:
        """Whether a file does more at its top level than to prepare what it defines."""
        loaded = self.sources.file(path)
        return loaded is None or work_at_top(*loaded) is not None

    # --- what an installation makes ---

    def _console_scripts(self) -> Iterator[Program]:
        for item in self.examined:
            name = item.path.rpartition("/")[2]
            if name not in INSTALLERS or ASIDE.search(item.path.rpartition("/")[0] + "/"):
                continue
            try:
                data = read_regular(self.root / item.path)
                text = data.decode("utf-8", "replace")
            except OSError:
                continue
            if len(data) > LARGEST_DOCUMENT:
                continue
            for script, value in _entry_points(name, text):
                module, _, function = value.partition(":")
                path = self.modules.find(module.strip(), item.path)
                function = function.partition("[")[0].strip()
                if path is None or not function:
                    continue
                start = Start(script, f"{item.path}:{_line_of(text, value)}")
                yield Program(path, Form.CONSOLE, script, function, (start,))

    def _libraries(self) -> Iterator[Program]:
        """Yield the packages of a project that has no programs; without packages, the files that no other imports."""
        files = [item.path for item in self.examined if item.kind is Kind.PYTHON and not ASIDE.search(item.path)]
        tops = []
        for path in files:
            package = path.removesuffix("/__init__.py")
            if package != path:
                parent = package.rpartition("/")[0]
                if not parent or f"{parent}/__init__.py" not in self.sources.project.paths:
                    tops.append(path)
        for path in tops:
            yield Program(path, Form.LIBRARY, path.removesuffix("/__init__.py").rpartition("/")[2])
        if not tops:
            alone = [path for path in files if not self.modules.importers.get(path) and not self._is_ours(path)]
            for path in alone or files:
                yield Program(path, Form.LIBRARY, path)


def is_build_script(path: str) -> bool:
    """Whether a file builds, installs or tests the project, by its name."""
    return _BUILDS.search(path) is not None


def _first(found: list[Started]) -> tuple[Start, ...]:
    """Return the commands that start a program, those of documents first, each once."""
    ordered = sorted(found, key=lambda started: (not started.document, started.start.place.count("/")))
    unique: dict[str, Start] = {}
    for started in ordered:
        unique.setdefault(started.start.command, started.start)
    return tuple(unique.values())[:_MOST_STARTS]


_CFG_SECTION = re.compile(r"^\[options\.entry_points\]\s*$(?P<body>.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_CFG_SCRIPTS = re.compile(r"^(?:console_scripts|gui_scripts)\s*=\s*(?P<body>(?:\n?[ \t]+[^\n]*)+)", re.MULTILINE)
_SCRIPT_GROUPS = frozenset({"console_scripts", "gui_scripts"})
_SETUP_SECTION = re.compile(
    r"^[ \t]*\[(?:console|gui)_scripts\][ \t\r]*$(?P<body>.*?)(?=^[ \t]*\[|\Z)", re.MULTILINE | re.DOTALL
)
_ENTRY = re.compile(r"^[ \t]*([\w.-]+)[ \t]*=[ \t]*([\w.]+(?::[\w.]+)?(?:[ \t]*\[[^\]\n]*\])?)[ \t\r]*$", re.MULTILINE)


def _entry_points(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the scripts that a packaging file declares, with what each calls."""
    if name == "pyproject.toml":
        if "scripts" not in text:
            return
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
    """Yield the scripts of a setup.py, wherever they are listed: in the call of `setup`, in a table, in a text."""
    if "console_scripts" not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        listed: list[ast.expr] = []
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            listed = [value for key, value in pairs if key is not None and string_value(key) in _SCRIPT_GROUPS]
        elif (isinstance(node, ast.keyword) and node.arg in _SCRIPT_GROUPS) or (
            isinstance(node, ast.Assign) and any(last_name(target) in _SCRIPT_GROUPS for target in node.targets)
        ):
            listed = [node.value]
        elif isinstance(node, ast.Constant) and (table := string_value(node)) is not None:
            for section in _SETUP_SECTION.finditer(table):
                yield from _ENTRY.findall(section["body"])
        for inner in (part for value in listed for part in ast.walk(value)):
            text_of = string_value(inner) if isinstance(inner, ast.expr) else None
            yield from _ENTRY.findall(text_of or "")


def _line_of(text: str, value: str) -> int:
    at = text.find(value)
    return text.count("\n", 0, at) + 1 if at >= 0 else 1
