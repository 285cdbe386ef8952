"""Objects with torch's device methods that are no tensors and lack some of theirs, and values that name a device."""

from __future__ import annotations

import ast
import re

from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in

_DEPTH = 4
_MOVING = frozenset({"to", "cuda", "cpu", "pin_memory"})
"""Methods that return what they are called on, elsewhere."""

_STORAGE_NAME = lazy_regex(r"(?:\A|_)storage\Z")
_STORAGE_METHODS = frozenset({"storage", "untyped_storage", "typed_storage"})
_STORAGE_CLASS = lazy_regex(r"\A[A-Z][A-Za-z0-9]*Storage\Z")
_PACKED_NAME = lazy_regex(r"(?:\A|_)packed(?:_seq(?:uence)?)?\Z")
_LAZY = lazy_regex(r"\bnn\.(?:modules\.\w+\.)?Lazy[A-Z]|\bimport\b.*\bLazy(?:Linear|Conv|BatchNorm|InstanceNorm)")
_PACKING = frozenset({"pack_padded_sequence", "pack_sequence", "PackedSequence"})


def is_storage(context: PythonContext, receiver: ast.expr, depth: int = 0) -> bool:
    """Whether an object is the storage of a tensor, which takes no `.to(device)` as a tensor does."""
    if isinstance(receiver, ast.Name):
        return _STORAGE_NAME.search(receiver.id) is not None or any(
            is_storage(context, value, depth + 1) for value in _assigned(context, receiver, depth)
        )
    if isinstance(receiver, ast.Attribute):
        return _STORAGE_NAME.search(receiver.attr) is not None
    if not isinstance(receiver, ast.Call):
        return False
    callee = last_name(receiver.func)
    if isinstance(receiver.func, ast.Attribute) and callee in _MOVING:
        return depth < _DEPTH and is_storage(context, receiver.func.value, depth + 1)
    return (isinstance(receiver.func, ast.Attribute) and callee in _STORAGE_METHODS) or bool(
        _STORAGE_CLASS.match(callee)
    )


def is_packed_sequence(context: PythonContext, receiver: ast.expr, depth: int = 0) -> bool:
    """Whether an object is a `PackedSequence`, which has `is_cuda` and no `device`: its `data` has one."""
    if isinstance(receiver, ast.Call):
        callee = last_name(receiver.func)
        if isinstance(receiver.func, ast.Attribute) and callee in _MOVING:
            return depth < _DEPTH and is_packed_sequence(context, receiver.func.value, depth + 1)
        return callee in _PACKING
    if not isinstance(receiver, ast.Name):
        return False
    if _PACKED_NAME.search(receiver.id) or any(
        is_packed_sequence(context, value, depth + 1) for value in _assigned(context, receiver, depth)
    ):
        return True
    annotations = (binding.annotation for binding in context.names.bindings(receiver) if isinstance(binding, ast.arg))
    return any(
        annotation is not None and "PackedSequence" in ast.unparse(annotation) for annotation in annotations
    ) or (_is_tested(context, receiver))


def may_be_packed_sequence(context: PythonContext, receiver: ast.expr) -> bool:
    """Whether an object is a `PackedSequence`, or one of no known kind where the project makes such.

    What is asked of its `data` is right for a tensor as well, which has `data`, too.
    """
    if is_packed_sequence(context, receiver):
        return True
    if is_storage(context, receiver):
        return False
    if _packs(context.names):
        return True
    outermost: ast.AST | None = receiver
    while outermost is not None and not isinstance(context.file.parents.get(outermost), ast.Module):
        outermost = context.file.parents.get(outermost)
    if context.project is None or not isinstance(outermost, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(_packs(names) for _, names, _ in context.project.importers(context.path, outermost.name))


def _packs(names: Names) -> bool:
    return any(reference.name.rpartition(".")[2] in _PACKING for reference in names.references("torch"))


def makes_lazy_modules(context: PythonContext) -> bool:
    """Whether a file, or a module of the project that it imports, has modules whose parameters get a shape later.

    torch lets such parameters be moved by its own methods alone (`UninitializedTensorMixin`).
    """
    if any(_LAZY.search(reference.name) for reference in context.names.references("torch")):
        return True
    if context.project is None:
        return False
    for statement in context.file.imports:
        owner = context.names.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
        for module in {owner} if owner else {alias.name for alias in statement.names}:
            path = context.project.module_path(module, context.path)
            source = context.project.text(path) if path is not None else None
            if source is not None and _LAZY.search(source.text):
                return True
    return False


_DEVICES_OF_MODULE = frozenset({"device_string", "this_device"})
"""Functions of portable code that return the device."""


def names_card(context: PythonContext, device: ast.expr) -> bool:
    """Whether CUDA, or the target's device in its place, is named in what stands for a device."""
    types = ("cuda", context.target.backend.DEVICE_TYPE)
    return any(
        (string_value(part) or "").partition(":")[0] in types
        or (isinstance(part, ast.Call) and last_name(part.func) in _DEVICES_OF_MODULE)
        for part in nodes_in(device)
        if isinstance(part, ast.expr)
    )


def is_surely_device(context: PythonContext, value: ast.expr, depth: int = 0) -> bool:
    """Whether a value is a device or its name, and neither None, an index, nor something that is not known."""
    if depth > _DEPTH:
        return False
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str)
    if isinstance(value, ast.JoinedStr):
        return True
    if isinstance(value, ast.BinOp):  # `"cuda:%d" % index`, `"cuda:" + index`
        return isinstance(value.left, ast.JoinedStr) or string_value(value.left) is not None
    if isinstance(value, ast.Call):
        is_text = isinstance(value.func, ast.Attribute) and string_value(value.func.value) is not None
        return is_text or context.names.qualified(value.func) == "torch.device"
    if isinstance(value, ast.IfExp):
        return all(is_surely_device(context, branch, depth + 1) for branch in (value.body, value.orelse))
    if isinstance(value, ast.Attribute):  # a tensor's; what other objects hold under that name may be None
        owner = value.value
        return value.attr == "device" and not (isinstance(owner, ast.Name) and SETTINGS.search(owner.id))
    if not isinstance(value, ast.Name):
        return False
    bindings = context.names.bindings(value)
    return bool(bindings) and all(_binds_device(context, binding, depth) for binding in bindings)


