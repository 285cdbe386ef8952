"""Where a device comes from that a line asks for: from a place that a rule found, or from one that none did.

`x.to(device)` goes through the redirect and needs no change where `device = torch.device("cuda")` is rewritten. So a
value is followed back: through variables, imports, parameters and the calls that give them, attributes, options,
results of functions. The device of a tensor needs nothing either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

DEVICE_ARGUMENTS = frozenset(
    {"device", "device_type", "device_id", "device_ids", "map_location", "output_device", "backend"}
)
"""Keywords by which functions take a device."""

_TAKES_DEVICE = frozenset({"to", "type", "new_tensor", "new_zeros", "new_ones", "new_empty", "new_full", "to_empty"})
"""Methods of tensors and modules whose arguments may be one."""

_SETTINGS = frozenset(
    {"args", "arguments", "cfg", "config", "configuration", "conf", "flags", "hparams", "opt", "options", "opts"}
    | {"params", "settings"}
)
"""What people call the object that holds their settings; `.device` of anything else is a tensor's or a module's."""

_DEPTH = 12
"""Steps that a value is followed back."""


class Known(NamedTuple):
    """A file and the lines in it that findings speak of."""

    file: PythonFile
    names: Names
    spoken: frozenset[int]


Step = tuple[Known, ast.AST]


class Origins:
    """Follows values back, through the files that have findings or sightings."""

    def __init__(self, known: Mapping[str, Known], project: Project) -> None:
        self._known = known
        self._project = project

    def explained(self, path: str, node: ast.AST) -> bool:
        """Whether a value in the file `path` comes from a place that a finding speaks of, or from a tensor."""
        todo: list[tuple[Known, ast.AST, int]] = [(self._known[path], node, 0)]
        seen: set[ast.AST] = set()
        while todo:
            known, value, depth = todo.pop()
            if value in seen or depth > _DEPTH:
                continue
            seen.add(value)
            if (
                isinstance(value, ast.Attribute)
                and value.attr.endswith("device")
                and not self._is_setting(known, value)
            ):
                return True
            for source, origin in self._back(known, value):
                if source.spoken.intersection(_lines(origin)):
                    return True
                todo.append((source, origin, depth + 1))
        return False

    def _is_setting(self, known: Known, attribute: ast.Attribute) -> bool:
        """Whether a device is asked of settings or of an object that the project gives one, not of a tensor.

        What the project never puts into `self` comes from a base class that a library has.
        """
        owner: ast.AST = attribute.value
        if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
            return next(self._stored(attribute.attr), None) is not None
        while isinstance(owner, (ast.Attribute, ast.Subscript)):
            if isinstance(owner, ast.Attribute) and owner.attr.lower() in _SETTINGS:
                return True
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id.lower() in _SETTINGS

    def _back(self, known: Known, node: ast.AST) -> Iterator[Step]:
        """Yield the places that a value comes from, one step back."""
        if isinstance(node, ast.Name):
            for binding in known.names.bindings(node):
                yield from self._bound(known, binding, node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(known, node)
        elif isinstance(node, ast.Call):
            yield from ((known, argument) for argument in (*node.args, *(keyword.value for keyword in node.keywords)))
            yield from self._results(known, node)
        elif isinstance(node, ast.expr):
            yield from ((known, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))

    def _bound(self, known: Known, binding: ast.AST, use: ast.Name) -> Iterator[Step]:
        if isinstance(binding, ast.alias):
            yield known, known.file.parents[binding]
            yield from self._imported(known, binding)
        elif isinstance(binding, ast.arg):
            yield from self._parameter(known, binding)
        elif isinstance(binding, ast.Name):
            value = assigned_value(known.file, binding)
            statement = known.file.statement(binding)
            if value is None and isinstance(statement, ast.Assign):
                value = statement.value
            elif value is None and isinstance(statement, (ast.For, ast.AsyncFor)):
                value = statement.iter
            if value is not None:
                yield known, value

    def _imported(self, known: Known, alias: ast.alias) -> Iterator[Step]:
        """Follow a variable of another module of the project."""
        module, _, member = (known.names.binding_origin(alias) or "").rpartition(".")
        path = self._project.module_path(module, known.file.path) if module.strip(".") else None
        other = self._known.get(path or "")
        for binding in other.names.module_bindings(member) if other is not None else ():
            value = assigned_value(other.file, binding) if other is not None else None
            if other is not None and value is not None:
                yield other, value

    def _parameter(self, known: Known, argument: ast.arg) -> Iterator[Step]:
        """Yield a parameter's default and what calls of the function give for it."""
        function = known.file.parents.get(known.file.parents[argument])
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        taken = function.args
        positional = [*taken.posonlyargs, *taken.args]
        defaults = dict(zip(reversed(positional), reversed(taken.defaults), strict=False))
        defaults |= {one: value for one, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value}
        if argument in defaults:
            yield known, defaults[argument]
        name = function.name
        owner = known.file.parents.get(function)
        position = positional.index(argument) if argument in positional else None
        if isinstance(owner, ast.ClassDef):
            if positional and positional[0].arg in {"self", "cls"} and position is not None:
                position -= 1
            name = owner.name if name == "__init__" else name
        calls = list(self._calls(name))
        if not calls:  # called by what is computed: a registry, a partial
            for other in self._known.values():
                yield from ((other, given.value) for given in other.file.keywords.get(argument.arg, ()))
        for other, call in calls:
            keyword = next((given.value for given in call.keywords if given.arg == argument.arg), None)
            if keyword is not None:
                yield other, keyword
            elif position is not None and position < len(call.args):
                yield other, call.args[position]

    def _calls(self, name: str) -> Iterator[tuple[Known, ast.Call]]:
        for known in self._known.values():
            for use in (*known.file.names.get(name, ()), *known.file.attributes.get(name, ())):
                call = known.file.parents.get(use)
                if isinstance(call, ast.Call) and call.func is use:
                    yield known, call

    def _attribute(self, known: Known, node: ast.Attribute) -> Iterator[Step]:
        if known.names.qualified(node) is not None:  # of a module, or of something in one
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            yield known, root
        if node.attr in {"type", "index"}:
            yield known, node.value
        yield from self._stored(node.attr)

    def _stored(self, name: str) -> Iterator[Step]:
        """Yield what the project's files put under an attribute: assignments, fields, options, properties."""
        for known in self._known.values():
            file = known.file
            for target in (*file.attributes.get(name, ()), *file.names.get(name, ())):
                in_class = isinstance(target, ast.Attribute) or isinstance(file.scope(target), ast.ClassDef)
                value = assigned_value(file, target) if in_class and isinstance(target.ctx, ast.Store) else None
                if value is not None:
                    yield known, value
            for keyword in file.keywords.get(name, ()):
                if name not in DEVICE_ARGUMENTS:
                    yield known, keyword.value
            for function in file.functions:
                if function.name == name and isinstance(file.parents.get(function), ast.ClassDef):
                    yield from ((known, value) for value in _returned(function))
            for text in file.strings:
                option = string_value(text)
                if option is not None and option.lstrip("-").replace("-", "_") == name and option.startswith("--"):
                    yield known, file.parents[text]

    def _results(self, known: Known, call: ast.Call) -> Iterator[Step]:
        """Yield what a function of the project returns; one of the same name, where it is a method."""
        name = last_name(call.func)
        qualified = known.names.qualified(call.func)
        defined = self._project.definition(qualified, known.file.path) if qualified else None
        for other in self._known.values():
            for function in other.file.functions:
                if function.name == name and (
                    other is known
                    or isinstance(call.func, ast.Attribute)
                    or (defined is not None and defined[0].path == other.file.path)
                ):
                    yield from ((other, value) for value in _returned(function))


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.expr]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def devices_asked(nodes: Iterable[ast.AST], names: Names) -> list[ast.expr]:
    """Return the arguments of a statement's calls that may be devices."""
    found: list[ast.expr] = []
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        found += [given.value for given in node.keywords if given.arg in DEVICE_ARGUMENTS or given.arg is None]
        method = isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES_DEVICE
        if method or (names.qualified(node.func) or "").startswith("torch."):
            found += node.args
    return found
