"""Conditions that ask for CUDA: where one ends, what it decides about, and the names that it is kept under."""

from __future__ import annotations

import ast

from torchferry.backends import cuda
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.machine_questions import is_machine_question
from torchferry.rules.value_calls import converts
from torchferry.source.flow.syntax import STRING_METHODS, last_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_NO = (False, None, 0)
_EXITS = (ast.Return, ast.Continue, ast.Break)

_STATUS = frozenset({"system", "call"})
"""Functions that start a program and return 0 where it went well."""


class Condition(NamedTuple):
    """A whole condition.

    Attributes:
        top: The outermost expression of it.
        positive: Whether it is true where the part that was asked for is.
        needed: Whether it is false wherever that part is.
    """

    top: ast.expr
    positive: bool
    needed: bool


def condition_of(context: PythonContext, node: ast.AST, *, answer: bool = False) -> Condition | None:
    """Return the condition that a place of CUDA is the question of, or None when it asks nothing.

    Args:
        context: The file.
        node: A name of torch, a device string, a property of a tensor.
        answer: Whether `node` is an answer by itself, such as a variable that holds one.
    """
    file = context.file
    asks = answer or _is_question(context, node)
    positive = needed = True
    combined = False
    child: ast.AST = node
    while True:
        parent = file.parents.get(child)
        if isinstance(parent, ast.Call):
            passed = _through_call(context, child, parent, asks)
            if passed is None:
                break
            asks = asks or passed
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            positive, needed = not positive, needed and not combined
        elif isinstance(parent, ast.BoolOp):
            combined = True
            needed = needed and isinstance(parent.op, ast.And) == positive
        elif isinstance(parent, ast.Compare):
            asks = True
            if _turns(parent, child):
                positive = not positive
        elif isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            if not isinstance(file.parents[parent], ast.Compare):
                break
        elif isinstance(parent, (ast.GeneratorExp, ast.ListComp)):
            around = file.parents[parent]
            if child is not parent.elt or not isinstance(around, ast.Call) or last_name(around.func) != "any":
                break
        elif not isinstance(parent, (ast.NamedExpr, ast.MatchValue, ast.MatchOr)):
            break
        if isinstance(parent, (ast.MatchValue, ast.MatchOr)):
            asks = True
        child = parent
    if isinstance(child, ast.pattern):
        return Condition(child, True, True) if asks else None  # type: ignore[arg-type]
    return Condition(child, positive, needed) if asks and isinstance(child, ast.expr) else None


def _is_question(context: PythonContext, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "is_cuda":
        return True
    if isinstance(node, (ast.Name, ast.Attribute)) and context.names.qualified(node) in cuda.questions():
        return True
    return is_machine_question(context, node)


def _through_call(context: PythonContext, child: ast.AST, call: ast.Call, asks: bool) -> bool | None:
    """Return whether a call around a part asks something, or None when the condition ends before it."""
    name = last_name(call.func)
    if child is call.func:
        return asks or None
    if child not in call.args:
        return None
    if isinstance(call.func, ast.Attribute) and name in STRING_METHODS:
        return True
    if name == "isinstance":
        return True
    if isinstance(call.func, ast.Name) and name in ("bool", "any", "all", "int", "str", "len"):
        return asks
    if context.names.qualified(call.func) == "torch.device" or converts(name):
        return False
    return None


def _turns(comparison: ast.Compare, part: ast.AST) -> bool:
    """Whether a comparison is true where its part is not: `!= "cuda"`, `count() == 0`, `count() < 1`."""
    operator = comparison.ops[0]
    sides = [comparison.left, *comparison.comparators]
    no = any(isinstance(side, ast.Constant) and side.value in _NO for side in sides if side is not part)
    if isinstance(part, ast.Call) and last_name(part) in _STATUS:
        no = not no
    if isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn)):
        return not no
    if isinstance(operator, (ast.Lt, ast.LtE)):
        return part is comparison.left
    if isinstance(operator, (ast.Gt, ast.GtE)):
        return part is not comparison.left
    return no


def followers(file: PythonFile, top: ast.AST, positive: bool) -> list[ast.AST]:
    """Return what runs only where a condition is true (or, for not `positive`, false)."""
    parent = file.parents.get(top)
    if isinstance(top, ast.pattern):
        return [*parent.body] if isinstance(parent, ast.match_case) else []
    if isinstance(parent, ast.match_case):
        return [*parent.body] if positive else []
    if isinstance(parent, ast.comprehension) and top in parent.ifs and positive:
        return _produced(file.parents[parent])
    if isinstance(parent, ast.While) and top is parent.test:
        return [*parent.body] if positive else []
    if isinstance(parent, ast.IfExp) and top is parent.test:
        return [parent.body if positive else parent.orelse]
    if not isinstance(parent, ast.If) or top is not parent.test:
        return []
    if positive:
        return [*parent.body]
    if parent.orelse:
        return [*parent.orelse]
    return _behind(file, parent) if isinstance(parent.body[-1], _EXITS) else []


