"""A device given to a function of a library that takes a fixed list of devices: `load_file(path, device="cuda")`.

safetensors parses the name of the device by itself and raises for one that it does not know. The fix loads on the CPU
and moves the tensors: those of `load_file`, and what `get_tensor` gives of a file that a `with` statement opens.
Settings in a dictionary count too, `xgboost.train({"device": "cuda"}, data)`. `torchvision.io.decode_jpeg` takes any
device and decodes on the CPU unless it is CUDA.

Why: The library refuses the device name and raises, or silently takes the CPU.

References:
- table libraries
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.expressions import device_again, device_expression
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.library.portable_weights import is_loaded_weight
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import assigned_value


class RefusedDevice(Rule):
    """Finds devices given to functions that refuse the target's."""

    CODE = "LIB109"
    EFFECT = Effect.RAISES
    ANSWERS = (say("run it on the CPU"), say("use another package"))

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The names of the functions."""
        names = {*refusing_functions(target), *target.refusing_settings}
        return tuple(sorted({name.rpartition(".")[2] for name in names}))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that names a device."""
        for name, argument in refused_arguments(context):
            if exemption_reason(context, argument) is not None or is_loaded_weight(context, argument):  # LIB121
                continue
            package = context.target.package_of_module(name)
            row = package[1] if package is not None else context.target.row("packages", name.partition(".")[0])
            refused = say("`{found}` refuses the device of {target}", found=name, target=context.target.title)
            is_silent = name in context.target.computing_on_cpu
            if is_silent:
                refused = say(
                    "`{found}` silently takes the CPU for the device of {target}",
                    found=name,
                    target=context.target.title,
                )
            elif name not in context.target.refusing_functions and name not in context.target.refusing_settings:
                refused = say("`{found}` refuses the devices of some vendors", found=name)
            message = noted(refused, row.remark)
            edits = _on_the_cpu(context, name, argument)
            grade = Grade.SAFE if edits else Grade.MANUAL
            imports = device_expression(context)[1] if edits else ()
            effect = Effect.WRONG if is_silent else self.EFFECT
            span = context.file.span(argument)
            yield self.finding(context, span, message, grade, edits, imports=imports, effect=effect)


_MOVED = {
    "safetensors.safe_open": 2,
    "safetensors.torch.safe_open": 2,
    "safetensors.torch.load_file": 1,
    "safetensors.torch.load_model": 3,
}
"""Functions that the fix is known for, with the position of their device."""


def refusing_functions(target: Target) -> dict[str, int]:
    """Return the functions that refuse the target's device; portable code has to serve the devices of all vendors."""
    return {**target.refusing_functions, **(_MOVED if target.module else {})}


def _on_the_cpu(context: PythonContext, name: str, argument: ast.expr) -> list[Edit]:
    """Return the edits that load on the CPU and move each tensor; none where that cannot be written here."""
    parent = context.file.parents.get(argument)
    call = context.file.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    own = device_again(context, argument)
    if not isinstance(call, ast.Call) or own is None:
        return []
    edits = [Edit(*context.file.span(argument), '"cpu"')]
    if name == "safetensors.torch.load_model":
        return edits  # it copies into the model's own tensors, wherever they are
    if name == "safetensors.torch.load_file":
        start, end = context.file.span(call)
        opening = f"{{key: value.to({own}) for key, value in "
        return [Edit(start, start, opening), *edits, Edit(end, end, ".items()}")]
    item = context.file.parents.get(call)
    if not name.endswith(".safe_open") or not isinstance(item, ast.withitem):
        return []
    statement = context.file.parents.get(item)
    if not isinstance(item.optional_vars, ast.Name) or not isinstance(statement, (ast.With, ast.AsyncWith)):
        return []
    body = {inner for each in statement.body for inner in ast.walk(each)}  # what is behind it has a closed file
    for use in context.names.uses_of(item.optional_vars):
        if use not in body:
            continue
        method = context.file.parents.get(use)
        taken = context.file.parents.get(method) if isinstance(method, ast.Attribute) else None
        if not isinstance(method, ast.Attribute) or method.attr not in ("get_tensor", *_READ_ONLY):
            return []
        if method.attr == "get_tensor":
            if not isinstance(taken, ast.Call) or taken.func is not method:
                return []
            end = context.file.span(taken)[1]
            edits.append(Edit(end, end, f".to({own})"))
    return edits


_READ_ONLY = ("keys", "offset_keys", "metadata")
"""Methods of an open file that give no tensor."""


def refused_arguments(context: PythonContext) -> Iterator[tuple[str, ast.expr]]:
    """Yield the devices of calls that refuse the target's, each with the function's name."""
    yield from _refused_settings(context)
    functions = refusing_functions(context.target)
    for package in sorted({name.partition(".")[0] for name in functions}):
        for name, call in calls_to(context, package):
            position = functions.get(name)
            if position is None:
                continue
            keyword = keyword_of(call, "device")
            argument = keyword.value if keyword is not None else call.args[position : position + 1]
            for given in argument if isinstance(argument, list) else [argument]:
                if not (isinstance(given, ast.Constant) and given.value in (None, "cpu")):
                    yield name, given


_DEVICE_KEYS = frozenset({"device", "device_type"})


def _refused_settings(context: PythonContext) -> Iterator[tuple[str, ast.expr]]:
    """Yield the devices in dictionaries of settings, also one that a variable holds."""
    functions = context.target.refusing_settings
    for package in sorted({name.partition(".")[0] for name in functions}):
        for name, call in calls_to(context, package):
            position = functions.get(name)
            if position is None:
                continue
            keyword = keyword_of(call, "params")
            given = [keyword.value] if keyword is not None else call.args[position : position + 1]
            for argument in given:
                bindings = context.names.reaching_bindings(argument) if isinstance(argument, ast.Name) else ()
                values = [assigned_value(context.file, binding) for binding in bindings] or [argument]
                for settings in (value for value in values if isinstance(value, ast.Dict)):
                    for key, value in zip(settings.keys, settings.values, strict=True):
                        is_cpu = isinstance(value, ast.Constant) and value.value == "cpu"
                        if string_value(key) in _DEVICE_KEYS and not is_cpu:
                            yield name, value


def is_refused(context: PythonContext, node: ast.AST) -> bool:
    """Whether a place is part of a device that a function refuses."""
    arguments = {argument for _, argument in refused_arguments(context)}
    current: ast.AST | None = node if arguments else None
    while current is not None and not isinstance(current, ast.stmt):
        if current in arguments:
            return True
        current = context.file.parents.get(current)
    return False
