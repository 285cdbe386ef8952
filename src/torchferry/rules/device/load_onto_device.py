"""A checkpoint loaded onto a device that `torch.load` cannot put tensors on: `torch.load(path, map_location="cuda:0")`.

torch has a list of the devices that it loads to. Where the target's is not in it, `map_location` with such a device
raises, whatever the file holds. Load to the CPU: `load_state_dict` copies to where the module is, and what is used
otherwise is moved with `.to(device)`. So are the values of a table of locations, and what is kept as `map_location` for
a later call or given to a library under that name. A string that names CUDA is rewritten as a safe fix where what is
loaded goes to `load_state_dict`. A whole model or a tensor would stay on the CPU, where a program that asks it for its
device runs without a word; and a name may hold a function or the CPU as well. There it is a fix to read.

Why: Loading raises on the target, also for a checkpoint that was saved there.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.load_without_map_location import LOADERS, OF_URLS
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.lexicon import DEVICE_SPELLING
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in

ON_CPU = '"cpu"'
"""What is written in place of a device."""

_KEEPING = frozenset({"update", "append", "extend"})
"""Methods that keep what they are given."""


class LoadOntoDevice(Rule):
    """Finds checkpoints that are loaded onto a device which `torch.load` does not load to."""

    CODE = "DEV114"
    EFFECT = Effect.RAISES

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """None where the target's device can be loaded to; in portable code the device module knows."""
        return ("map_location", "load") if _cannot_load(target) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each location that names a device."""
        for call, location in _unloadable(context):
            if exemption_reason(context, location) is not None:
                continue
            span = context.file.span(location)
            copied = call is not None and _names_cuda(location) and _is_copied(context, call)
            grade = Grade.SAFE if copied else Grade.UNSAFE
            yield self.finding(context, span, refused(context, location), grade, [Edit(*span, ON_CPU)])


def refused(context: PythonContext, location: ast.expr) -> Message:
    """Return what is said of a location that `torch.load` does not load to."""
    return say(
        "torch loads nothing onto {target}, so `map_location={found}` raises; load to the CPU, "
        "and move the tensors that `load_state_dict` does not copy",
        target=context.target.title,
        found=context.file.text(location),
    )


def grade_of_function(context: PythonContext, location: ast.Lambda) -> Grade | None:
    """Return how safe the CPU is in place of a function that moves to the card; None where torch loads to the card."""
    if not _cannot_load(context.target):
        return None
    call = context.file.parents.get(location)
    call = context.file.parents.get(call) if isinstance(call, ast.keyword) else call
    return Grade.SAFE if isinstance(call, ast.Call) and _is_copied(context, call) else Grade.UNSAFE


def _cannot_load(target: Target) -> bool:
    return target.backend.LOADS_TO_DEVICE is False and not target.module


def parts_of_unloadable(context: PythonContext) -> set[ast.AST]:
    """Return the parts of what this rule reports, so that the rules of device strings leave them out."""
    return {part for _, location in _unloadable(context) for part in nodes_in(location)}


def _unloadable(context: PythonContext) -> Iterator[tuple[ast.Call | None, ast.expr]]:
    """Yield each such location with the call that loads; None where that is elsewhere."""
    if not _cannot_load(context.target):
        return
    seen: set[ast.expr] = set()
    for call, given in _given(context):
        for location in _devices(context, given):
            if location not in seen:
                seen.add(location)
                yield call, location
    for given in _kept_for_later(context):
        if _names_cuda(given) and given not in seen:
            yield None, given


def _given(context: PythonContext) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield what is given as `map_location` to calls that load, with the call."""
    for call, name, first in _loading_calls(context):
        keyword = keyword_of(call, "map_location")
        index = first + LOADERS[name]
        given = keyword.value if keyword is not None else call.args[index] if len(call.args) > index else None
        if given is not None:
            yield call, given


def _kept_for_later(context: PythonContext) -> Iterator[ast.expr]:
    """Yield what a table of arguments holds as `map_location`, and what another library's function gets as such."""
    for keyword in context.file.keywords.get("map_location", ()):
        call = context.file.parents.get(keyword)
        if isinstance(call, ast.Call) and (_is_dict(context, call) or _is_of_a_library(context, call)):
            yield keyword.value
    for text in context.file.strings:
        table = context.file.parents.get(text)
        if text.value == "map_location" and isinstance(table, ast.Dict) and text in table.keys:
            yield table.values[table.keys.index(text)]


