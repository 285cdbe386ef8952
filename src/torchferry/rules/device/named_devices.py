"""Identifiers that are the word of CUDA beside those of other devices, where code reads names as texts.

`class Backend(Enum): CUDA = 0; CPU = 1` with `Backend.CUDA.name.lower()`, `SimpleNamespace(cuda=64, cpu=8)` with
`getattr(sizes, x.device.type)`, `def cuda(n)` with `f.__name__`: no literal says the device, its name does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.rules.base import PythonContext
from torchferry.source.flow.containers import questions
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.lexicon import OTHER_DEVICES, lexicon
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in

_READERS = frozenset({"asdict", "vars", "fields", "_asdict", "dir"})
"""Functions and methods that give the names of fields."""

_NAMES_OF_FIELDS = ("__dict__", "__annotations__", "__members__", "_fields", "__dataclass_fields__")
_GENERATES = "_generate_next_value_"
_NAMESPACES = frozenset({"SimpleNamespace", "Namespace"})


def named_devices(context: PythonContext) -> Iterator[ast.AST]:
    """Yield the members, fields, keywords, functions and classes whose name is read as the text of a device."""
    for owner in context.file.classes:
        for member in _beside_others(context, _members(owner)):
            if _is_read(context, owner, member):
                yield member
    for keyword in context.file.keywords.get(cuda.DEVICE_TYPE, ()):
        call = context.file.parents.get(keyword)
        if isinstance(call, ast.Call) and _beside_others(context, call.keywords) and _is_table(context, call):
            yield keyword
    if context.file.attributes.get("__name__"):
        yield from _read_by_own_name(context)
    for call in context.file.calls_by_name("namedtuple"):
        text = call.args[1] if len(call.args) > 1 else None
        words = (string_value(text) or "").replace(",", " ").split()
        if text is not None and cuda.DEVICE_TYPE in words and not OTHER_DEVICES.isdisjoint(words):
            if context.file.attributes.get("_asdict") or context.file.attributes.get("_fields"):
                yield text


def _read_by_own_name(context: PythonContext) -> Iterator[ast.AST]:
    """Yield functions and classes of a module where `function.__name__`, or a class's in small letters, is read."""
    attributes = context.file.attributes["__name__"]
    of_functions = any(isinstance(attribute.value, ast.Name) for attribute in attributes)
    of_classes = any(last_name(context.file.parents[attribute]) == "lower" for attribute in attributes)
    for definitions, are_read in ((context.file.functions, of_functions), (context.file.classes, of_classes)):
        outer = [each for each in definitions if context.file.parents.get(each) is context.file.tree]
        yield from _beside_others(context, outer) if are_read else ()


def name_of(node: ast.AST) -> str:
    """Return what a keyword, a definition or a variable is called; empty for a text."""
    if isinstance(node, ast.keyword):
        return node.arg or ""
    return getattr(node, "name", "") or getattr(node, "id", "")


def _beside_others(context: PythonContext, nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Return what is called CUDA beside what is called another device, but not beside the target's own."""
    named = [(name_of(node).lower(), node) for node in nodes]
    words = {word for word, _ in named}
    if words.isdisjoint(OTHER_DEVICES) or context.target.backend.DEVICE_TYPE in words:
        return []
    return [node for word, node in named if word == cuda.DEVICE_TYPE]


def _members(owner: ast.ClassDef) -> Iterator[ast.Name]:
    for statement in owner.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        for target in (statement.target,) if isinstance(statement, ast.AnnAssign) else targets:
            if isinstance(target, ast.Name):
                yield target


def _is_read(context: PythonContext, owner: ast.ClassDef, member: ast.AST) -> bool:
    """Whether the name of a member of a class is read as a text somewhere in the file."""
    bases = [last_name(base) for base in owner.bases]
    value = assigned_value(context.file, member)
    if string_value(value) is not None:
        return False  # the text says the device
    is_auto = isinstance(value, ast.Call) and last_name(value.func) == "auto"
    if is_auto and ("StrEnum" in bases or any(each.name == _GENERATES for each in context.file.functions)):
        return True
    if any("Enum" in base for base in bases) and _reads_member_names(context, owner):
        return True
    return _is_looked_into(context, owner.name)


def _reads_member_names(context: PythonContext, owner: ast.ClassDef) -> bool:
    """Whether the file reads the name of a member as other letters, or looks one up by a device."""
    for attribute in context.file.attributes.get("name", ()):
        parent = context.file.parents.get(attribute)
        if isinstance(parent, ast.Attribute) and parent.attr in ("lower", "casefold"):
            return True
    return any(
        isinstance(parent := context.file.parents.get(use), ast.Subscript)
        and parent.value is use
        and _speaks_of_device(parent.slice)
        for use in context.file.names.get(owner.name, ())
    )


def _is_looked_into(context: PythonContext, name: str) -> bool:
    """Whether an attribute of something is asked for by a device, or all its fields are read by their names."""
    for call in context.file.calls_by_name("getattr"):
        if len(call.args) > 1 and _speaks_of_device(call.args[1]) and _comes_from(context, call.args[0], name):
            return True
    for reader in _READERS:
        for call in context.file.calls_by_name(reader):
            if any(_comes_from(context, part, name) for part in (*call.args, call.func)):
                return True
    return any(
        _comes_from(context, attribute.value, name)
        for word in _NAMES_OF_FIELDS
        for attribute in context.file.attributes.get(word, ())
    )


def _is_table(context: PythonContext, call: ast.Call) -> bool:
    """Whether a call makes, or adds to, something that is asked for a name by a device."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "update":
        holder = ast.dump(call.func.value)
        return any(
            ast.dump(asked.value) == holder and _speaks_of_device(parent.args[0])
            for asked in context.file.attributes.get("get", ())
            if isinstance(parent := context.file.parents.get(asked), ast.Call) and parent.args
        )
    parent = context.file.parents.get(call)
    targets = parent.targets if isinstance(parent, ast.Assign) else ()
    if last_name(call.func) == "dict" and not any(questions(context.devices, call)):
        names = [target for target in targets if isinstance(target, ast.Name)]
        return any(_gives_keys(context, use) for target in names for use in context.names.uses_of(target))
    if last_name(call.func) not in _NAMESPACES:
        return False
    return any(_is_looked_into(context, last_name(target)) for target in targets)


def _gives_keys(context: PythonContext, use: ast.Name) -> bool:
    """Whether the keys of a dictionary are handed on: `**sizes`, `sizes.items()`, `for kind in sizes`."""
    parent = context.file.parents.get(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("items", "keys")
    return (isinstance(parent, ast.keyword) and parent.arg is None) or (
        isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is use
    )


def _comes_from(context: PythonContext, node: ast.expr, name: str) -> bool:
    """Whether an expression, or the value of a variable in it, speaks of a name."""
    for part in nodes_in(node):
        if isinstance(part, ast.Name):
            values = (assigned_value(context.file, binding) for binding in context.names.bindings(part))
            if part.id == name or any(last_name(value) == name for value in values if value is not None):
                return True
    return False


def _speaks_of_device(node: ast.AST) -> bool:
    """Whether an expression is made of the type of a device."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr == "type")
        or (isinstance(part, (ast.Name, ast.Attribute)) and lexicon("device").names(last_name(part)))
        for part in nodes_in(node)
    )