def _produced(comprehension: ast.AST) -> list[ast.AST]:
    if isinstance(comprehension, ast.DictComp):
        return [comprehension.key, comprehension.value]
    return [comprehension.elt]  # type: ignore[attr-defined]


def _behind(file: PythonFile, statement: ast.stmt) -> list[ast.AST]:
    """Return the statements that follow one in the same body."""
    parent = file.parents[statement]
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list) and statement in body:
            return [*body[body.index(statement) + 1 :]]
    return []


def stored_uses(context: PythonContext, top: ast.AST) -> list[ast.expr]:
    """Return the uses of the names that a condition is kept under: variables, attributes, functions that return it."""
    parent = context.file.parents.get(top)
    uses: list[ast.expr] = []
    for target in _targets(context.file, top):
        if isinstance(target, ast.Name):
            uses += _uses_of_name(context, target)
        elif isinstance(target, ast.Attribute):
            uses += _uses_of_attribute(context, target)
    if isinstance(parent, ast.Return):
        uses += _calls(context, parent)
    return uses


def _targets(file: PythonFile, top: ast.AST) -> list[ast.expr]:
    """Return what a value is assigned to."""
    targets: list[ast.expr] = []
    parent = file.parents.get(top)
    if isinstance(parent, ast.Assign):
        targets += parent.targets
    elif isinstance(parent, (ast.Tuple, ast.List)) and isinstance(statement := file.parents.get(parent), ast.Assign):
        targets += (item for target in statement.targets if (item := _item_of(target, parent, top)) is not None)
    elif isinstance(parent, (ast.AnnAssign, ast.AugAssign)) and top is parent.value:
        targets.append(parent.target)
    if file.named_expressions:
        targets += (node.target for node in nodes_in(top) if isinstance(node, ast.NamedExpr))
    return targets


def _item_of(target: ast.expr, values: ast.Tuple | ast.List, value: ast.AST) -> ast.expr | None:
    """Return the item of an unpacked target that takes `value`, one of `values`, or None where that is open."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return None
    place = values.elts.index(value)  # type: ignore[arg-type]
    if any(isinstance(item, ast.Starred) for item in (*target.elts, *values.elts[place + 1 :])):
        return None
    if any(isinstance(item, ast.Starred) for item in values.elts[:place]):
        place -= len(values.elts)  # `a, b, on_card = *shape, x.is_cuda`: it is found from the end
    elif len(values.elts) != len(target.elts) and not any(isinstance(item, ast.Starred) for item in values.elts):
        return None
    return target.elts[place] if -len(target.elts) <= place < len(target.elts) else None


def _uses_of_name(context: PythonContext, target: ast.Name) -> list[ast.expr]:
    scope = context.names.variable_scope(target.id, context.file.scope(target))
    if scope is None:
        return []
    uses: list[ast.expr] = [*context.names.uses(target.id, scope)]
    if isinstance(scope, ast.ClassDef):  # a class attribute is used as `self.name`
        uses += (use for use in _of_self(context, target.id) if context.file.enclosing_class(use) is scope)
    return uses


def _uses_of_attribute(context: PythonContext, target: ast.Attribute) -> list[ast.expr]:
    owner = ast.dump(target.value)
    uses = [use for use in context.file.attributes.get(target.attr, ()) if isinstance(use.ctx, ast.Load)]
    same = [use for use in uses if ast.dump(use.value).replace("Store()", "Load()") == owner]
    if last_name(target.value) in ("self", "cls"):
        around = context.file.enclosing_class(target)
        same = [use for use in same if context.file.enclosing_class(use) is around]
    return [*same]


def _of_self(context: PythonContext, name: str) -> list[ast.Attribute]:
    return [
        use
        for use in context.file.attributes.get(name, ())
        if isinstance(use.ctx, ast.Load) and isinstance(use.value, ast.Name) and use.value.id in ("self", "cls")
    ]


def _calls(context: PythonContext, statement: ast.Return) -> list[ast.expr]:
    """Return the calls of the function that a statement returns from, and the reads of it as a property."""
    file = context.file
    function = file.enclosing_function(statement)
    if function is None:
        return []
    around = file.parents.get(function)
    if isinstance(around, ast.ClassDef):
        uses: list[ast.expr] = [use for use in _of_self(context, function.name) if file.enclosing_class(use) is around]
    else:
        uses = [use for use in file.names.get(function.name, ()) if function in context.names.bindings(use)]
    calls: list[ast.expr] = []
    for use in uses:
        parent = file.parents.get(use)
        calls.append(parent if isinstance(parent, ast.Call) and parent.func is use else use)
    return calls