def _is_dict(context: PythonContext, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "dict" and not context.names.bindings(call.func)


def _is_of_a_library(context: PythonContext, call: ast.Call) -> bool:
    """Whether a call is of a function that is imported, and not of torch or the project."""
    name = context.names.qualified(call.func) or ""
    top = name.partition(".")[0]
    if top in ("", "torch") or name in ("functools.partial", "builtins.dict"):
        return False
    own = context.project is not None and context.project.module_path(top, context.path) is not None
    return not own and top in context.imported_packages


def _loading_calls(context: PythonContext) -> Iterator[tuple[ast.Call, str, int]]:
    """Yield the calls that load, or make a function that will, with its name and the place of its first argument."""
    for name, call in calls_to(context):
        if name in LOADERS:
            yield call, name, 0
    for name, call in calls_to(context, "functools"):
        bound = context.names.qualified(call.args[0]) if name == "functools.partial" and call.args else None
        if bound in LOADERS:
            yield call, bound, 1


def _is_copied(context: PythonContext, call: ast.Call) -> bool:
    """Whether what a call loads is given to `load_state_dict`, as it is or under names that it or its parts get.

    Followed within the function, or the module's own lines, that load it. What loads from a URL is a state dict by its
    name.
    """
    if context.names.qualified(call.func) in OF_URLS:
        return True
    scope: ast.AST = call
    while not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
        scope = context.file.parents[scope]
    named: set[str] = set()

    def holds(node: ast.AST) -> bool:
        return any(
            part is call or (isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) in named)
            for part in nodes_in(node)
        )

    parts = nodes_in(scope)
    before = -1
    while len(named) > before:
        before = len(named)
        for target, value in (pair for part in parts for pair in _kept(part)):
            if holds(value):
                named.add(target)
    return any(
        "load_state_dict" in last_name(part.func) and any(map(holds, [*part.args, *part.keywords]))
        for part in parts
        if isinstance(part, ast.Call)
    )


def _kept(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names under which a statement keeps something, each with what it keeps."""
    targets: list[ast.expr] = []
    values: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets, values = list(node.targets), [node.value]
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        targets, values = [node.target], [node.value]
    elif isinstance(node, (ast.For, ast.comprehension)):
        targets, values = [node.target], [node.iter]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
        targets, values = [node.func.value], node.args
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets = [*targets, *target.elts]
        elif isinstance(target, (ast.Subscript, ast.Starred)):
            targets = [*targets, target.value]
        elif isinstance(target, (ast.Name, ast.Attribute)):
            yield from ((ast.unparse(target), value) for value in values)


def _devices(context: PythonContext, given: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of an expression that stand for the device."""
    if isinstance(given, ast.IfExp):
        branches = [given.body, given.orelse]
        devices = [list(_devices(context, branch)) for branch in branches]
        chosen = [branch for branch, parts in zip(branches, devices, strict=True) if parts == [branch]]
        if (
            chosen
            and _may_be_left_out(context, given.test)
            and all(_is_cpu(item) for item in branches if item not in chosen)
        ):
            yield given  # the CPU or the CPU is no choice
        else:
            yield from (part for parts in devices for part in parts)
    elif isinstance(given, ast.Constant):
        if _names_cuda(given):
            yield given
    elif isinstance(given, ast.Dict):  # its keys name devices in the file
        for key, value in zip(given.keys, given.values, strict=True):
            if key is not None:
                yield from _devices(context, value)
    elif isinstance(given, ast.Call) and _is_dict(context, given):
        for keyword in given.keywords:
            if keyword.arg is not None:
                yield from _devices(context, keyword.value)
    elif isinstance(given, ast.Name):
        values = [assigned_value(context.file, binding) for binding in context.names.bindings(given)]
        tables = [value for value in values if isinstance(value, ast.Dict)]
        if values and len(tables) == len(values):
            for table in tables:
                yield from (value for value in table.values if _names_cuda(value))
        elif not values or not all(value is not None and _is_elsewhere(value) for value in values):
            yield given
    elif not isinstance(given, (ast.Lambda, ast.Starred)) and not _is_elsewhere(given):
        yield given


def _may_be_left_out(context: PythonContext, condition: ast.expr) -> bool:
    """Whether a condition does nothing but ask; a call does, other than one of torch."""
    return not any(
        isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom))
        or (isinstance(part, ast.Call) and not (context.names.qualified(part.func) or "").startswith("torch."))
        for part in nodes_in(condition)
    )


def _is_cpu(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        value = value.args[0]
    return isinstance(value, ast.Constant) and value.value == "cpu"


def _is_elsewhere(value: ast.expr) -> bool:
    """Whether a value is the CPU or `meta`, by name or as a device, None, or a function or table of locations."""
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        value = value.args[0]
    if isinstance(value, ast.Constant):
        return value.value is None or (
            isinstance(value.value, str) and value.value.partition(":")[0] in ("cpu", "meta")
        )
    return isinstance(value, (ast.Lambda, ast.Dict))


def _names_cuda(location: ast.expr) -> bool:
    """Whether an expression certainly names a CUDA device: a string, one with an index put in, or a device of it.

    So does a choice between such ones and the CPU.
    """
    if isinstance(location, ast.IfExp):
        branches = [branch for branch in (location.body, location.orelse) if not _is_cpu(branch)]
        return bool(branches) and all(map(_names_cuda, branches))
    if isinstance(location, ast.Call):
        function = location.func
        if isinstance(function, ast.Attribute) and function.attr == "format":
            return _names_cuda(function.value)
        return last_name(function) == "device" and len(location.args) > 0 and _names_cuda(location.args[0])
    if isinstance(location, ast.BinOp):
        return _names_cuda(location.left)
    if isinstance(location, ast.JoinedStr):
        return bool(location.values) and _names_cuda(location.values[0])
    spelling = string_value(location)
    return spelling is not None and DEVICE_SPELLING.match(spelling) is not None
