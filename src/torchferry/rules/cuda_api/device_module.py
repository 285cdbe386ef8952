"""What is asked of the part of torch that a device has, where the program takes that part by the device.

`torch.get_device_module(device).nvtx`, `getattr(torch, x.device.type).CUDAGraph`, `self.lib.nvtx` of a class with
`lib = torch.cuda`: on the target the part is the plugin's own, and a name that it lacks raises there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.backends import cuda
from torchferry.backends.tables import Row
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.python import PythonFile

_BY_DEVICE = "torch.get_device_module"
_QUESTIONS = ("hasattr", "getattr")


def lacking_names(context: PythonContext) -> Iterator[tuple[ast.AST, str, Row]]:
    """Yield where the part is asked for a name that the target's has not, with the name below `torch.cuda` and its row.

    What `references` of the file has is left out: it is rewritten.
    """
    if not context.target.backend.NAMESPACE:
        return
    renamed = {reference.node for reference in context.names.references("torch")}
    reported: set[ast.AST] = set()
    for part in _parts(context):
        for value in context.values.of(part).values:
            if value.left_at is not None and not isinstance(part, ast.Call):
                continue  # `torch.cuda` of another file: that one is rewritten there
            whole, names = _outermost(value.file, value.node)
            place = value.left_at or whole
            if not names or whole in renamed or place in reported or _is_asked_for(value.file, names[0]):
                continue
            row = context.target.api(name := ".".join((cuda.NAMESPACE, *names)))
            is_unknown = row.status == "unknown" and names[0].startswith("_")
            if row.status == "missing" or is_unknown or _has_other_name(context, names[0]):
                reported.add(place)
                yield place, name, row


def lacking_in_target(context: PythonContext) -> Iterator[tuple[ast.AST, str, Row]]:
    """Yield names of the target's own part of torch that it lacks, as a migration may leave them behind a variable."""
    backend = context.target.backend
    begins = tuple(f"{part}." for part in {backend.NAMESPACE, backend.IMPORT_NAMESPACE} if part)
    if not backend.NAMESPACE or context.target.module:
        return
    for package in sorted({begin.partition(".")[0] for begin in begins}):
        for reference in context.names.references(package):
            begin = next((each for each in begins if reference.name.startswith(each)), None)
            if begin is None or reference.is_import:
                continue
            row = context.target.api(name := f"{cuda.NAMESPACE}.{reference.name[len(begin) :]}")
            if row.status == "missing" and not _is_asked_for(context.file, reference.name[len(begin) :]):
                yield reference.node, name, row


def _parts(context: PythonContext) -> Iterator[ast.expr]:
    """Yield the expressions that are the part of a device, of whichever that is when the program runs."""
    own = (cuda.NAMESPACE, context.target.backend.NAMESPACE)
    for reference in context.names.references("torch"):
        call = context.file.parents.get(reference.node)
        if reference.name == _BY_DEVICE and isinstance(call, ast.Call) and call.func is reference.node:
            yield call
        elif reference.name in own and isinstance(reference.node, ast.expr):
            if not isinstance(call, ast.Attribute) and not (
                isinstance(call, ast.Call) and last_name(call) in _QUESTIONS
            ):
                yield reference.node
    for callee in context.file.names.get("getattr", ()):
        call = context.file.parents.get(callee)
        if not isinstance(call, ast.Call) or call.func is not callee or len(call.args) < 2:
            continue
        asked = call.args[1]
        if context.names.qualified(call.args[0]) == "torch" and string_value(asked) is None:
            if context.devices.values.holds(asked):
                yield call


def _outermost(file: PythonFile, node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Return an expression with the attributes that are taken of it, and their names."""
    names = []
    while isinstance(parent := file.parents.get(node), ast.Attribute):
        node = parent
        names.append(parent.attr)
    return node, names


def _is_asked_for(file: PythonFile, name: str) -> bool:
    """Whether a file asks whether something has a name."""
    calls = (file.parents.get(callee) for question in _QUESTIONS for callee in file.names.get(question, ()))
    return any(isinstance(call, ast.Call) and name in map(string_value, call.args[1:2]) for call in calls)


def _has_other_name(context: PythonContext, name: str) -> bool:
    """Whether the target's part has something else in place of a class, a function or a module, by another name."""
    row = context.target.api(f"{cuda.NAMESPACE}.{name}")
    owner, _, own = row.use.rpartition(".")
    return row.status == "renamed" and owner == context.target.backend.NAMESPACE and own != name
