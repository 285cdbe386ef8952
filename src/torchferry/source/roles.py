"""What each Python file and notebook of a project is for: who starts it, or that nobody does.

This is judged by the files themselves. Where programs are looked for, commands in documents and what an installation
makes are added.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.vendored import CHECKSUM
from torchferry.source.flow.syntax import callee, last_name
from torchferry.source.import_graph import ImportGraph
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.outline import Outline, outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile


class Role(str, Enum):
    """What a file is for."""

    SCRIPT = "script"
    """Its text says that it is started: a test of `__name__`, or work at its top level that no other file imports."""

    NOTEBOOK = "notebook"

    CONSOLE = "console script"
    """An installation makes a command that calls one of its functions."""

    LAUNCHED = "launched"
    """A command starts it, in a document, a script or a job file; its text alone does not say so."""

    LIBRARY = "library"
    """Users import it, from a project that has nothing to start."""

    TEST = "test"
    """It tests or measures the project."""

    BUILD = "build"
    """It builds, installs, checks or documents the project."""

    MODULE = "module"
    """Other files import it, and nobody starts it."""


_BUILD_NAMES = r"(?:^|/)(?:setup|versioneer|noxfile)\.py\Z"
_BUILD_FOLDERS = r"(?:^|/)(?:docs?|ci|\.[^/]+)/"
_TEST_FOLDERS = r"(?:^|/)(?:tests?|testing|benchmarks?)/|(?:^|/)conftest\.py\Z"
_TEST_NAMES = r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py\Z"
_OTHERS = r"(?:^|/)(?:third[-_]?party|3rd[-_]?party|_?vendor(?:s|ed)?|externals?|submodules)/"
"""Folders with copies of other projects, whose programs are not this one's."""

ASIDE = re.compile("|".join((_BUILD_NAMES, _BUILD_FOLDERS, _TEST_FOLDERS, _TEST_NAMES)))
"""Files that are no programs of the project's users, by their names: tests, measurements, documents, build scripts."""

_NOT_THE_USERS = re.compile("|".join((_BUILD_FOLDERS, _TEST_FOLDERS, _OTHERS)))
_BUILD_NAME, _BUILD_FOLDER = re.compile(_BUILD_NAMES), re.compile(_BUILD_FOLDERS)
_TEST_FOLDER, _VENDORED = re.compile(_TEST_FOLDERS), re.compile(_OTHERS)

_INTEGRATION = re.compile(r"(?:[^/]+/)*(?:\.github/|\.circleci/|\.buildkite/|\.gitlab-ci)")

_HEAD = 400
"""Characters in which a file that torchferry wrote says so."""


def is_build_script(path: str) -> bool:
    """Whether a file builds or installs the project, by its name."""
    return _BUILD_NAME.search(path) is not None


def is_of_integration(path: str) -> bool:
    """Whether a service builds and tests the project by a file, on machines of its own."""
    return _INTEGRATION.match(path) is not None


def is_set_aside(path: str) -> bool:
    """Whether a file lies among tests, measurements, documents, or copies of other projects."""
    return _NOT_THE_USERS.search(path) is not None


class Roles:
    """Says what the files of a project are for.

    Args:
        project: Its Python files.
        graph: Their imports.
        outlines: Their outlines, and those of the notebooks, by the paths.
        working: Whether files that are parsed already do work at their top level.
    """

    def __init__(
        self, project: Project, graph: ImportGraph, outlines: Mapping[str, Outline], working: Mapping[str, bool]
    ) -> None:
        self.graph = graph
        self._project = project
        self._outlines = outlines
        self._working = dict(working)

    @classmethod
    def read(cls, project: Project) -> Roles:
        """Return the roles of a project's Python files as they lie on the disk."""
        outlines = {}
        for path in sorted(project.paths):
            source = project.text(path)
            if source is not None:  # else a scan reports it
                outlines[path] = outline(path, source.text.encode("utf-8", "surrogatepass"))
        return cls(project, ImportGraph(project, outlines.values()), outlines, {})

    def with_file(self, project: Project, read: Outline, working: bool | None) -> Roles:
        """Return the same with one file as an editor holds it."""
        parsed = {} if working is None else {read.path: working}
        return Roles(project, self.graph, {**self._outlines, read.path: read}, parsed)

    def of(self, path: str) -> Role:
        """Return what a file is for."""
        if is_build_script(path):
            return Role.BUILD
        if _TEST_FOLDER.search(path) or self.tests(path):
            return Role.TEST
        if _BUILD_FOLDER.search(path):
            return Role.BUILD
        if not self.is_started(path):
            return Role.MODULE
        return Role.NOTEBOOK if _is_notebook(path) else Role.SCRIPT

    def tests(self, path: str) -> bool:
        """Whether a file holds tests: `test_net.py` may be a program that evaluates."""
        read = self._outlines.get(path)
        is_aside = ASIDE.search(path) is not None and not _is_notebook(path)  # `test_step` there is Lightning's
        return is_aside and read is not None and read.has_tests

    def is_started(self, path: str) -> bool:
        """Whether the text of a file says that it is started, be it by those who test the project."""
        read = self._outlines.get(path)
        if is_build_script(path) or _VENDORED.search(path) or path.endswith((".pyi", "__init__.py")):
            return False
        if _is_notebook(path):
            return True
        if read is None:
            return False
        if not (
            read.is_program
            or path.rpartition("/")[2] == "__main__.py"
            or (read.does_things and not self.graph.is_imported(path) and self._works(path))
        ):
            return False
        return not self.is_ours(path)

    def is_ours(self, path: str) -> bool:
        """Whether torchferry wrote a file into the project: the device module, a setup test."""
        source = self._project.text(path)
        return source is not None and CHECKSUM in source.text[:_HEAD]

    def _works(self, path: str) -> bool:
        """Whether a file does more at its top level than to prepare what it defines."""
        if path not in self._working:
            loaded = self._project.file(path)
            self._working[path] = loaded is None or work_at_top(*loaded) is not None
        return self._working[path]


