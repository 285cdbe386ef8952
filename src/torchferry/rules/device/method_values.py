"""Where `.cuda` is taken as a value rather than called: `map(torch.Tensor.cuda, xs)`, `getattr(x, "cuda")()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.budget import spend
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.device.own_methods import is_library_name, receiver_owns
from torchferry.rules.device.receivers import SETTINGS
from torchferry.source.flow.syntax import defaults_of, last_name

_METHOD = "cuda"
_ON_CPU = "cpu"
_BY_NAME = frozenset({"getattr", "methodcaller", "attrgetter"})
_BY_NAME_ALONE = frozenset({"__getattribute__", "__getattr__"})
TENSORS_AND_MODULES = frozenset(
    {"torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch._C.TensorBase"}
)
"""Classes of torch whose method moves what it is called for."""


class MethodValue(NamedTuple):
    """A place where the method is named and not called.

    Attributes:
        node: The string that names it, or the attribute that is taken.
        is_sure: Whether it is torch's method for certain, rather than what another object calls `cuda`.
    """

    node: ast.Constant | ast.Attribute
    is_sure: bool


def method_values(context: PythonContext) -> Iterator[MethodValue]:
    """Yield the places of a file where the method is taken by its name, or as a value of its class."""
    for node in context.file.strings:
        if node.value == _METHOD:
            sure = _is_method(context, node)
            if sure is not None:
                yield MethodValue(node, sure)
    attributes = context.file.attributes.get(_METHOD, ())
    for attribute in sorted(attributes, key=lambda node: (node.lineno, node.col_offset)):
        parent = context.file.parents.get(attribute)
        if isinstance(parent, ast.Call) and parent.func is attribute:
            continue
        if not isinstance(attribute.ctx, ast.Load):
            continue
        if context.names.qualified(attribute.value) in TENSORS_AND_MODULES:
            yield MethodValue(attribute, True)
        elif not is_library_name(context, attribute) and not receiver_owns(context, attribute.value, _METHOD):
            chosen, beside_cpu = _choice(context, attribute)
            owner = attribute.value
            is_setting = isinstance(owner, ast.Name) and SETTINGS.search(owner.id) is not None
            if (beside_cpu and not is_setting) or _is_called(context, chosen):
                yield MethodValue(attribute, beside_cpu)


def names_method(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a string is the name of the method, and no device."""
    return node.value == _METHOD and _is_method(context, node) is not None


def _is_method(context: PythonContext, node: ast.Constant) -> bool | None:
    """Return whether a string names the method for certain; None where it names something else."""
    call = context.file.parents.get(node)
    if isinstance(call, ast.Assign) and isinstance(call.targets[0], ast.Name):
        return _is_asked_for(context, call.targets[0].id, call.targets[0])
    if isinstance(call, ast.arguments):
        named = (argument for argument, default in defaults_of(call) if default is node)
        return next((_is_asked_for(context, argument.arg, argument) for argument in named), None)
    if isinstance(call, _DISPLAYS):
        asked = [_is_taken(context, context.file.parents.get(item), item) for item in _items_of(context, call)]
        return False if any(each is not None for each in asked) else None
    return _is_taken(context, call, node)


