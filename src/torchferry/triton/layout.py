"""Texts of as many lines as a file, empty but for some of its statements.

A condition around a statement becomes one that holds, or, where nobody can tell which side is taken and both have what
is needed, an attempt: the second side is taken where the first one fails.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping

from torchferry.rules.triton.kernels import JIT
from torchferry.source.flow.syntax import callee
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

Holds = Callable[[str, ast.expr], bool | None]
"""Whether a condition of a file holds; None where the text does not tell."""


def laid_out(
    file: PythonFile, statements: Mapping[ast.stmt, set[ast.alias]], holds: Holds
) -> tuple[str, list[tuple[int, str]]]:
    """Return the text with some statements of a file, and the conditions that were taken as true.

    Args:
        file: The file.
        statements: The statements; of imports the names that are needed.
        holds: Tells whether a condition holds.
    """
    layout = _Layout(file, statements, holds)
    layout.write(file.tree.body)
    return "\n".join(layout.lines) + "\n", layout.assumed


class _Layout:
    def __init__(self, file: PythonFile, statements: Mapping[ast.stmt, set[ast.alias]], holds: Holds) -> None:
        self._file = file
        self._names = Names(file)
        self._source = file.source.text.split("\n")
        self._statements = statements
        self._holds = holds
        self.lines = [""] * len(self._source)
        self.assumed: list[tuple[int, str]] = []

    def write(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if statement in self._statements:
                self._copy(statement)
            elif isinstance(statement, ast.If) and self._has(statement.body + statement.orelse):
                self._condition(statement)
            elif isinstance(statement, ast.Try) and self._has([statement]):
                self._attempt(statement)

    def _has(self, body: list[ast.stmt]) -> bool:
        return any(node in self._statements for each in body for node in ast.walk(each) if isinstance(node, ast.stmt))

    def _indent(self, node: ast.stmt) -> str:
        line = self._source[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def _put(self, number: int, text: str) -> None:
        """Write a line, behind what is in it."""
        before = self.lines[number - 1]
        self.lines[number - 1] = (
            f"{before}; {text.strip()}"
            if before.strip() and not before.rstrip().endswith(":")
            else (f"{before} {text.strip()}" if before.strip() else text)
        )

    def _copy(self, statement: ast.stmt) -> None:
        indent = self._indent(statement)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            aliases = [each for each in statement.names if each in self._statements[statement]]
            wanted = (
                ast.Import(aliases)
                if isinstance(statement, ast.Import)
                else ast.ImportFrom(statement.module, aliases, statement.level)
            )
            self._put(statement.lineno, indent + ast.unparse(wanted))
            return
        if isinstance(statement, ast.FunctionDef):
            for decorator in statement.decorator_list:
                if (self._names.qualified(callee(decorator)) or "") in JIT:
                    self._put(decorator.lineno, f"{indent}@{ast.unparse(decorator)}")
            for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                self.lines[number - 1] = self._source[number - 1]
            return
        self._put(statement.lineno, indent + ast.unparse(statement))

    def _condition(self, statement: ast.If) -> None:
        test = self._holds(self._file.path, statement.test)
        first = self._has(statement.body) and test is not False
        second = self._has(statement.orelse) and test is not True
        indent, shown = self._indent(statement), ast.unparse(statement.test)[:80]
        is_chained = second and self._source[statement.orelse[0].lineno - 1].lstrip().startswith("elif")
        if test is None and (first or second):
            self.assumed.append((statement.lineno, shown if first else f"not ({shown})"))
        if first:
            is_attempt = second and not is_chained
            self._put(statement.lineno, f"{indent}try:" if is_attempt else f"{indent}if 1:")
            self.write(statement.body)
            if is_attempt:
                self._other_side(statement, f"{indent}except Exception:")
        elif second and is_chained:
            self.write(statement.orelse)  # it becomes a condition of its own
        elif second:
            self._other_side(statement, f"{indent}if 1:")

    def _other_side(self, statement: ast.If, header: str) -> None:
        start = self._first_line(statement.orelse[0])
        end = statement.body[-1].end_lineno or statement.lineno
        lines = range(end + 1, start + 1)
        number = next((each for each in lines if self._source[each - 1].lstrip().startswith("else")), start)
        self._put(number, header)
        self.write(statement.orelse)

    def _first_line(self, statement: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(each.lineno for each in decorators)])

    def _attempt(self, statement: ast.Try) -> None:
        indent = self._indent(statement)
        if any(each not in self._statements for each in (*statement.body, *statement.orelse, *statement.finalbody)):
            self.assumed.append((statement.lineno, "try"))
        has_body = self._has(statement.body)
        self._put(statement.lineno, f"{indent}try:" if has_body else f"{indent}try: pass")
        self.write(statement.body)
        for handler in statement.handlers:
            has_own = self._has(handler.body)
            self._put(handler.lineno, f"{indent}except {_caught(handler)}:" + ("" if has_own else " pass"))
            self.write(handler.body)


def _caught(handler: ast.ExceptHandler) -> str:
    """Return what a handler catches, as far as it is an exception of Python's own."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    is_known = all(isinstance(each, ast.Name) and hasattr(builtins, each.id) for each in kinds)
    return ast.unparse(handler.type) if handler.type is not None and is_known else "Exception"