def _is_notebook(path: str) -> bool:
    return path.lower().endswith(".ipynb")


# --- what runs where a file is started ---

_PREPARING = ("sys.path.", "sys.setrecursionlimit", "warnings.", "logging.", "matplotlib.", "os.environ.", "site.",
              "torch.set_", "torch.manual_seed", "torch.multiprocessing.set_", "multiprocessing.set_", "random.seed",
              "numpy.random.seed", "numpy.seterr", "numpy.set_printoptions", "mimetypes.", "atexit.",
              "torch._C.", "torch.backends.", "pytest.")  # fmt: skip
_PREPARED = frozenset({"load_dotenv", "basicconfig", "filterwarnings", "simplefilter", "setlevel", "addhandler",
                       "import_module", "append", "extend", "update", "insert", "setdefault"})  # fmt: skip
"""Calls at the top level of a module that only prepare what it does later."""

_TELLING = frozenset({"print", "warn", "info", "warning", "error", "debug", "exit", "quit", "_exit", "makedirs",
                      "mkdir", "setattr", "download"})  # fmt: skip
"""Calls below a condition that prepare too: they tell of what is missing, or make it."""

_HANDLES = "chainlit.on_"
"""How decorators begin by which a launcher finds what to run in the file that it is given."""

_APPLICATIONS = frozenset({
    "fastapi.FastAPI", "flask.Flask", "starlette.applications.Starlette", "quart.Quart", "sanic.Sanic",
    "litestar.Litestar", "bottle.Bottle", "tornado.web.Application", "aiohttp.web.Application",
})  # fmt: skip
"""Classes of web applications: a server, or a command of the framework, starts the file that makes one."""

_RUN_WHEN_STARTED = frozenset({"automain", "call_parse"})
"""Decorators, of sacred and fastcore, that call a function where its file is started, and nowhere else."""

_CELL = lazy_regex(r"^# ?(?:%%|In\[[\d ]*\]:)", re.MULTILINE)
"""Where a cell begins of a notebook that was written as Python."""


def is_main(test: ast.expr) -> bool:
    """Whether a test is `__name__ == "__main__"`, or asks for it among others."""
    if isinstance(test, ast.BoolOp):
        return any(map(is_main, test.values))
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)


def is_run_when_started(node: ast.AST) -> bool:
    """Whether a node is a function that a decorator calls where its file is started."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        last_name(decorator) in _RUN_WHEN_STARTED for decorator in node.decorator_list
    )


def mains(tree: ast.Module) -> list[ast.If]:
    """Return the parts of a file that run only where it is started."""
    return [statement for statement in tree.body if isinstance(statement, ast.If) and is_main(statement.test)]


def work_at_top(file: PythonFile, names: Names) -> ast.stmt | None:
    """Return the first statement at a file's top level that does more than to prepare what the file defines."""
    in_cells = _CELL.search(file.source.text) is not None
    return next(_working(file.tree.body, names, in_cells, False), None)


def _working(statements: Iterable[ast.stmt], names: Names, in_cells: bool, chosen: bool) -> Iterator[ast.stmt]:
    """Yield the statements of a block that do work.

    Args:
        statements: The block.
        names: The names of its file.
        in_cells: Whether it is a part of a notebook, whose assignments are work.
        chosen: Whether a condition is around it.
    """
    for statement in statements:
        if isinstance(statement, (ast.For, ast.While)):
            yield statement
        elif isinstance(statement, ast.With):
            if not all(isinstance(inner, (ast.Import, ast.ImportFrom)) for inner in statement.body):
                yield statement
        elif isinstance(statement, ast.If):
            if not is_main(statement.test):
                yield from _working((*statement.body, *statement.orelse), names, in_cells, True)
        elif isinstance(statement, ast.Try):
            attempted = [] if _awaits_absence(statement) else statement.body
            block = (*attempted, *statement.orelse, *statement.finalbody)
            yield from _working(block, names, in_cells, chosen or bool(statement.handlers))
        elif isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Call) and not _prepares(statement.value, names, chosen):
                yield statement
        elif isinstance(statement, ast.Raise):  # raise SystemExit(main())
            if isinstance(statement.exc, ast.Call) and any(isinstance(part, ast.Call) for part in statement.exc.args):
                if last_name(statement.exc.func) == "SystemExit":
                    yield statement
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any((names.qualified(callee(each)) or "").startswith(_HANDLES) for each in statement.decorator_list):
                yield statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and not in_cells:
            if names.qualified(statement.value.func) in _APPLICATIONS:
                yield statement
        elif in_cells and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if statement.value is not None and any(isinstance(node, ast.Call) for node in nodes_in(statement.value)):
                yield statement


def _awaits_absence(attempt: ast.Try) -> bool:
    """Whether an attempt is one to import something that may not be there."""
    types = [node for handler in attempt.handlers if handler.type is not None for node in nodes_in(handler.type)]
    return any(last_name(node) in ("ImportError", "ModuleNotFoundError") for node in types)


def _prepares(call: ast.Call, names: Names, chosen: bool) -> bool:
    last = last_name(call.func).lower()
    if chosen and last in _TELLING:
        return True
    return (names.qualified(call.func) or "").startswith(_PREPARING) or "regist" in last or last in _PREPARED
