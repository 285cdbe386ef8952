"""A checkpoint loaded onto a device that `torch.load` cannot put tensors on: `torch.load(path, map_location="cuda:0")`.

torch has a list of the devices that it loads to. Where the target's is not in it, `map_location` with such a device
raises, whatever the file holds. Load to the CPU: `load_state_dict` copies to where the module is, and what is used
otherwise is moved with `.to(device)`. A string that names CUDA is rewritten as a safe fix. A name may hold a function
or the CPU as well, so the fix is one to read first.

Why: Loading raises on the target, also for a checkpoint that was saved there.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.load_without_map_location import LOADERS
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value
from torchferry.source.lexicon import DEVICE_SPELLING
from torchferry.source.names import assigned_value

_ON_CPU = '"cpu"'


class LoadOntoDevice(Rule):
    """Finds checkpoints that are loaded onto a device which `torch.load` does not load to."""

    CODE = "DEV114"

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """None where the target's device can be loaded to; in portable code the device module knows."""
        return ("map_location", "load") if _cannot_load(target) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each location that names a device."""
        for location in unloadable_locations(context):
            if exemption_reason(context, location) is not None:
                continue
            is_certain = _names_cuda(location)
            message = say(
                "torch loads nothing onto {target}, so `map_location={found}` raises; load to the CPU and move what is "
                "used otherwise than by `load_state_dict`",
                target=context.target.title,
                found=context.file.text(location),
            )
            span = context.file.span(location)
            grade = Grade.SAFE if is_certain else Grade.UNSAFE
            yield self.finding(context, span, message, grade, [Edit(*span, _ON_CPU)])


def _cannot_load(target: Target) -> bool:
    return target.backend.LOADS_TO_DEVICE is False and not target.module


def unloadable_locations(context: PythonContext) -> Iterator[ast.expr]:
    """Yield what is given as `map_location` and names, or may name, the device, where torch does not load to it."""
    if not _cannot_load(context.target):
        return
    for name, call in calls_to(context):
        position = LOADERS.get(name)
        if position is None:
            continue
        keyword = keyword_of(call, "map_location")
        given = keyword.value if keyword is not None else call.args[position] if len(call.args) > position else None
        if given is not None:
            yield from _devices(context, given)


def _devices(context: PythonContext, given: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of an expression that stand for the device."""
    if isinstance(given, ast.IfExp):
        for branch in (given.body, given.orelse):
            yield from _devices(context, branch)
    elif isinstance(given, ast.Constant):
        if _names_cuda(given):
            yield given
    elif isinstance(given, ast.Name):
        values = [assigned_value(context.file, binding) for binding in context.names.bindings(given)]
        if not values or not all(value is not None and _is_elsewhere(value) for value in values):
            yield given
    elif not isinstance(given, (ast.Lambda, ast.Dict, ast.Starred)) and not _is_elsewhere(given):
        yield given


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
    """Whether an expression certainly names a CUDA device: a string, one with an index put in, or a device of it."""
    if isinstance(location, ast.Call):
        function = location.func
        if isinstance(function, ast.Attribute) and function.attr == "format":
            return _names_cuda(function.value)
        return len(location.args) > 0 and _names_cuda(location.args[0])
    if isinstance(location, ast.BinOp):
        return _names_cuda(location.left)
    if isinstance(location, ast.JoinedStr):
        return bool(location.values) and _names_cuda(location.values[0])
    spelling = string_value(location)
    return spelling is not None and DEVICE_SPELLING.match(spelling) is not None
