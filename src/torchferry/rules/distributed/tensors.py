"""What is evident of a tensor that is given to a collective: its dtype, and whether it is on the CPU or on the card."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TypeAlias

from torchferry.backends import cuda
from torchferry.rules.base import PythonContext, keyword_of
from torchferry.rules.device.integer_device import is_device_index
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value

HOST, CARD = "host", "card"
"""Where a tensor is; the card is also where it is put when there is one."""

_SHORT_NAMES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
"""Second names of dtypes, which are also the methods that change to them, but for the complex ones."""

_FACTORIES = frozenset(
    {"tensor", "as_tensor", "zeros", "ones", "empty", "full", "eye", "rand", "randn", "randint", "arange", "linspace"}
)
"""Functions of torch that make a tensor on the CPU unless they are given a device."""

_KEEP_DTYPE = frozenset({"to", "cuda", "contiguous", "clone", "detach"})

_Answer: TypeAlias = "str | None"
_Judge: TypeAlias = Callable[[ast.expr, Callable[[ast.expr], _Answer]], _Answer]
"""Answers for a value of which it is known how it is made; it may ask for what that is made of."""


def values(context: PythonContext, expression: ast.expr) -> list[ast.expr]:
    """Return every expression that `expression` may stand for; itself where one of them is not known."""
    if not isinstance(expression, ast.Name):
        return [expression]
    assigned = [assigned_value(context.file, binding) for binding in context.names.reaching_bindings(expression)]
    return [value for value in assigned if value is not None] if assigned and None not in assigned else [expression]


_JOINS = frozenset({"torch.cat", "torch.concat", "torch.stack", "torch.hstack", "torch.vstack"})
"""Functions of torch that make one tensor of several, which are all in one place."""

_SAME_PLACE = frozenset({"grad", "data", "T", "mT"})
"""Attributes of a tensor that are a tensor in the same place."""

_OF_MODULE = frozenset({"parameters", "buffers"})


def dtype_of(context: PythonContext, tensor: ast.expr) -> str:
    """Return the dtype that a tensor evidently has; empty where it is not evident."""
    return _agreed(context, tensor, lambda value, ask: _dtype_of_value(context, value, ask)) or ""


def place_of(context: PythonContext, tensor: ast.expr) -> str:
    """Return where a tensor, or a module, evidently is: `HOST`, `CARD`, or empty where it is not evident."""
    return _agreed(context, tensor, lambda value, ask: _place_of_value(context, value, ask)) or ""


def place_of_device(context: PythonContext, device: ast.expr) -> str:
    """Return which of the two a device evidently is; `CARD` too where it is chosen when there is one."""
    return _agreed(context, device, lambda value, ask: _place_of_device_value(context, value, ask)) or ""


def _agreed(
    context: PythonContext, expression: ast.expr, judge: _Judge, above: frozenset[ast.expr] = frozenset()
) -> _Answer:
    """Return what holds for every value of an expression; empty where they differ, None where none decides.

    Args:
        context: The file.
        expression: What is asked about.
        judge: Answers for one value.
        above: The expressions that ask for it: `t = t.clone()` in a loop asks for itself, and decides nothing.
    """
    if expression in above:
        return None
    above |= {expression}
    answers = {
        judge(value, lambda inner: _agreed(context, inner, judge, above)) for value in values(context, expression)
    } - {None}
    return answers.pop() if len(answers) == 1 else ""


def _dtype_of_value(context: PythonContext, value: ast.expr, ask: Callable[[ast.expr], _Answer]) -> _Answer:
    if not isinstance(value, ast.Call):
        return ""
    given = keyword_of(value, "dtype")
    if given is not None:
        return _dtype_named(context, given.value)
    if not isinstance(value.func, ast.Attribute):
        return ""
    method = value.func.attr
    if method in _SHORT_NAMES and not value.args and not value.keywords:
        return _SHORT_NAMES[method]
    if method in ("to", "type"):
        dtypes = [name for name in (_dtype_named(context, argument) for argument in value.args) if name]
        if dtypes:
            return dtypes[0]
    if method in _KEEP_DTYPE and not _is_of_torch(context, value.func):
        return ask(value.func.value)
    return ""


def _place_of_value(context: PythonContext, value: ast.expr, ask: Callable[[ast.expr], _Answer]) -> _Answer:
    if isinstance(value, ast.Attribute) and value.attr in _SAME_PLACE:
        return ask(value.value)
    if isinstance(value, ast.Name):
        return _same(ask(module) for module in _modules_of_parameter(context, value))
    if not isinstance(value, ast.Call):
        return ""
    if context.names.qualified(value.func) in _JOINS and value.args:
        return _same(map(ask, _parts(context, value.args[0])))
    device = keyword_of(value, "device")
    if isinstance(value.func, ast.Attribute) and not _is_of_torch(context, value.func):
        method = value.func.attr
        if method == "cpu":
            return HOST
        if method in (cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE):
            return CARD
        if device is not None:
            return place_of_device(context, device.value)
        places = [argument for argument in value.args if not _dtype_named(context, argument)]
        if method == "to" and places:
            return place_of_device(context, places[0])
        return ask(value.func.value)
    if device is not None:
        return place_of_device(context, device.value)
    made_by_torch = (context.names.qualified(value.func) or "").removeprefix("torch.") in _FACTORIES
    return HOST if made_by_torch else ""


def _same(answers: Iterable[_Answer]) -> _Answer:
    distinct = set(answers)
    return distinct.pop() if len(distinct) == 1 else ""


def _modules_of_parameter(context: PythonContext, name: ast.Name) -> list[ast.expr]:
    """Return the modules of which loops give a parameter this name; none where anything else may bind it."""
    modules: list[ast.expr] = []
    for binding in context.names.reaching_bindings(name):
        loop = context.file.parents.get(binding)
        every = loop.iter if isinstance(loop, (ast.For, ast.comprehension)) else None
        if not (
            isinstance(every, ast.Call) and isinstance(every.func, ast.Attribute) and every.func.attr in _OF_MODULE
        ):
            return []
        modules.append(every.func.value)
    return modules


def _parts(context: PythonContext, sequence: ast.expr) -> list[ast.expr]:
    """Return the tensors of a list: those that it is written with, and those that are appended to it by its name."""
    parts: list[ast.expr] = []
    for value in values(context, sequence):
        if isinstance(value, (ast.List, ast.Tuple)):
            parts += value.elts
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            parts.append(value.elt)
    if not isinstance(sequence, ast.Name):
        return parts
    for use in context.names.uses_of(sequence):
        attribute = context.file.parents.get(use)
        call = context.file.parents.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if isinstance(call, ast.Call) and last_name(call.func) == "append":
            parts += call.args[:1]
    return parts


def _place_of_device_value(context: PythonContext, value: ast.expr, ask: Callable[[ast.expr], _Answer]) -> _Answer:
    backend, module = context.target.backend, context.target.module
    own = (cuda.DEVICE_TYPE, backend.DEVICE_TYPE)
    if isinstance(value, ast.IfExp):
        return CARD if CARD in (ask(value.body), ask(value.orelse)) else ""
    if isinstance(value, ast.JoinedStr):
        value = value.values[0] if value.values else value
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str):
            return HOST if value.value == "cpu" else CARD if value.value.startswith(own) else ""
        return CARD if type(value.value) is int else ""
    if isinstance(value, ast.Call):
        function = context.names.qualified(value.func) or ""
        if module and function.startswith(f"{module}."):
            return CARD
        return ask(value.args[0]) if value.args and function in ("torch.device", backend.DEVICE_FACTORY) else ""
    return CARD if is_device_index(context, value) else ""


def moved_to_card(context: PythonContext, module: ast.expr) -> bool:
    """Whether a module is evidently on the card: made so, or moved by a statement, as `model.cuda()`."""
    if place_of(context, module) == CARD:
        return True
    if not isinstance(module, ast.Name):
        return False
    for use in context.names.uses_of(module):
        attribute = context.file.parents.get(use)
        call = context.file.parents.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if isinstance(call, ast.Call) and last_name(call.func) in ("to", "cuda", context.target.backend.DEVICE_TYPE):
            alone = isinstance(context.file.parents.get(call), ast.Expr)
            if alone and place_of(context, call) == CARD:
                return True
    return False


_USED = frozenset({"parameters", "train", "eval", "zero_grad", "weight", "state_dict"})
"""What is used of a module without moving it."""


def stays_on_cpu(context: PythonContext, module: ast.expr) -> bool:
    """Whether a module is one of torch's own that is evidently made on the CPU, and that nothing moves."""
    uses = context.names.uses_of(module) if isinstance(module, ast.Name) else ()
    return (
        not sets_default_device(context)
        and all(_is_made_on_cpu(context, each) for each in values(context, module))
        and all(_is_used_in_place(context, use) for use in uses)
    )


