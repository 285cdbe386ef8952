"""What has a function called because a decorator was given it: at once, at the end, for a type, or for an operator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.decorators import definitions
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.programs.syntax.use_syntax import run_with
from torchferry.source.flow.syntax import callee, last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_RUN_AT_END = frozenset({"atexit.register"})
_DISPATCHING = frozenset({"singledispatch", "singledispatchmethod"})
REGISTERS = frozenset({"register", "register_kernel", "register_fake", "register_autograd", "register_vmap"})
"""Attributes of such functions by which they are given others: who names them so does not call them."""

_FIELD_PARTS = frozenset({"default", "validator"})

_DEFINES_OPERATOR = ("torch.library.custom_op", "torch.library.triton_op", "torch.library.impl",
                     "torch.library.register_kernel")  # fmt: skip

_KEEPS = ("on_", "hook", "listen", "subscri", "handler", "callback", "receiver")
"""What the names of decorators hold by which a package calls a function when something happens."""

Test = tuple[str, ast.expr, bool]
"""A condition: its file, and the value that it must have."""


class OperatorName(NamedTuple):
    """An operator of torch that a function is a kernel of; without a namespace where that is unknown."""

    namespace: str
    name: str


class Dispatching(NamedTuple):
    """A function that hands on to others by the types of what it is given.

    Attributes:
        defined: The function.
        is_sure: Whether the type is one of torch's, so that programs give it.
    """

    defined: tuple[PythonFile, Names, FunctionNode]
    is_sure: bool


def calls_at_once(
    project: Project, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef
) -> Iterator[tuple[Test, ...]]:
    """Yield for each decorator that calls what it is given, or has it called at the end, what must hold for that."""
    for decorator in unit.decorator_list:
        if (names.qualified(decorator) or "") in _RUN_AT_END:
            yield ()
        elif isinstance(decorator, ast.Lambda):
            if any(_is_call_of(node, decorator.args.args[:1]) for node in nodes_in(decorator.body)):
                yield ()
    for decorator, (of, _, function) in definitions(project, file, names, unit):
        given = _that_takes(function) if isinstance(decorator, ast.Call) else function
        for node in run_with(given.body) if given is not None else ():
            if given is not None and _is_call_of(node, given.args.args[:1]):
                yield tuple((of.path, test, wanted) for test, wanted in place_context(of, node).tests)


def _that_takes(function: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the function inside of another that this one returns: `repeat(2)` makes the decorator."""
    inner = {each.name: each for each in function.body if isinstance(each, ast.FunctionDef)}
    returned = (last_name(each.value) for each in function.body if isinstance(each, ast.Return) and each.value)
    return next((inner[name] for name in returned if name in inner), None)


def _is_call_of(node: ast.AST, parameters: list[ast.arg]) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in [each.arg for each in parameters]


def dispatching(project: Project, file: PythonFile, names: Names, unit: FunctionNode) -> Iterator[Dispatching]:
    """Yield the functions by which a function is called for what they are given: `@show.register`."""
    for decorator in unit.decorator_list:
        called = callee(decorator)
        if not isinstance(called, ast.Attribute) or called.attr not in REGISTERS:
            continue
        bindings = names.bindings(called.value) if isinstance(called.value, ast.Name) else []
        own = [each for each in bindings if isinstance(each, FunctionNode)]
        defined = (file, names, own[0]) if own else None
        qualified = names.qualified(called.value) if defined is None else None
        elsewhere = project.definition(qualified, file.path) if qualified is not None else None
        if elsewhere is not None and isinstance(elsewhere[2], FunctionNode):
            defined = (elsewhere[0], elsewhere[1], elsewhere[2])
        if defined is None:
            continue
        if called.attr == "register_kernel":
            if isinstance(decorator, ast.Call) and not _is_for_cuda(decorator.args):
                yield Dispatching(defined, True)
        elif called.attr == "register" and any(
            last_name(callee(each)) in _DISPATCHING for each in defined[2].decorator_list
        ):
            types = [*decorator.args] if isinstance(decorator, ast.Call) else []
            arguments = [each for each in unit.args.args if each.arg not in ("self", "cls")]
            types += [each.annotation for each in arguments[:1] if each.annotation is not None and not types]
            spoken = [part for each in types for part in nodes_in(each)]
            yield Dispatching(defined, any((names.qualified(part) or "").startswith("torch.") for part in spoken
                                           if isinstance(part, (ast.Name, ast.Attribute))))  # fmt: skip


def operators_of(names: Names, unit: FunctionNode) -> Iterator[OperatorName]:
    """Yield the operators of torch of which decorators make a function a kernel."""
    for decorator in unit.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        called, arguments = decorator.func, decorator.args
        of_library = isinstance(called, ast.Attribute) and called.attr == "impl"
        if (names.qualified(called) or "") not in _DEFINES_OPERATOR and not of_library:
            continue
        if _is_for_cuda(arguments[1:]):
            continue
        library = called.value if of_library and isinstance(called, ast.Attribute) else None
        if arguments and string_value(arguments[0]) is None:
            library, arguments = arguments[0], arguments[1:]
        operator = string_value(arguments[0]) if arguments else None
        if operator is not None:
            namespace, _, name = operator.rpartition("::")
            yield OperatorName(namespace or _namespace(names, library), name.partition(".")[0])


def _namespace(names: Names, library: ast.expr | None) -> str:
    """Return the namespace that `torch.library.Library("lab", "DEF")` is made for."""
    for binding in names.bindings(library) if isinstance(library, ast.Name) else ():
        value = assigned_value(names.file, binding)
        if isinstance(value, ast.Call) and last_name(value.func) == "Library" and value.args:
            return string_value(value.args[0]) or ""
    return ""


def _is_for_cuda(keys: list[ast.expr]) -> bool:
    """Whether a kernel is only for tensors of CUDA: on another card it is that of another key which is called."""
    return any((string_value(each) or "").upper() == "CUDA" for each in keys)


def is_part_of_field(names: Names, owner: ast.ClassDef, unit: FunctionNode) -> bool:
    """Whether a method is called where an object of its class is made, for one of the fields: `@size.validator`."""
    for decorator in unit.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in _FIELD_PARTS:
            bindings = names.bindings(decorator.value) if isinstance(decorator.value, ast.Name) else []
            if any(isinstance(each, ast.Name) and names.file.parents.get(names.file.statement(each)) is owner
                   for each in bindings):  # fmt: skip
                return True
    return False


def is_kept_by_package(project: Project, file: PythonFile, names: Names, unit: FunctionNode) -> bool:
    """Whether a decorator of a package may keep a function, to call it when something happens: `@hub.on_start`."""
    for decorator in unit.decorator_list:
        called = callee(decorator)
        qualified = names.qualified(called)
        if qualified is None or not any(part in last_name(called).lower() for part in _KEEPS):
            continue
        module = qualified.partition(".")[0]
        if module not in ("torch", "functools", "") and project.module_path(module, file.path) is None:
            return True
    return False