def _items_of(context: PythonContext, held_in: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions by which the items of a tuple, a list or a set are read: by a number, or one by one."""
    for holder in (held_in, *_uses(context, context.file.parents.get(held_in))):
        parent = context.file.parents.get(holder)
        if isinstance(parent, ast.Subscript) and parent.value is holder:
            yield parent
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is holder:
            if isinstance(parent.target, ast.Name):
                yield from context.names.uses_of(parent.target)


_DISPLAYS = (ast.Tuple, ast.List, ast.Set)


def _is_asked_for(context: PythonContext, name: str, binding: ast.AST) -> bool | None:
    """Return False where a variable is the name of a method that is taken: `how = "cuda"; getattr(x, how)()`."""
    scope = context.names.variable_scope(name, context.file.scope(binding))
    uses = [] if scope is None or isinstance(scope, ast.ClassDef) else context.names.uses(name, scope)
    asked = (_is_taken(context, context.file.parents.get(use), use) for use in uses)
    return False if any(each is not None for each in asked) else None


def _is_taken(context: PythonContext, call: ast.AST | None, node: ast.expr) -> bool | None:
    """Return whether a call takes the method that an argument names, for certain; None where it does not."""
    if not isinstance(call, ast.Call) or node not in call.args[:2]:
        return None
    taker = last_name(call.func)
    if taker in _BY_NAME_ALONE and call.args[0] is node and isinstance(call.func, ast.Attribute):
        owned = context.names.qualified(call.func.value) is not None or receiver_owns(context, call.func.value, _METHOD)
        return True if not owned and _is_called(context, call) else None
    if taker not in _BY_NAME:
        return None
    if taker != "getattr":
        return taker == "methodcaller" if call.args[0] is node else None
    if len(call.args) < 2 or call.args[1] is not node:
        return None
    owner = call.args[0]
    qualified = context.names.qualified(owner)
    if receiver_owns(context, owner, _METHOD) or (qualified is not None and qualified not in TENSORS_AND_MODULES):
        return None  # of the project's own class; of a module, such as torch, which CUD107 reports
    return True if qualified is not None or _is_called(context, call) else None


_CONTAINERS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
_TAKERS = frozenset({"apply", "map", "partial", "run_in_executor", "starmap", "submit", "to_thread"})
"""Functions that call what they are given."""

_TAKEN_AS = frozenset({"callback", "fn", "func", "target"})
"""Names of arguments that are called."""


def _choice(context: PythonContext, method: ast.Attribute) -> tuple[ast.expr, bool]:
    """Return the outermost choice that a method is a branch of, and whether another branch is the method `cpu`.

    What stands beside it in a tuple, a list or a table is chosen from as well.
    """
    chosen: ast.expr = method
    beside_cpu = False
    while isinstance(parent := context.file.parents.get(chosen), ast.IfExp) and parent.test is not chosen:
        other = parent.orelse if parent.body is chosen else parent.body
        beside_cpu |= isinstance(other, ast.Attribute) and other.attr == _ON_CPU
        chosen = parent
    if isinstance(parent, _CONTAINERS):
        others = parent.values if isinstance(parent, ast.Dict) else parent.elts
        beside_cpu |= chosen in others and any(
            isinstance(other, ast.Attribute)
            and other.attr == _ON_CPU
            and ast.dump(other.value) == ast.dump(method.value)
            for other in others
        )
    return chosen, beside_cpu


def _is_called(context: PythonContext, value: ast.expr) -> bool:
    """Whether the result is called, there, by the name that it is given, or as an item of what holds it."""
    waiting = [(value, False)]
    met: set[tuple[ast.expr, bool]] = set()
    while waiting:
        state = waiting.pop()
        if state in met:
            continue
        spend()
        met.add(state)
        node, holds = state
        further = _has_called_items(context, node) if holds else _comes_to(context, node)
        if further is None:
            return True
        waiting += further
    return False


_Further = list[tuple[ast.expr, bool]]
"""What a value becomes, and whether that holds the value; None where the value is called."""


def _comes_to(context: PythonContext, value: ast.expr) -> _Further | None:
    """Return what a method becomes by what is around it."""
    parent = context.file.parents.get(value)
    if isinstance(parent, ast.Call):
        return None if parent.func is value or (last_name(parent.func) in _TAKERS and value in parent.args) else []
    if isinstance(parent, ast.keyword):
        return None if parent.arg in _TAKEN_AS else []
    if isinstance(parent, _CONTAINERS):
        is_item = value in (parent.values if isinstance(parent, ast.Dict) else parent.elts)
        return [(parent, True)] if is_item else []
    return [(use, False) for use in _uses(context, parent)]


def _has_called_items(context: PythonContext, holder: ast.expr) -> _Further | None:
    """Return what the items of a tuple, a list or a table become: taken by a key, or one after the other."""
    parent = context.file.parents.get(holder)
    if isinstance(parent, ast.Subscript):
        return [(parent, False)] if parent.value is holder else []
    if isinstance(parent, ast.Attribute):
        call = context.file.parents.get(parent)
        is_got = parent.attr == "get" and isinstance(call, ast.Call) and call.func is parent
        return [(call, False)] if is_got and isinstance(call, ast.Call) else []
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        target = parent.target
        is_run_through = parent.iter is holder and isinstance(target, ast.Name)
        is_called = is_run_through and any(
            isinstance(call := context.file.parents.get(use), ast.Call) and call.func is use
            for use in context.names.uses_of(target)  # type: ignore[arg-type]
        )
        return None if is_called else []
    return [(use, True) for use in _uses(context, parent)]


def _uses(context: PythonContext, assignment: ast.AST | None) -> list[ast.Name]:
    """Return where the variable is read that an assignment of one name sets; none for anything else."""
    if isinstance(assignment, ast.Assign) and len(assignment.targets) == 1:
        target: ast.expr = assignment.targets[0]
    elif isinstance(assignment, (ast.AnnAssign, ast.NamedExpr)):
        target = assignment.target
    else:
        return []
    return context.names.uses_of(target) if isinstance(target, ast.Name) else []
