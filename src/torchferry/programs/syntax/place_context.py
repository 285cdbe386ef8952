"""The context of a place in a file: conditions, attempts, the function that it is in."""

from __future__ import annotations

import ast

from torchferry.core.finding import Effect, Finding, Stage
from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.per_file import per_file
from torchferry.rules.guarded import copes, suppresses
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile
from torchferry.source.roles import is_main, is_run_when_started

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class PlaceContext(NamedTuple):
    """The context of a place inside of its function, or of its file.

    Attributes:
        unit: The function whose body holds the place; None for the file itself.
        tests: Conditions that must hold, with the value that they must have.
        attempts: The `try` statements around it whose handlers go on without what failed.
        suppressed: The `with suppress(ImportError)` around it.
        fallback: The `try` that must fail for the place to be run; None where there is none.
        main: Whether it is under `if __name__ == "__main__"`.
        typing: Whether it is only for those who check types.
        imported: Whether it is run only where its file is imported: beside `if __name__ == "__main__"`.
        is_dead: Whether it follows a `return`, `raise` or the like that always runs.
        after: The `try` statements that must not fail for the place to be run: it is in their `else`, or behind
            one whose handlers leave the block.
        narrow: The `try` statements around that go on after errors of certain names alone: `except NVMLError`.
    """

    unit: FunctionNode | None
    tests: tuple[tuple[ast.expr, bool], ...]
    attempts: tuple[ast.Try, ...]
    suppressed: tuple[ast.expr, ...]
    fallback: ast.Try | None
    main: bool
    typing: bool = False
    imported: bool = False
    is_dead: bool = False
    after: tuple[ast.Try, ...] = ()
    narrow: tuple[ast.Try, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to hold, and nothing to fail, for the place to be run."""
        return not (self.tests or self.attempts or self.suppressed or self.fallback or self.after)

    @property
    def copes(self) -> bool:
        """Whether an error at the place is caught by code that goes on without it."""
        return bool(self.attempts or self.suppressed)

    def against(self, error: str) -> PlaceContext:
        """Return the same, of the attempts only those that go on where a certain error is raised."""
        if not (error and (self.copes or self.narrow)):
            return self
        attempts = (each for each in (*self.attempts, *self.narrow) if copes(each, error))
        suppressed = (each for each in self.suppressed if suppresses(each, error))
        return self._replace(attempts=tuple(attempts), suppressed=tuple(suppressed))


_EXITS = (ast.Return, ast.Continue, ast.Break)
"""How a block is left. A program that raises, or in which an assertion fails, does not run: who starts it says what it
asks for."""


_ENDS = frozenset({"exit", "quit", "_exit"})
_END_MODULES = frozenset({"sys", "os"})
"""Functions that end the process, and the modules that have them; `exit` and `quit` are builtins too."""


@per_file
def place_context(file: PythonFile, node: ast.AST) -> PlaceContext:
    """Return the context of a place."""
    tests: list[tuple[ast.expr, bool]] = []
    suppressed: list[ast.expr] = []
    main, imported, is_dead = is_run_when_started(node), False, False
    attempts: list[ast.Try] = []
    narrow: list[ast.Try] = []
    after: list[ast.Try] = []
    fallback: ast.Try | None = None
    unit: FunctionNode | None = None
    child: ast.AST = node
    parent = file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.Try):
            if child in parent.body:
                (attempts if copes(parent) else narrow).append(parent)
            elif child in parent.orelse and copes(parent):
                after.append(parent)
        elif isinstance(parent, ast.ExceptHandler):
            attempt = file.parents.get(parent)
            if isinstance(attempt, ast.Try):
                fallback = attempt
        elif isinstance(parent, ast.With):
            suppressed += [item.context_expr for item in parent.items if suppresses(item.context_expr)]
        elif isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
            if is_main(parent.test):
                in_body = not isinstance(parent, ast.If) or child in parent.body
                main, imported = main or in_body, imported or not in_body
            elif not (isinstance(parent, ast.If) and _fails(parent.orelse if child in parent.body else parent.body)):
                body = parent.body
                tests.append((parent.test, child in body if isinstance(body, list) else child is body))
        elif isinstance(parent, ast.BoolOp) and child in parent.values:
            before = parent.values[: parent.values.index(child)]
            tests += [(value, isinstance(parent.op, ast.And)) for value in before]
        elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            loops = parent.generators
            loops = loops[: loops.index(child)] if isinstance(child, ast.comprehension) else loops
            tests += [(test, True) for loop in loops for test in loop.ifs]
        elif isinstance(parent, ast.comprehension) and child in parent.ifs:
            tests += [(test, True) for test in parent.ifs[: parent.ifs.index(child)]]
        elif isinstance(parent, ast.match_case):
            tests += _matched(file, parent)
        if isinstance(child, ast.stmt):
            tests += _ended_before(file, parent, child)
            after += _left_before(parent, child)
            # `exit()` in a cell restarts the notebook, and the next cell runs
            is_cell = parent is file.tree and file.path.endswith(".ipynb")
            is_dead = is_dead or (not is_cell and _is_dead(file, parent, child))
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in parent.body:
            unit = None if _answers_for_module(file, parent) else parent
            break
        child, parent = parent, file.parents.get(parent)
    typing = any(wanted and last_name(test) == "TYPE_CHECKING" for test, wanted in tests)
    context = unit, tuple(tests), tuple(attempts), tuple(suppressed), fallback, main, typing, imported, is_dead
    return PlaceContext(*context, tuple(after), tuple(narrow))


def unit_of(file: PythonFile, node: ast.AST) -> FunctionNode | None:
    """Return the function whose body or parameters hold a place, or None outside of all functions.

    A default is worked out when its function is defined, and counts where the function is called.
    """
    child, parent = node, file.parents.get(node)
    while parent is not None:
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            child is parent.args or child in parent.body
        ):
            return None if _answers_for_module(file, parent) else parent
        child, parent = parent, file.parents.get(parent)
    return None


def _answers_for_module(file: PythonFile, unit: FunctionNode) -> bool:
    """Whether Python calls a function where a module is asked for a name that it does not bind."""
    return unit.name == "__getattr__" and file.parents.get(unit) is file.tree


def is_under_main(file: PythonFile, node: ast.AST) -> bool:
    """Whether a place is run only where its file is the one that is started."""
    if is_run_when_started(node):
        return True
    child, parent = node, file.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.If) and child in parent.body and is_main(parent.test):
            return True
        child, parent = parent, file.parents.get(parent)
    return False


def _ended_before(file: PythonFile, parent: ast.AST, child: ast.stmt) -> list[tuple[ast.expr, bool]]:
    """Return what must hold for the statements before one in its block not to have left it."""
    tests: list[tuple[ast.expr, bool]] = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if not isinstance(block, list) or child not in block:
            continue
        for statement in block[: block.index(child)]:
            if isinstance(statement, ast.If) and not is_main(statement.test):
                if _leaves(file, statement.body):
                    tests.append((statement.test, False))
                elif statement.orelse and _leaves(file, statement.orelse):
                    tests.append((statement.test, True))
    return tests


def _left_before(parent: ast.AST, child: ast.stmt) -> list[ast.Try]:
    """Return the attempts before a statement in its block of which each handler leaves it, and the program goes on."""
    attempts: list[ast.Try] = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            before = (each for each in block[: block.index(child)] if isinstance(each, ast.Try) and each.handlers)
            attempts += (
                each for each in before if all(isinstance(handler.body[-1], _EXITS) for handler in each.handlers)
            )
    return attempts


def _is_dead(file: PythonFile, parent: ast.AST, child: ast.stmt) -> bool:
    """Whether a statement of the same block ends it before one."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            before = block[: block.index(child)]
            return any(isinstance(each, (*_EXITS, ast.Raise)) or _exits(file, each) for each in before)
    return False


def _exits(file: PythonFile, statement: ast.stmt) -> bool:
    """Whether a statement ends the process: `sys.exit(main())`, `exit()`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) not in _ENDS:
        return False
    if isinstance(call.func, ast.Attribute):
        return isinstance(call.func.value, ast.Name) and call.func.value.id in _END_MODULES
    return _is_builtin(file, last_name(call.func))


def _is_builtin(file: PythonFile, name: str) -> bool:
    """Whether a name is Python's own in a file: the project may have its own function that is called `exit`."""
    if name in file.arguments or any(isinstance(use.ctx, ast.Store) for use in file.names.get(name, ())):
        return False
    around_binders = map(file.parents.get, file.binders.get(name, ()))
    return all(
        isinstance(each, ast.ClassDef) or (isinstance(each, ast.ImportFrom) and each.module in _END_MODULES)
        for each in around_binders
    )


def _leaves(file: PythonFile, block: list[ast.stmt]) -> bool:
    """Whether a block is left, and the program goes on elsewhere or ends as it should."""
    if not block or _fails(block):
        return False
    last = block[-1]
    return isinstance(last, _EXITS) or _exits(file, last) or _is_end_of_parser(last)


def _is_end_of_parser(statement: ast.stmt) -> bool:
    """Whether a statement ends the process by a parser of options: `parser.exit()`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    callee = call.func if isinstance(call, ast.Call) else None
    return isinstance(callee, ast.Attribute) and callee.attr == "exit" and "parser" in last_name(callee.value).lower()


def _fails(block: list[ast.stmt]) -> bool:
    """Whether a block ends the program with an error, whichever way it takes.

    Nobody starts a program for that: what is next to such a block is no choice, but what the program does.
    """
    return _ends_so(block) and not any(isinstance(node, _EXITS) for statement in block for node in nodes_in(statement))


def _ends_so(block: list[ast.stmt]) -> bool:
    """Whether the last statement of a block ends the program with an error."""
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _ends_so(last.body) and _ends_so(last.orelse)
    if isinstance(last, ast.Assert):
        return isinstance(last.test, ast.Constant) and not last.test.value
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return _ends_with_error(last.value)
    return isinstance(last, ast.Raise)


def _ends_with_error(call: ast.Call) -> bool:
    """Whether a call ends the process with another exit code than 0: `sys.exit("no such model")`, `exit(1)`."""
    if last_name(call.func) == "abort":
        return True
    code = call.args[0] if call.args else None
    is_error = isinstance(code, ast.JoinedStr) or (isinstance(code, ast.Constant) and code.value not in (None, 0))
    return last_name(call.func) in ("exit", "_exit") and is_error


def _matched(file: PythonFile, case: ast.match_case) -> list[tuple[ast.expr, bool]]:
    """Return what must hold for a case to be the one: its own pattern; for `case _` none of those before it."""
    statement = file.parents.get(case)
    if not isinstance(statement, ast.Match):
        return []
    conditions = [(case.guard, True)] if case.guard is not None else []
    if isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
        before = [other for other in statement.cases[: statement.cases.index(case)] if other.guard is None]
        tests = [_pattern_test(statement.subject, other.pattern) for other in before]
        return [*conditions, *((test, False) for test in tests if test is not None)]
    test = _pattern_test(statement.subject, case.pattern)
    return conditions if test is None else [(test, True), *conditions]


def _pattern_test(subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
    """Return the comparison that a pattern of plain values means, or None for another pattern."""
    test: ast.expr
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(subject, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        value = ast.copy_location(ast.Constant(pattern.value), pattern)
        test = ast.Compare(subject, [ast.Is()], [value])
    elif isinstance(pattern, ast.MatchOr):
        values = [part.value for part in pattern.patterns if isinstance(part, ast.MatchValue)]
        if len(values) < len(pattern.patterns):
            return None
        test = ast.Compare(subject, [ast.In()], [ast.copy_location(ast.Tuple(values, ast.Load()), pattern)])
    else:
        return None
    return ast.copy_location(test, pattern)


def outside_of_attempts(file: PythonFile, node: ast.AST, finding: Finding) -> ast.AST:
    """Return the outermost `try` of a function around a place where no error is raised that it could catch.

    An answer that is wrong is wrong behind the `try` as well; what raises at the place itself is caught there.
    """
    outer = node
    is_answer = any(each.stage is Stage.GROUP for each in finding.regradings)
    if finding.effect is Effect.RAISES and not is_answer:
        return outer
    parent = file.parents.get(node)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if isinstance(parent, ast.Try) and node in parent.body and copes(parent):
            outer = parent
        node, parent = parent, file.parents.get(parent)
    return outer