SETTINGS = lazy_regex(r"(?:\A|_)(?:self|cls|args?|opts?|options|cfg|config|conf|params|hparams|settings|flags)\Z", re.I)
"""Names of objects that hold settings, or what a project keeps in an object of its own."""


def _binds_device(context: PythonContext, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        return binding.annotation is not None and context.names.qualified(binding.annotation) == "torch.device"
    assigned = assigned_value(context.file, binding)
    return assigned is not None and is_surely_device(context, assigned, depth + 1)


def is_index(context: PythonContext, value: ast.expr, depth: int = 0) -> bool:
    """Whether a value is the number of a card, by what it is made of or by its name, and no device."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int)
    if depth > _DEPTH or is_surely_device(context, value):
        return False
    if isinstance(value, ast.BinOp):
        return is_index(context, value.left, depth + 1) or is_index(context, value.right, depth + 1)
    if isinstance(value, ast.IfExp):
        return all(is_index(context, branch, depth + 1) for branch in (value.body, value.orelse))
    if isinstance(value, ast.BoolOp):
        return all(is_index(context, each, depth + 1) for each in value.values)
    if isinstance(value, ast.Subscript):
        key = string_value(value.slice)
        return _INDEX.search(last_name(value.value) if key is None else key) is not None
    if isinstance(value, ast.Call) and last_name(value.func) in _NUMBERS:
        return True
    if _INDEX.search(last_name(value)):
        return True
    bindings = context.names.bindings(value) if isinstance(value, ast.Name) else ()
    return bool(bindings) and all(_binds_index(context, binding, depth) for binding in bindings)


_NUMBERS = frozenset({"int", "min", "max", "len", "current_device", "get_device"})
_INDEX = lazy_regex(
    r"(?:\A|_)(?:i|j|k|n|rank|idx|ind|index|id|ids|gpu|gpus|gpuid|card|cards|num|number|ordinal)\Z", re.I
)
"""Names that hold the number of a card, or several."""


def _binds_index(context: PythonContext, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        return binding.annotation is not None and last_name(binding.annotation) == "int"
    loop = context.file.parents.get(binding)
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension)) and loop.target is binding:
        items = loop.iter.elts if isinstance(loop.iter, (ast.List, ast.Tuple)) else None
        if items is not None:
            return all(is_index(context, item, depth + 1) for item in items)
        return last_name(loop.iter) == "range" or is_index(context, loop.iter, depth + 1)
    assigned = assigned_value(context.file, binding)
    return assigned is not None and is_index(context, assigned, depth + 1)


def _assigned(context: PythonContext, name: ast.Name, depth: int) -> list[ast.expr]:
    if depth > _DEPTH:
        return []
    values: list[ast.expr] = []
    for binding in context.names.bindings(name):
        assigned = assigned_value(context.file, binding)
        values += [assigned] if assigned is not None else _given(context, binding)
    return values


def _given(context: PythonContext, argument: ast.AST) -> list[ast.expr]:
    """Return what calls in the file give to a function for an argument by its position."""
    function = context.file.enclosing_function(argument)
    if not isinstance(argument, ast.arg) or function is None or argument not in function.args.args:
        return []
    position = function.args.args.index(argument)
    calls = (context.file.parents.get(use) for use in context.names.uses(function.name, context.file.scope(function)))
    return [
        call.args[position]
        for call in calls
        if isinstance(call, ast.Call) and last_name(call.func) == function.name and len(call.args) > position
    ]


def _is_tested(context: PythonContext, name: ast.Name) -> bool:
    """Whether the function asks `isinstance(name, PackedSequence)`."""
    function = context.file.enclosing_function(name)
    for reference in context.names.references("torch"):
        if not reference.name.endswith(".PackedSequence") or isinstance(reference.node, ast.alias):
            continue
        call = context.file.parents.get(reference.node)
        if (
            isinstance(call, ast.Call)
            and last_name(call.func) == "isinstance"
            and isinstance(call.args[0], ast.Name)
            and call.args[0].id == name.id
            and context.file.enclosing_function(call) is function
        ):
            return True
    return False
