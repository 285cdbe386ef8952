"""What a case of a `match` asks, as the comparison that an `if` would make."""

from __future__ import annotations

import ast

from torchferry.source.python import PythonFile


def matched(file: PythonFile, case: ast.match_case) -> list[tuple[ast.expr, bool]]:
    """Return what must hold for a case to be the one: its own pattern; for `case _` none of those before it."""
    statement = file.parents.get(case)
    if not isinstance(statement, ast.Match):
        return []
    found = [(case.guard, True)] if case.guard is not None else []
    if isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
        before = [other for other in statement.cases[: statement.cases.index(case)] if other.guard is None]
        tests = [_pattern_test(statement.subject, other.pattern) for other in before]
        return [*found, *((test, False) for test in tests if test is not None)]
    test = _pattern_test(statement.subject, case.pattern)
    return found if test is None else [(test, True), *found]


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
