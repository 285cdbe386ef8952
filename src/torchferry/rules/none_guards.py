"""Whether an expression is asked for None before its value is used: `if cap is not None and cap[0] >= 8`."""

from __future__ import annotations

import ast

from torchferry.core.budget import spend
from torchferry.source.python import PythonFile

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Module)


def is_not_none(file: PythonFile, node: ast.expr) -> bool:
    """Whether an expression is evaluated only where the same one was asked for before, and was not None."""
    wanted = _key(node)
    child: ast.AST = node
    parent = file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.BoolOp):
            answer = isinstance(parent.op, ast.And)
            earlier = parent.values[: parent.values.index(child)]  # type: ignore[arg-type]
            if any(_says(value, wanted, answer) for value in earlier):
                return True
        elif isinstance(parent, (ast.IfExp, ast.If, ast.While)) and child is not parent.test:
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            if _says(parent.test, wanted, child in body):
                return True
        elif isinstance(parent, ast.comprehension) and child in parent.ifs:
            if any(_says(test, wanted, True) for test in parent.ifs[: parent.ifs.index(child)]):
                return True
        elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            tests = [test for generator in parent.generators for test in generator.ifs]
            if not isinstance(child, ast.comprehension) and any(_says(test, wanted, True) for test in tests):
                return True
        if isinstance(child, ast.stmt) and _settled_before(parent, child, wanted):
            return True
        if isinstance(parent, _SCOPES):
            return False
        child, parent = parent, file.parents.get(parent)
    return False


def _settled_before(parent: ast.AST, statement: ast.stmt, wanted: str) -> bool:
    """Whether an earlier statement of the same block leaves, or gives another value, where there is None."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            earlier = block[: block.index(statement)]
            spend(len(earlier))
            return any(_settles(each, wanted) for each in earlier)
    return False


def _settles(statement: ast.stmt, wanted: str) -> bool:
    if isinstance(statement, ast.Assert):
        return _says(statement.test, wanted, True)
    if not isinstance(statement, ast.If) or not _says(statement.test, wanted, False):
        return False
    last = statement.body[-1]
    if isinstance(last, ast.Assign):
        return any(_key(target) == wanted for target in last.targets)
    return isinstance(last, _EXITS)


def _says(test: ast.expr, wanted: str, answer: bool) -> bool:
    """Whether a test that is true (or, for not `answer`, false) says that the wanted expression is not None."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _says(test.operand, wanted, not answer)
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) == answer and any(_says(each, wanted, answer) for each in test.values)
    if isinstance(test, ast.Compare):
        operator, other = test.ops[0], test.comparators[0]
        if len(test.ops) > 1 or not (isinstance(other, ast.Constant) and other.value is None):
            return False
        positive = isinstance(operator, (ast.IsNot, ast.NotEq))
        return (
            positive == answer
            and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
            and (_key(test.left) == wanted)
        )
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("bool", "isinstance"):
        return answer and bool(test.args) and _key(test.args[0]) == wanted
    return answer and _key(test) == wanted


def _key(node: ast.AST) -> str:
    """Return what two expressions have in common that read the same; a named expression is its name."""
    if isinstance(node, ast.NamedExpr):
        node = node.target
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_key(node.value)}.{node.attr}"
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.Subscript):
        return f"{_key(node.value)}[{_key(node.slice)}]"
    if isinstance(node, ast.Call) and not node.keywords:
        return f"{_key(node.func)}({', '.join(map(_key, node.args))})"
    return f"<{id(node)}>"