def sets_default_device(context: PythonContext) -> bool:
    """Whether tensors may be made elsewhere than on the CPU where no device is named."""
    return any(
        word in context.text or (context.project is not None and context.project.writes(word))
        for word in ("set_default_", "with torch.device")
    )


def _is_made_on_cpu(context: PythonContext, value: ast.expr, above: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether a module is made on the CPU; what is compiled, by what it is compiled of."""
    if not isinstance(value, ast.Call) or value in above:
        return False
    name = context.names.qualified(value.func) or ""
    if name == "torch.compile" and value.args:
        above |= {value}
        compiled = [each for each in values(context, value.args[0]) if each not in above]
        return bool(compiled) and all(_is_made_on_cpu(context, each, above) for each in compiled)
    return name.startswith("torch.nn.") and keyword_of(value, "device") is None


def _is_used_in_place(context: PythonContext, use: ast.expr) -> bool:
    above = context.file.parents.get(use)
    if isinstance(above, ast.Call):
        return above.func is use or context.names.qualified(above.func) == "torch.compile"
    return isinstance(above, ast.Attribute) and above.attr in _USED


def _dtype_named(context: PythonContext, node: ast.expr) -> str:
    name = context.names.qualified(node) or ""
    if not name.startswith("torch."):
        return ""
    short = name.removeprefix("torch.")
    return _SHORT_NAMES.get(short, short)


def _is_of_torch(context: PythonContext, function: ast.expr) -> bool:
    return (context.names.qualified(function) or "").startswith("torch.")
