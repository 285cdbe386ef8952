"""Where a device comes from that a line asks for: from a place that a rule found, or from one that none did.

`x.to(device)` goes through the redirect and needs no change where `device = torch.device("cuda")` is rewritten. So a
value is followed back: through variables, imports, parameters and the calls that give them, attributes, options,
results of functions. The device of a tensor needs nothing either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import children_of, nodes_in
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


class ReportedFile(NamedTuple):
    """A file and the lines in it that findings speak of."""

    file: PythonFile
    names: Names
    reported_lines: frozenset[int]


OriginStep = tuple[ReportedFile, ast.AST]


class DeviceOrigins:
    """Follows values back, through the files that have findings or were seen in a run."""

    def __init__(self, files: Mapping[str, ReportedFile], project: Project) -> None:
        self._files = files
        self._project = project

    def explained(self, path: str, node: ast.AST) -> bool:
        """Whether a value in the file `path` comes from a place that a finding speaks of, or from a tensor."""
        todo: list[tuple[ReportedFile, ast.AST, int]] = [(self._files[path], node, 0)]
        seen: set[ast.AST] = set()
        while todo:
            reported, value, depth = todo.pop()
            if value in seen or depth > _DEPTH:
                continue
            seen.add(value)
            if (
                isinstance(value, ast.Attribute)
                and value.attr.endswith("device")
                and not self._is_setting(reported, value)
            ):
                return True
            for source, origin in self._back(reported, value):
                if source.reported_lines.intersection(_lines(origin)):
                    return True
                todo.append((source, origin, depth + 1))
        return False

    def _is_setting(self, reported: ReportedFile, attribute: ast.Attribute) -> bool:
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

    def _back(self, reported: ReportedFile, node: ast.AST) -> Iterator[OriginStep]:
        """Yield the places that a value comes from, one step back."""
        if isinstance(node, ast.Name):
            for binding in reported.names.bindings(node):
                yield from self._bound(reported, binding, node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(reported, node)
        elif isinstance(node, ast.Call):
            yield from (
                (reported, argument) for argument in (*node.args, *(keyword.value for keyword in node.keywords))
            )
            yield from self._results(reported, node)
        elif isinstance(node, ast.expr):
            yield from ((reported, child) for child in children_of(node) if isinstance(child, ast.expr))

    def _bound(self, reported: ReportedFile, binding: ast.AST, use: ast.Name) -> Iterator[OriginStep]:
        if isinstance(binding, ast.alias):
            yield reported, reported.file.parents[binding]
            yield from self._imported(reported, binding)
        elif isinstance(binding, ast.arg):
            yield from self._parameter(reported, binding)
        elif isinstance(binding, ast.Name):
            value = assigned_value(reported.file, binding)
            statement = reported.file.statement(binding)
            if value is None and isinstance(statement, ast.Assign):
                value = statement.value
            elif value is None and isinstance(statement, (ast.For, ast.AsyncFor)):
                value = statement.iter
            if value is not None:
                yield reported, value

    def _imported(self, reported: ReportedFile, alias: ast.alias) -> Iterator[OriginStep]:
        """Follow a variable of another module of the project."""
        module, _, member = (reported.names.binding_origin(alias) or "").rpartition(".")
        path = self._project.module_path(module, reported.file.path) if module.strip(".") else None
        other = self._files.get(path or "")
        for binding in other.names.module_bindings(member) if other is not None else ():
            value = assigned_value(other.file, binding) if other is not None else None
            if other is not None and value is not None:
                yield other, value

    def _parameter(self, reported: ReportedFile, argument: ast.arg) -> Iterator[OriginStep]:
        """Yield a parameter's default and what calls of the function give for it."""
        function = reported.file.parents.get(reported.file.parents[argument])
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        taken = function.args
        positional = [*taken.posonlyargs, *taken.args]
        defaults = dict(zip(reversed(positional), reversed(taken.defaults), strict=False))
        defaults |= {
            parameter: value for parameter, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value
        }
        if argument in defaults:
            yield reported, defaults[argument]
        name = function.name
        owner = reported.file.parents.get(function)
        position = positional.index(argument) if argument in positional else None
        if isinstance(owner, ast.ClassDef):
            if positional and positional[0].arg in {"self", "cls"} and position is not None:
                position -= 1
            name = owner.name if name == "__init__" else name
        calls = list(self._calls(name))
        if not calls:  # called by what is computed: a registry, a partial
            for other in self._files.values():
                yield from ((other, given.value) for given in other.file.keywords.get(argument.arg, ()))
        for other, call in calls:
            keyword = next((given.value for given in call.keywords if given.arg == argument.arg), None)
            if keyword is not None:
                yield other, keyword
            elif position is not None and position < len(call.args):
                yield other, call.args[position]

    def _calls(self, name: str) -> Iterator[tuple[ReportedFile, ast.Call]]:
        for reported in self._files.values():
            for use in (*reported.file.names.get(name, ()), *reported.file.attributes.get(name, ())):
                call = reported.file.parents.get(use)
                if isinstance(call, ast.Call) and call.func is use:
                    yield reported, call

    def _attribute(self, reported: ReportedFile, node: ast.Attribute) -> Iterator[OriginStep]:
        if reported.names.qualified(node) is not None:  # of a module, or of something in one
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            yield reported, root
        if node.attr in {"type", "index"}:
            yield reported, node.value
        yield from self._stored(node.attr)

    def _stored(self, name: str) -> Iterator[OriginStep]:
        """Yield what the project's files put under an attribute: assignments, fields, options, properties."""
        for reported in self._files.values():
            file = reported.file
            for target in (*file.attributes.get(name, ()), *file.names.get(name, ())):
                in_class = isinstance(target, ast.Attribute) or isinstance(file.scope(target), ast.ClassDef)
                value = assigned_value(file, target) if in_class and isinstance(target.ctx, ast.Store) else None
                if value is not None:
                    yield reported, value
            for keyword in file.keywords.get(name, ()):
                if name not in DEVICE_ARGUMENTS:
                    yield reported, keyword.value
            for function in file.functions:
                if function.name == name and isinstance(file.parents.get(function), ast.ClassDef):
                    yield from ((reported, value) for value in _returned(function))
            for text in file.strings:
                option = string_value(text)
                if option is not None and option.lstrip("-").replace("-", "_") == name and option.startswith("--"):
                    yield reported, file.parents[text]

    def _results(self, reported: ReportedFile, call: ast.Call) -> Iterator[OriginStep]:
        """Yield what a function of the project returns; one of the same name, where it is a method."""
        name = last_name(call.func)
        qualified = reported.names.qualified(call.func)
        defined = self._project.definition(qualified, reported.file.path) if qualified else None
        for other in self._files.values():
            for function in other.file.functions:
                if function.name == name and (
                    other is reported
                    or isinstance(call.func, ast.Attribute)
                    or (defined is not None and defined[0].path == other.file.path)
                ):
                    yield from ((other, value) for value in _returned(function))


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.expr]:
    return [node.value for node in nodes_in(function) if isinstance(node, ast.Return) and node.value is not None]


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def devices_asked(nodes: Iterable[ast.AST], names: Names) -> list[ast.expr]:
    """Return the arguments of a statement's calls that may be devices."""
    arguments: list[ast.expr] = []
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        arguments += [given.value for given in node.keywords if given.arg in DEVICE_ARGUMENTS or given.arg is None]
        method = isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES_DEVICE
        if method or (names.qualified(node.func) or "").startswith("torch."):
            arguments += node.args
    return arguments
