"""Facts about places in the files of a project that hold for every program: their context and their expressions.

The same places are on the paths of many programs, so each is examined once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from torchferry.programs.evaluation.config_files import is_configurable
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Step
from torchferry.programs.references.import_results import hands_out
from torchferry.programs.syntax.decorators import changes_arguments
from torchferry.programs.syntax.definitions import Definition, chosen_definitions, is_replaced
from torchferry.programs.syntax.parameters import BoundArgument, Parameter, given_by, is_given_by_python
from torchferry.programs.syntax.place_context import FunctionNode, PlaceContext, place_context
from torchferry.programs.syntax.use_syntax import run_with
from torchferry.source.flow.syntax import last_name
from torchferry.source.import_calls import ImportTime, import_of
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_LONGEST_LINE = 80
_LONGEST_CONDITION = 80
"""Characters of a line, and of a condition, as a way shows them."""

_DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class PlaceContexts:
    """Answers for all programs what does not depend on the program.

    Args:
        sources: The project's files.
        modules: Its imports.
        lacking: Lines of imports, by file, that fail on the target.
    """

    def __init__(self, sources: Sources, modules: Modules, lacking: Callable[[str], frozenset[int]]) -> None:
        self._sources = sources
        self._modules = modules
        self._lacking = lacking
        self._around: dict[ast.AST, PlaceContext] = {}
        self._lines: dict[tuple[str, int], str] = {}
        self._steps: dict[ast.AST, Step] = {}
        self._given: dict[tuple[ast.Call, FunctionNode], tuple[tuple[Parameter, BoundArgument], ...]] = {}
        self._handing: dict[ast.AST, bool] = {}
        self._definitions: dict[FunctionNode, tuple[tuple[Definition, ...], bool]] = {}
        self._deferred: dict[ast.Call, ImportTime | None] = {}
        self._texts: dict[ast.expr, str] = {}
        self._twice: dict[ast.Try, bool] = {}
        self._failing: dict[ast.Try, bool] = {}
        self._either_way: dict[ast.If, bool] = {}

    def of(self, file: PythonFile, node: ast.AST) -> PlaceContext:
        """Return the context of a node."""
        if node not in self._around:
            self._around[node] = place_context(file, node)
        return self._around[node]

    def given(
        self, path: str, function: FunctionNode, call: ast.Call, caller: str, *, bound: bool
    ) -> tuple[tuple[Parameter, BoundArgument], ...]:
        """Return what a call passes to the parameters of a function; the arguments are those of `given_by`.

        The result is empty where a decorator of the project may change the arguments.
        """
        key = (call, function)
        if key not in self._given:
            loaded = self._sources.file(path) if function.decorator_list else None
            is_changed = loaded is not None and changes_arguments(self._sources.project, *loaded, function)
            may_be = not is_changed and path in self._sources.words.holding("gin")
            loaded = self._sources.file(path) if may_be else None
            is_changed = is_changed or (loaded is not None and is_configurable(*loaded, function))
            given = {} if is_changed else given_by(path, function, call, caller, bound=bound)
            self._given[key] = tuple(given.items())
        return self._given[key]

    def given_at(
        self, path: str, node: ast.AST | None, file: PythonFile, unit: FunctionNode
    ) -> Iterator[tuple[Parameter, BoundArgument]]:
        """Yield the arguments that the call at a place passes to a function, or to its class when that is called.

        Args:
            path: The file of the place.
            node: The called expression.
            file: The file of the function.
            unit: The function.
        """
        loaded = self._sources.file(path)
        call = loaded[0].parents.get(node) if loaded is not None and node is not None else None
        if loaded is not None and isinstance(call, ast.Attribute) and call.attr == unit.name:  # `Base.__init__(self)`
            node, call = call, loaded[0].parents.get(call)
        if not isinstance(call, ast.Call) or call.func is not node:
            return
        owner = file.parents.get(unit)
        called: ast.AST | None = unit
        if isinstance(owner, ast.ClassDef) and last_name(call.func) != unit.name:
            called = next(
                (part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None
            )
        if isinstance(called, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from self.given(file.path, called, call, path, bound=is_given_by_python(owner, called, call))

    def definitions(self, file: PythonFile, names: Names, unit: FunctionNode) -> tuple[tuple[Definition, ...], bool]:
        """Return the definitions that must be chosen for a function to be meant, and whether one is replaced."""
        if unit not in self._definitions:
            chosen = tuple(chosen_definitions(file, names, unit))
            self._definitions[unit] = (chosen, any(is_replaced(file, names, each) for each in chosen))
        return self._definitions[unit]

    def hands_out(self, file: PythonFile, names: Names, node: ast.AST, unit: FunctionNode) -> bool:
        """Whether a function returns an object that it imports at a place; see `handed_out.hands_out`."""
        if node not in self._handing:
            self._handing[node] = hands_out(file, names, node, unit)
        return self._handing[node]

    def deferred(self, file: PythonFile, names: Names, node: ast.AST) -> ImportTime | None:
        """Return how a call defers its import until its result is used; None for any other call."""
        if not isinstance(node, ast.Call):
            return None
        if node not in self._deferred:
            imported = import_of(names, node)
            how = imported.how if imported is not None and imported.how is not ImportTime.AT_ONCE else None
            is_stand_in = imported is None and self._modules.lazy.stand_in(file, names, node) is not None
            self._deferred[node] = ImportTime.LAZILY if is_stand_in else how
        return self._deferred[node]

    # --- how places read ---

    def step(self, path: str, node: ast.AST | None) -> Step:
        """Return a place as a step of a way."""
        if node is None:
            return Step(path, 1, self.line(path, 1))
        step = self._steps.get(node)
        if step is None:
            line = getattr(node, "lineno", 1)
            step = self._steps[node] = Step(path, line, self.line(path, line))
        return step

    def line(self, path: str, line: int) -> str:
        """Return a line of a file as a way shows it."""
        if (path, line) not in self._lines:
            self._lines[path, line] = " ".join(self._sources.line(path, line).split())[:_LONGEST_LINE]
        return self._lines[path, line]

    def condition(self, path: str, test: ast.expr, *, wanted: bool) -> str:
        """Return a condition of a file as people read it, with its place."""
        line = getattr(test, "lineno", 0)
        if not wanted and isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, wanted = test.operand, True
        if test not in self._texts:
            loaded = self._sources.file(path)
            assert loaded is not None
            text = " ".join(loaded[0].source.text[slice(*_span(loaded[0], test))].split())
            self._texts[test] = text if len(text) <= _LONGEST_CONDITION else f"{text[: _LONGEST_CONDITION - 3]}..."
        shown = self._texts[test]
        return f"{shown if wanted else f'not ({shown})'} ({path}:{line})"

    # --- attempts, and what fails ---

    def tries_twice(self, names: Names, attempt: ast.Try) -> bool:
        """Whether a handler imports the same file again, by another name for it: it does not go on without it."""
        if attempt not in self._twice:
            first = self._imported_in(names, attempt.body)
            self._twice[attempt] = bool(first) and any(
                first & self._imported_in(names, handler.body) for handler in attempt.handlers
            )
        return self._twice[attempt]

    def _imported_in(self, names: Names, block: list[ast.stmt]) -> set[str]:
        imported: set[str] = set()
        for statement in (inner for part in block for inner in nodes_in(part)):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                imported |= self._modules.imported_by(statement, names)
        return imported

    def features(self, path: str) -> bool:
        """Whether a file holds something that the target does not have."""
        return bool(self._lacking(path))

    def fails(self, file: PythonFile, attempt: ast.Try) -> bool:
        """Whether an attempted operation is known to fail on the target, so that its handler runs."""
        if attempt not in self._failing:
            lines = self._lacking(file.path)
            self._failing[attempt] = _spans_any(attempt.body, lines) and any(
                getattr(inner, "lineno", 0) in lines for inner in run_with(attempt.body)
            )
        return self._failing[attempt]

    def lacks_either_way(self, file: PythonFile, test: ast.expr) -> bool:
        """Whether both branches of a condition hold, at their own level, something that the target does not have."""
        choice = file.parents.get(test)
        if not isinstance(choice, ast.If) or choice.test is not test:
            return False
        if choice not in self._either_way:
            lines = self._lacking(file.path)
            branches = (choice.body, choice.orelse)
            self._either_way[choice] = all(_spans_any(branch, lines) for branch in branches) and all(
                any(line in lines for line in _own_lines(branch)) for branch in branches
            )
        return self._either_way[choice]


def _spans_any(block: list[ast.stmt], lines: Iterable[int]) -> bool:
    """Whether one of some lines lies in a block."""
    if not block:
        return False
    first, last = block[0], block[-1]
    begin = first.decorator_list[0].lineno if isinstance(first, _DECORATED) and first.decorator_list else first.lineno
    return any(begin <= line <= (last.end_lineno or last.lineno) for line in lines)


def _own_lines(branch: list[ast.stmt]) -> Iterator[int]:
    """Yield the lines of a branch that run unconditionally once the branch is taken."""
    for statement in branch:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from _own_lines(statement.body)
        elif not isinstance(statement, (ast.If, ast.Try, ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Match)):
            yield from (node.lineno for node in nodes_in(statement) if isinstance(node, (ast.expr, ast.stmt)))


def _span(file: PythonFile, node: ast.AST) -> tuple[int, int]:
    try:
        return file.span(node)
    except (ValueError, AttributeError):
        return 0, 0
