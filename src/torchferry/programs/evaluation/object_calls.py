"""Where the objects of a torch module are called that a program makes: `net = Net().cuda()`, then `net(x)`.

Python gives the call to `forward`. An object that goes where nobody can follow it may be called anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.programs.evaluation.objects import OF_MODULES
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.programs.syntax.use_syntax import Place
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_MOST_FOLLOWED = 60
"""Expressions that are followed for one object."""

_LEFT_ALONE = frozenset({
    "parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "zero_grad",
    "named_modules", "add_module", "register_buffer", "print", "len", "type", "id", "isinstance", "str", "repr",
})  # fmt: skip
"""Methods and functions that call nothing of the module that they belong to, or are given."""

_WRAPPED_BY = frozenset({"DataParallel", "DistributedDataParallel", "compile"})
"""What torch wraps a module in, that is called as the module is."""

_SAY_PARTS = ("children(", "modules(", "_modules", "getattr(")
"""How a class calls its parts without their names."""


def calls_of_object(uses: Uses, maker: Place, defined: PythonFile, owner: ast.ClassDef) -> list[Place] | None:
    """Return where an object is called that a call of a class makes, by what is called; None where nobody knows.

    Args:
        uses: Where names are used.
        maker: What is called to make the object.
        defined: The file of the class.
        owner: The class.
    """
    loaded = uses.sources.file(maker.path)
    call = loaded[0].parents.get(maker.node) if loaded is not None and maker.node is not None else None
    if loaded is None or not isinstance(call, ast.Call) or call.func is not maker.node:
        return None
    if not _means(loaded[0], loaded[1], call.func, defined, owner) or any(
        isinstance(part, ast.FunctionDef) and part.name == "__call__" for part in owner.body
    ):
        return None
    # the ways of many programs, with many conditions on them, come to the same calls
    if call not in uses.object_calls:
        uses.object_calls[call] = _found_calls(uses, *loaded, call)
    return uses.object_calls[call]


def _found_calls(uses: Uses, file: PythonFile, names: Names, maker: ast.expr) -> list[Place] | None:
    calls: list[Place] = []
    waiting: list[tuple[PythonFile, Names, ast.expr]] = [(file, names, maker)]
    met: set[ast.expr] = set()
    while waiting:
        file, names, value = waiting.pop()
        if value in met:
            continue
        met.add(value)
        parent = file.parents.get(value)
        if isinstance(parent, ast.Call) and parent.func is value:
            calls.append(Place(file.path, value))
            continue
        further = None if len(met) > _MOST_FOLLOWED else _followed(uses, file, names, value)
        if further is None:
            return None
        waiting += further
    return calls


def _means(file: PythonFile, names: Names, node: ast.expr, defined: PythonFile, owner: ast.ClassDef) -> bool:
    """Whether an expression names a class itself, and none that is derived from it and may have its own way."""
    if isinstance(node, ast.Name):
        bindings = names.bindings(node)
        if file.path == defined.path and bindings == [owner]:
            return True
        return len(bindings) == 1 and isinstance(bindings[0], ast.alias) and bindings[0].name == owner.name
    return last_name(node) == owner.name


def _followed(
    uses: Uses, file: PythonFile, names: Names, value: ast.expr
) -> list[tuple[PythonFile, Names, ast.expr]] | None:
    """Return the expressions that are an object too where an expression is; None where it may go elsewhere."""
    parent = file.parents.get(value)
    if isinstance(parent, ast.Expr):
        return []
    if isinstance(parent, ast.Attribute):
        call = file.parents.get(parent)
        is_called = isinstance(call, ast.Call) and call.func is parent
        if is_called and parent.attr in OF_MODULES:
            return [(file, names, call)]  # type: ignore[list-item]
        return [] if is_called and parent.attr in _LEFT_ALONE else None
    if isinstance(parent, ast.Call):
        kind = last_name(parent.func)
        if kind in _WRAPPED_BY:
            return [(file, names, parent)] if parent.args[:1] == [value] else None
        return [] if kind in _LEFT_ALONE else None
    if isinstance(parent, ast.Return):
        function = file.enclosing_function(parent)
        return [*_calls_of_function(uses, file, names, function)] if function is not None else None
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    if isinstance(target, ast.Name):
        if file.scope(target) is file.tree and any(
            use.place.path != file.path for use in uses.of_binding(file, target)
        ):
            return None
        return [(file, names, use) for use in names.reached_uses(target)]
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        return _kept_in_object(uses, file, names, target)
    return None


def _calls_of_function(
    uses: Uses, file: PythonFile, names: Names, function: FunctionNode
) -> Iterator[tuple[PythonFile, Names, ast.expr]]:
    """Yield the calls of a function, and what else speaks of it."""
    for use in uses.of(file, names, function):
        loaded = uses.sources.file(use.place.path)
        node = use.place.node
        call = loaded[0].parents.get(node) if loaded is not None and node is not None else None
        if loaded is not None and isinstance(node, ast.expr):
            is_called = isinstance(call, ast.Call) and call.func is node
            yield (*loaded, call if is_called else node)  # type: ignore[misc]


def _kept_in_object(
    uses: Uses, file: PythonFile, names: Names, target: ast.Attribute
) -> list[tuple[PythonFile, Names, ast.expr]] | None:
    """Return where an object is asked for what it keeps: `self.net`; None where it may be asked without the name."""
    owner = file.enclosing_class(target)
    if owner is None or any(word in file.text(owner) for word in _SAY_PARTS):
        return None
    others = (path for path in uses.sources.words.as_attribute(target.attr) if path != file.path)
    if any(uses.reached is None or path in uses.reached for path in others):
        return None
    asked = [each for each in file.attributes.get(target.attr, ()) if isinstance(each.ctx, ast.Load)]
    is_own = all(isinstance(each.value, ast.Name) and file.enclosing_class(each) is owner for each in asked)
    return [(file, names, each) for each in asked] if is_own else None
