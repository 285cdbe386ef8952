"""What an expression is, as far as a program's code says: an object of a class, a module, a table, what a parser read.

`config.fast` is decided by what `config` is where it is asked. A variable is followed to what is assigned, a parameter
to what its callers give, a call to what the function returns.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from torchferry.programs.evaluation.config_files import is_configurable
from torchferry.programs.evaluation.inherited_calls import inherited_calls
from torchferry.programs.evaluation.object_kinds import (
    ClassObject,
    KeywordsObject,
    LayersObject,
    Member,
    ModuleObject,
    Object,
    OptionsObject,
    OtherObject,
    ParserObject,
    SettingsObject,
    TableObject,
    WordsObject,
)
from torchferry.programs.evaluation.parser_words import ParserWords
from torchferry.programs.evaluation.program_facts import OncePerProgram, ProgramFacts
from torchferry.programs.evaluation.unnamed_calls import unnamed_calls_of
from torchferry.programs.imports.settings_classes import ComposedFile
from torchferry.programs.options.argument_lists import OF_COMMAND, Lists
from torchferry.programs.options.option_libraries import filled_under, fills_class
from torchferry.programs.options.switches import RECORDS
from torchferry.programs.syntax.decorators import changes_arguments, has_own_decorator
from torchferry.programs.syntax.parameters import (
    MOST_CALLS,
    Expression,
    Parameter,
    argument_of,
    default_of,
    function_of,
    given_by,
    given_itself,
    is_given_by_python,
)
from torchferry.programs.syntax.per_file import per_file
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import callee, last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

GivenBySettings = Callable[[PythonFile, FunctionNode | ast.ClassDef, str], list[Member]]

_DEEPEST = 24
"""Variables, parameters, attributes and calls that are followed to an object."""

_MOST_OBJECTS = 8
"""Objects that one expression may be; of more nobody can tell."""

_SAME = frozenset({"vars", "deepcopy", "copy", "asdict", "clone", "to_dict", "to_container", "as_dict", "structured",
                   "create"})  # fmt: skip
"""Functions and methods that give back what they are given, or a copy with the same values."""

OF_MODULES = frozenset({"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "apply",
                         "requires_grad_", "share_memory", "to_empty"})  # fmt: skip
"""Methods of `torch.nn.Module` that give back the module."""

_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"})
_PARSED = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args", "parse_args_into_dataclasses",
                     "parse_args_and_config", "parse_dict", "parse_json_file", "parse_yaml_file"})  # fmt: skip
_READERS = frozenset({"yaml", "json", "toml", "tomllib", "tomli", "omegaconf", "hjson", "ruamel", "commentjson"})
_LOADS = frozenset({"load", "loads", "safe_load", "full_load", "unsafe_load", "round_trip_load"})

_PLAIN_DECORATORS = frozenset({"dataclass", "final", "total_ordering", "runtime_checkable", "unique"})
"""Decorators of classes that keep nothing."""

_MOST_DERIVED = 12
"""Classes that are derived from one and made; where there are more, the object is unknown."""


class Objects:
    """Resolves expressions to objects, for one program.

    Args:
        facts: The facts of the program.
    """

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts
        self._sources = facts.sources
        self._parameters = OncePerProgram(facts, "object", self._from_calls, None)
        self._words = ParserWords(facts)
        self.member: Callable[[Object, str, int], Member] = lambda of, name, depth: Member(is_open=True)
        """Returns an attribute or item of an object."""
        self.path: Callable[[Expression, int], str | None] = lambda where, depth: None
        """Returns the path that an expression names."""
        self.by_settings: GivenBySettings = lambda file, of, name: []
        """Returns what settings give to a parameter."""

    def of(self, where: Expression, depth: int = 0) -> tuple[Object, ...] | None:
        """Return what an expression may be; None if it is unknown."""
        if not self.facts.goes_on(depth, _DEEPEST):
            return None
        node = where.node
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            if where.given:  # what one call gives holds for no other
                return self._of_reference(where, node, depth + 1)
            return self.facts.once(node, lambda: self._of_reference(where, node, depth + 1), depth, by_asker=True)
        if isinstance(node, ast.Subscript):
            key = string_value(node.slice)
            if key is not None:
                return self._inside(self.of(where.part(node.value), depth + 1), key, depth + 1)
            number = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return self._element(where.part(node.value), number, depth + 1) if isinstance(number, int) else None
        if isinstance(node, ast.Dict):
            return (TableObject(where),)
        if isinstance(node, ast.IfExp):
            return self._union(self.of(where.part(part), depth + 1) for part in (node.body, node.orelse))
        if isinstance(node, ast.BoolOp):
            return self._union(self.of(where.part(part), depth + 1) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._layers([where.part(node.left), where.part(node.right)], depth + 1)
        if isinstance(node, ast.NamedExpr):
            return self.of(where.part(node.value), depth + 1)
        return (OtherObject(where.place),)

    def _of_reference(
        self, where: Expression, node: ast.Name | ast.Attribute | ast.Call, depth: int
    ) -> tuple[Object, ...] | None:
        if isinstance(node, ast.Name):
            return self._of_name(where, node, depth)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(where, node, depth)
        return self._of_call(where, node, depth)

    @staticmethod
    def _union(parts: Iterable[tuple[Object, ...] | None]) -> tuple[Object, ...] | None:
        union: dict[object, Object] = {}
        for objects in parts:
            if objects is None or len(union) > _MOST_OBJECTS:
                return None
            union |= {each.key: each for each in objects}
        return tuple(union.values())

    def _layers(self, parts: Iterable[Expression], depth: int, is_deep: bool = False) -> tuple[Object, ...] | None:
        layers: list[Object] = []
        for part in parts:
            objects = self.of(part, depth)
            if objects is None or len(objects) != 1:
                return None
            layers += objects
        return (LayersObject(tuple(layers), is_deep),)

    def _inside(self, objects: tuple[Object, ...] | None, name: str, depth: int) -> tuple[Object, ...] | None:
        """Return what an attribute or item of some objects may be."""
        if objects is None:
            return None
        return self._union([self._member_object(each, name, depth) for each in objects])

    def _member_object(self, of: Object, name: str, depth: int) -> tuple[Object, ...] | None:
        member = self.member(of, name, depth)
        if member.objects:
            return member.objects
        if member.values:
            objects = self._union(self.of(value, depth) for value in member.values)
            if objects is None or not isinstance(of, ClassObject) or not of.by_options:
                return objects
            prefix = f"{of.prefix}{name}."
            return tuple(
                each._replace(by_options=True, prefix=prefix) if isinstance(each, ClassObject) else each
                for each in objects
            )
        if isinstance(of, OtherObject):
            return (of._replace(names=(*of.names, name)),)
        return None

    # --- names ---

    def _of_name(self, where: Expression, node: ast.Name, depth: int) -> tuple[Object, ...] | None:
        bindings = where.names.reaching_bindings(node)
        if not bindings:
            return (OtherObject(node.id),) if hasattr(builtins, node.id) else None
        return self._union(self.of_binding(where, binding, depth) for binding in bindings)

    def of_binding(self, where: Expression, binding: ast.AST, depth: int) -> tuple[Object, ...] | None:
        """Return what a name may be by one of its bindings."""
        file, names = where.file, where.names
        if isinstance(binding, ast.ClassDef):
            return (ClassObject(file, names, binding),)
        if isinstance(binding, ast.arg):
            return self._of_parameter(where, binding, depth)
        if isinstance(binding, ast.alias):
            origin = names.binding_origin(binding)
            return self._of_origin(origin, file, depth) if origin is not None else None
        value = assigned_value(file, binding)
        if value is not None:
            return self.of(where.part(value), depth)
        parent = file.parents.get(binding)
        if isinstance(parent, ast.withitem):
            return self.of(where.part(parent.context_expr), depth)
        if isinstance(parent, (ast.Tuple, ast.List)):
            statement = file.parents.get(parent)
            if isinstance(statement, ast.Assign):
                number = next(index for index, part in enumerate(parent.elts) if part is binding)
                return self._element(where.part(statement.value), number, depth)
        return (OtherObject((file.path, getattr(binding, "lineno", 0), getattr(binding, "col_offset", 0))),)

    def _of_origin(self, origin: str, file: PythonFile, depth: int) -> tuple[Object, ...] | None:
        """Return what a dotted name of an import means."""
        project = self._sources.project
        path = project.module_path(origin, file.path) if origin.strip(".") else None
        if path is not None:
            return (ModuleObject(path),)
        module, _, member = origin.rpartition(".")
        path = project.module_path(module, file.path) if module.strip(".") else None
        if path is not None:
            return self._member_object(ModuleObject(path), member, depth)
        return None if origin.startswith(".") else (OtherObject(origin),)

    def _of_attribute(self, where: Expression, node: ast.Attribute, depth: int) -> tuple[Object, ...] | None:
        qualified = where.names.qualified(node)
        if qualified is not None:
            path = self._sources.project.module_path(qualified, where.file.path)
            if path is not None:
                return (ModuleObject(path),)
        if node.attr == "__dict__":
            return self.of(where.part(node.value), depth)
        if node.attr == "FLAGS":
            return (OptionsObject(None),)
        return self._inside(self.of(where.part(node.value), depth), node.attr, depth)

    # --- parameters ---

    def _of_parameter(self, where: Expression, argument: ast.arg, depth: int) -> tuple[Object, ...] | None:
        file, names = where.file, where.names
        function = function_of(file, argument)
        if function is None:
            return None
        if argument is function.args.kwarg:
            return (KeywordsObject(where, function),)
        if argument is function.args.vararg:
            return None
        key = Parameter(file.path, function.lineno, argument.arg)
        given = where.given.get(key)
        if given is not None:
            return self.of(given, depth)
        owner = file.parents.get(function)
        if isinstance(owner, ast.ClassDef) and argument.arg in ("self", "cls"):
            return self._itself(ClassObject(file, names, owner))
        given = self.facts.given(key)
        if given is not None:
            return self.of(given, depth)
        return self._parameters.of(key)

    def _itself(self, of: ClassObject) -> tuple[Object, ...] | None:
        """Return what `self` may be: an object of a class, or of one that is derived from it and made somewhere."""
        derived = tuple(islice(filter(lambda each: self._may_be_made(each.node), self._derived(of)), _MOST_DERIVED + 1))
        if not derived or len(derived) > _MOST_DERIVED:
            return (of,) if not derived else None
        return (of, *derived) if self._may_be_made(of.node) else derived

    def _may_be_made(self, node: ast.ClassDef) -> bool:
        """Whether somebody may make an object of a class: by its name, by what a decorator keeps, by settings."""
        registering = {last_name(each) for each in node.decorator_list} - _PLAIN_DECORATORS
        return bool(registering) or self.facts.names_class(node.name) or self.facts.config.files.names_class(node.name)

    def _derived(self, of: ClassObject) -> Iterator[ClassObject]:
        """Yield the classes of the program that are derived from one, and from these, by their names."""
        waiting = [of.node.name]
        asked = {of.node.name}
        while waiting:
            name = waiting.pop(0)
            for path in self.facts.deriving(name):
                loaded = self._sources.file(path)
                for node in loaded[0].classes if loaded is not None else ():
                    assert loaded is not None
                    if node is not of.node and name in map(last_name, node.bases):
                        yield ClassObject(*loaded, node)
                        if node.name not in asked:
                            asked.add(node.name)
                            waiting.append(node.name)

    def _from_calls(self, key: Parameter) -> tuple[Object, ...] | None:
        """Return what all calls of a function give to a parameter."""
        loaded = self._sources.file(key.path)
        argument = argument_of(loaded[0], key) if loaded is not None else None
        function = function_of(loaded[0], argument) if loaded is not None and argument is not None else None
        if loaded is None or argument is None or function is None:
            return None
        (file, names), depth = loaded, 0
        if any(names.qualified(callee(each)) == "hydra.main" for each in function.decorator_list):
            return (SettingsObject(self.facts.composed(file.path), by_hydra=True),)
        prefix = filled_under(file, names, function, argument)
        if prefix is not None and argument.annotation is not None:
            filled = self._filled(Expression(file, names, argument.annotation), depth, prefix)
            if filled is not None:
                return filled
        owner = file.parents.get(function)
        results: list[tuple[Object, ...] | None] = []
        calls = [*self.facts.calls_of(file, function)]
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            calls += inherited_calls(self.facts, owner)
        project = self._sources.project
        is_registered = isinstance(owner, ast.ClassDef) and has_own_decorator(project, file, names, owner)
        if is_registered or changes_arguments(project, file, names, function):
            return None  # what a decorator has kept is called elsewhere
        unnamed = unnamed_calls_of(self.facts, file, function, argument.arg)
        if unnamed is None:
            return None
        calls += unnamed
        for number, (other, other_names, call) in enumerate(calls):
            bound = is_given_by_python(owner, function, call)
            given = given_by(file.path, function, call, other.path, bound=bound).get(key)
            if given is None or number >= MOST_CALLS:
                return None
            of = (file, names) if given.path == file.path and given.value is default_of(function.args, argument) else (
                other, other_names
            )  # fmt: skip
            results.append(self.of(Expression(*of, given.value), depth))
            if results[-1] is None:
                return None
        results += self._from_settings(file, names, function, argument, depth)
        return self._union(results) if results else None

    def _from_settings(
        self, file: PythonFile, names: Names, function: FunctionNode, argument: ast.arg, depth: int
    ) -> Iterator[tuple[Object, ...] | None]:
        """Yield what settings give to a parameter of what they name, its default where they give nothing."""
        default = default_of(function.args, argument)
        for member in self.by_settings(file, function, argument.arg):
            if not member.is_there:
                yield self.of(Expression(file, names, default), depth) if default is not None else None
            elif member.objects or not member.values:
                yield member.objects or None
            else:
                yield self._union(self.of(value, depth) for value in member.values)

    # --- calls ---

    def _of_call(self, where: Expression, node: ast.Call, depth: int) -> tuple[Object, ...] | None:
        name, first = last_name(node.func), node.args[0] if node.args else None
        qualified = where.names.qualified(node.func) or ""
        if name == "getattr" and len(node.args) > 1:
            key = string_value(node.args[1])
            return self._inside(self.of(where.part(node.args[0]), depth), key, depth) if key is not None else None
        method = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in ("get", "pop") and method is not None and first is not None:
            key = string_value(first)
            return self._inside(self.of(where.part(method), depth), key, depth) if key is not None else None
        if name in _SAME and first is not None and (method is None or qualified) and not self._is_project(where, node):
            return self.of(where.part(first), depth)
        if name in _LOADS and not _READERS.isdisjoint((qualified or _dotted(node.func)).lower().split(".")):
            return self._settings(where.part(first), depth) if first is not None else None
        if name == "merge" and "OmegaConf" in (qualified or _dotted(node.func)):
            return self._layers(map(where.part, node.args), depth, is_deep=True)
        if name in ("from_cli", "from_dotlist") and "OmegaConf" in (qualified or _dotted(node.func)):
            return (WordsObject(),) if name == "from_cli" else None
        if name.endswith(("ArgumentParser", "ArgParser")) and self.defined(where, node) is None:
            return (ParserObject(where),)
        defined = self.defined(where, node)
        if defined is None and _makes_own_class(where, node):
            classes = self.of(where.part(node.func), depth) or ()
            asked = [each for each in classes if isinstance(each, ClassObject) and each.maker is None]
            if asked and len(asked) == len(classes):
                return self._union(self._made(each._replace(maker=where), where, node) for each in asked)
        if isinstance(defined, tuple):
            file, names, definition = defined
            if isinstance(definition, ast.ClassDef):
                return self._made(ClassObject(file, names, definition, where), where, node)
            return self._returned(where, node, Expression(file, names, node), definition, {}, depth)
        if name in RECORDS or name in ("dict", "CN", "CfgNode", "DictConfig", "Config", "DotMap", "Box"):
            return (TableObject(where),)
        if fills_class(qualified):
            target = next((each.value for each in node.keywords if each.arg == "config_class"), first)
            return self._filled(where.part(target), depth) if target is not None else None
        if method is not None:
            return self._of_method(where, node, method, depth)
        return (OtherObject(where.place),) if qualified and not self._is_project(where, node) else None

    def _made(self, of: ClassObject, where: Expression, node: ast.Call) -> tuple[Object, ...]:
        bases = {last_name(base) for base in of.node.bases}
        if bases & {"dict", *RECORDS}:
            return (TableObject(where),)
        return (ParserObject(where),) if "ArgumentParser" in bases else (of,)

    def _is_project(self, where: Expression, node: ast.Call) -> bool:
        if self.defined(where, node) is not None:
            return True
        qualified = where.names.qualified(node.func)
        return qualified is not None and qualified.startswith(".")

    def defined(
        self, where: Expression, node: ast.Call
    ) -> tuple[PythonFile, Names, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] | None:
        """Return the function or class of the project that a call means by its name."""
        if isinstance(node.func, ast.Name):
            bindings = where.names.bindings(node.func)
            own = [each for each in bindings if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
            if own:
                return (where.file, where.names, own[0]) if len(own) == len(bindings) == 1 else None
        qualified = where.names.qualified(node.func)
        if qualified is None:
            return None
        return self._sources.project.definition(qualified, where.file.path)

    def _returned(
        self,
        where: Expression,
        call: ast.Call,
        inside: Expression,
        function: FunctionNode,
        more: dict[Parameter, Expression],
        depth: int,
        element: int | None = None,
    ) -> tuple[Object, ...] | None:
        """Return what a function of the project gives back for a call; with an element, that of the tuple."""
        results = returned(inside.file, function)
        if not results or len(results) > _MOST_OBJECTS:
            return None
        given = {**self.arguments(where, call, inside, function), **more}
        values = (inside._replace(node=result, given=given) for result in results)
        if element is None:
            return self._union(self.of(value, depth) for value in values)
        return self._union(self._element(value, element, depth) for value in values)

    def arguments(
        self, where: Expression, call: ast.Call, inside: Expression, function: FunctionNode
    ) -> dict[Parameter, Expression]:
        """Return what a call gives to the parameters of a function."""
        bound = is_given_by_python(inside.file.parents.get(function), function, call)
        given = given_by(inside.file.path, function, call, where.file.path, bound=bound)
        defaults = {default_of(function.args, argument) for argument in _named(function)}
        if is_configurable(inside.file, inside.names, function):
            given = {key: value for key, value in given.items() if value.value not in defaults}
        return {
            parameter: inside._replace(node=value.value) if value.value in defaults else where.part(value.value)
            for parameter, value in given.items()
        }

    def _of_method(self, where: Expression, node: ast.Call, method: ast.expr, depth: int) -> tuple[Object, ...] | None:
        name = last_name(node.func)
        objects = self.of(where.part(method), depth)
        if objects is None:
            return (OptionsObject(None),) if name in _PARSED else None
        return self._union([self._called(where, node, each, name, depth) for each in objects])

    def _called(
        self, where: Expression, node: ast.Call, of: Object, name: str, depth: int, element: int | None = None
    ) -> tuple[Object, ...] | None:
        """Return what a method of an object gives back."""
        if isinstance(of, ParserObject):
            if name in _GROUPS:
                return (of,)
            lists = self._words.of(where, node) if name.startswith("parse_") else (OF_COMMAND,)
            if lists is None:
                return (OtherObject(where.place),)
            return self._parsed(of, lists, element or 0, depth) if name in _PARSED else None
        if isinstance(of, ClassObject):
            method = self.method(of, name)
            if method is not None:
                inside, function = method
                itself = of.maker if of.maker is not None else where.part(node.func.value)  # type: ignore[attr-defined]
                return self._returned(where, node, inside, function, given_itself(method, itself), depth, element)
            if name in _PARSED:
                is_tap = "Tap" in {last_name(base) for base in of.node.bases}
                return (of._replace(by_options=True),) if is_tap else (OptionsObject(None),)
            return (of,) if name in _SAME or name in OF_MODULES else None
        if isinstance(of, OtherObject):
            if name in _PARSED:
                return (OptionsObject(None),)
            if name in _SAME and not node.args:
                return (of,)
            parsers = [self.of(where.part(part), depth) for part in node.args[:2]]
            handed = [each for method in parsers for each in method or () if isinstance(each, ParserObject)]
            return tuple(handed[:1]) or (OtherObject(where.place),)
        return (of,) if name in _SAME else None

    def _parsed(self, parser: ParserObject, lists: Lists, number: int, depth: int) -> tuple[Object, ...] | None:
        """Return what a parser reads: its options, or the object of a class whose fields are options."""
        call = parser.where.node
        assert isinstance(call, ast.Call)
        listed = call.args[0] if call.args and last_name(call.func) != "ArgumentParser" else None
        if listed is None:
            return tuple(OptionsObject(parser, words) for words in lists)
        if lists != (OF_COMMAND,):
            return (OtherObject(parser.where.place),)  # nobody looks for fields among other words
        classes = listed.elts if isinstance(listed, (ast.Tuple, ast.List)) else [listed]
        return self._filled(parser.where.part(classes[number]), depth) if number < len(classes) else None

    def _filled(self, of_class: Expression, depth: int, prefix: str = "") -> tuple[Object, ...] | None:
        objects = self.of(of_class, depth) or ()
        filled = [each._replace(by_options=True, prefix=prefix) for each in objects if isinstance(each, ClassObject)]
        return tuple(filled) if filled and len(filled) == len(objects) else None

    def _element(self, where: Expression, number: int, depth: int) -> tuple[Object, ...] | None:
        """Return what an element of a tuple may be, as a function or a parser gives one back."""
        node = where.node
        if isinstance(node, (ast.Tuple, ast.List)):
            return self.of(where.part(node.elts[number]), depth) if number < len(node.elts) else None
        if isinstance(node, ast.Name):
            values = [_gathered(where.file, binding) for binding in where.names.reaching_bindings(node)]
            if None in values or not values or depth > _DEEPEST:
                return None
            return self._union(self._element(where.part(value), number, depth + 1) for value in values if value)
        if not isinstance(node, ast.Call) or depth > _DEEPEST:
            return (OtherObject((*where.place, number)),)
        defined = self.defined(where, node)
        if defined is not None and not isinstance(defined[2], ast.ClassDef):
            return self._returned(where, node, Expression(*defined[:2], node), defined[2], {}, depth + 1, number)
        if isinstance(node.func, ast.Attribute):
            objects = self.of(where.part(node.func.value), depth + 1)
            name = last_name(node.func)
            if objects is None:
                return (OptionsObject(None),) if name == "parse_known_args" and not number else None
            if number and name == "parse_known_args":
                return (OtherObject((*where.place, number)),)
            return self._union([self._called(where, node, each, name, depth + 1, number) for each in objects])
        return (OtherObject((*where.place, number)),)

    def method(self, of: ClassObject, name: str, depth: int = 0) -> tuple[Expression, FunctionNode] | None:
        """Return a method of a class or of its bases in the project."""
        for part in of.node.body:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name == name:
                return Expression(of.file, of.names, ast.copy_location(ast.Name(name, ast.Load()), part)), part
        for base in self.bases(of) if depth < _DEEPEST else ():
            inherited = self.method(base, name, depth + 1)
            if inherited is not None:
                return inherited
        return None

    def bases(self, of: ClassObject) -> Iterator[ClassObject]:
        """Yield the bases of a class that are the project's."""
        for base in of.node.bases:
            for each in self.of(Expression(of.file, of.names, base), _DEEPEST // 2) or ():
                if isinstance(each, ClassObject) and each.maker is None and each.node is not of.node:
                    yield each._replace(by_options=of.by_options)

    def _settings(self, named: Expression, depth: int) -> tuple[Object, ...] | None:
        path = self.path(named, depth)
        opened = self.facts.opened(path) if path is not None else None
        return (SettingsObject((ComposedFile(opened, ""),)),) if opened is not None else None


@per_file
def returned(file: PythonFile, function: FunctionNode) -> list[ast.expr]:
    """Return what a function gives back, where it gives back something."""
    returns = (part for part in nodes_in(function) if isinstance(part, ast.Return))
    own = (part.value for part in returns if file.enclosing_function(part) is function)
    return [each for each in own if each is not None and not (isinstance(each, ast.Constant) and each.value is None)]


def _gathered(file: PythonFile, binding: ast.AST) -> ast.expr | None:
    """Return what is assigned to a name, or to the first name with a star: `*parsed, rest = parser.parse()`."""
    star = file.parents.get(binding)
    several = file.parents.get(star) if isinstance(star, ast.Starred) else None
    if isinstance(several, (ast.Tuple, ast.List)) and several.elts[0] is star:
        statement = file.parents.get(several)
        return statement.value if isinstance(statement, ast.Assign) else None
    return assigned_value(file, binding)


def _makes_own_class(where: Expression, call: ast.Call) -> bool:
    """Whether a call makes an object of what a class method gets as its class, of what is written there: `cls(4)`."""
    bindings = where.names.bindings(call.func) if isinstance(call.func, ast.Name) else []
    argument = bindings[0] if len(bindings) == 1 else None
    function = function_of(where.file, argument) if isinstance(argument, ast.arg) else None
    return (
        function is not None
        and argument in function.args.args[:1]
        and any(last_name(each) == "classmethod" for each in function.decorator_list)
        and not any(keyword.arg is None for keyword in call.keywords)
    )


def _named(function: FunctionNode) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _dotted(node: ast.expr) -> str:
    """Return a dotted expression as it is written, as far as it consists of names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Call):
        parts.append(last_name(node.func))
    elif isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
