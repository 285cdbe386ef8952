"""Who uses what an import may fail to bind, also where a function hands it out: `cupy = try_import("cupy")`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.assignments import bound_by_handler, is_only_asked
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.programs.syntax.use_syntax import Place
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import IMPORTING_NAMES
from torchferry.source.names import Names, assigned_value, bound_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile


def uses_of_attempt(
    uses: Uses, file: PythonFile, names: Names, statement: ast.Import | ast.ImportFrom
) -> Iterator[Place]:
    """Yield the uses of what an import may fail to bind, where nothing asks first and nothing else is bound to it."""
    for alias in statement.names:
        if alias.name == "*" or bound_by_handler(file, bound_name(alias), statement):
            continue
        scope = file.scope(alias)
        for use in names.uses(bound_name(alias), scope):
            if not is_only_asked(file, use) and not place_context(file, use).copes:
                yield Place(file.path, use)
        if scope is file.tree:
            yield from _uses_elsewhere(uses, file, ast.copy_location(ast.Name(bound_name(alias)), statement))


def _uses_elsewhere(uses: Uses, file: PythonFile, bound: ast.Name) -> Iterator[Place]:
    """Yield where other files use what a file binds, without asking first whether it is there."""
    for place in (use.place for use in uses.of_binding(file, bound)):
        loaded = uses.sources.file(place.path) if place.path != file.path else None
        if loaded is not None and isinstance(place.node, (ast.Name, ast.Attribute)):
            if not is_only_asked(loaded[0], place.node) and not place_context(loaded[0], place.node).copes:
                yield place


def hands_out(file: PythonFile, names: Names, node: ast.AST, function: FunctionNode) -> bool:
    """Whether a function gives back what an import in it binds, or a call that imports by a name.

    It may give it back as the first of a pair: `return module, True`.
    """
    bound = {bound_name(alias) for alias in node.names} if isinstance(node, (ast.Import, ast.ImportFrom)) else set()
    calls = (each for each in nodes_in(node) if isinstance(each, ast.Call))
    imports = [each for each in calls if each is node or last_name(each.func) in IMPORTING_NAMES]
    returns = (each.value for each in nodes_in(function) if isinstance(each, ast.Return)) if bound or imports else ()
    for value in returns:
        if isinstance(value, (ast.Tuple, ast.List)) and value.elts:
            value = value.elts[0]
        if value in imports or (isinstance(value, ast.Name) and value.id in bound):
            return True
        if isinstance(value, ast.Name) and any(
            assigned_value(file, binding) in imports for binding in names.bindings(value)
        ):
            return True
    return False


def uses_of_handed_out(
    uses: Uses, file: PythonFile, names: Names, callee: ast.AST | None, is_absent: Callable[[str], bool]
) -> Iterator[tuple[Place, bool]]:
    """Yield what uses what a call gives back, without asking first whether it is there, and whether it surely does.

    What is kept somewhere is not sure: nobody knows who uses it.

    Args:
        uses: Where names are used.
        file: The file of the call.
        names: Its names.
        callee: What is called.
        is_absent: Says whether the target has no module of a name.
    """
    call = file.parents.get(callee) if callee is not None else None
    if not isinstance(call, ast.Call) or call.func is not callee:
        return
    asked = [string_value(argument) for argument in call.args[:1]]
    if asked and asked[0] is not None and not is_absent(asked[0]):
        return
    is_told = not asked or asked[0] is not None
    for place, is_sure in uses_of_imported(uses, file, names, call):
        loaded = uses.sources.file(place.path)
        if loaded is not None and place.node is not None and not place_context(loaded[0], place.node).copes:
            yield place, is_sure and is_told


def uses_of_imported(uses: Uses, file: PythonFile, names: Names, call: ast.Call) -> Iterator[tuple[Place, bool]]:
    """Yield what uses what a call has imported, without asking first whether it is there, and whether it surely does.

    Of a pair it is the first one. What is kept somewhere is not sure: nobody knows who uses it.
    """
    value: ast.expr = call
    parent = file.parents.get(call)
    if isinstance(parent, ast.Subscript) and parent.value is call:
        value, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is value):
        yield Place(file.path, file.statement(call)), True
        return
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
        target = parent.target
    if isinstance(target, (ast.Tuple, ast.List)) and target.elts:
        target = target.elts[0]
    if isinstance(target, ast.Name):
        for use in names.uses_of(target):
            if not (is_only_asked(file, use) or _is_said_of_types(file, use)):
                yield Place(file.path, use), True
        if file.scope(target) is file.tree:
            yield from ((place, True) for place in _uses_elsewhere(uses, file, target))
    elif not isinstance(parent, (ast.Expr, ast.Return, ast.Tuple)):
        yield Place(file.path, file.statement(call)), False


def _is_said_of_types(file: PythonFile, use: ast.expr) -> bool:
    """Whether a name is in an annotation that nobody evaluates: `from __future__ import annotations`."""
    if "annotations" not in {bound_name(alias) for statement in file.imports for alias in statement.names}:
        return False
    child: ast.AST = use
    parent = file.parents.get(child)
    while parent is not None and not isinstance(child, ast.stmt):
        if child in (getattr(parent, "annotation", None), getattr(parent, "returns", None)):
            return True
        child, parent = parent, file.parents.get(parent)
    return False
