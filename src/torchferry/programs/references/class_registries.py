"""Where a class is taken from what keeps all classes that are derived from one: `__subclasses__()`, or a registry.

A registry is filled where a class is defined: by `__init_subclass__` of a base, or by its metaclass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Reachability
from torchferry.programs.references.class_hierarchy import Lineage, place_of
from torchferry.programs.syntax.decorators import Registration, bound_in_project, kept_by, lookup
from torchferry.programs.syntax.dispatch_tables import is_equal
from torchferry.programs.syntax.parameters import PARTIAL
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.programs.syntax.use_syntax import Place, Use
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_ADDS = frozenset({"append", "add", "insert", "appendleft"})
_CHANGES: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_WORDS = frozenset({"__init_subclass__", "__subclasses__", "metaclass"})

_Class = tuple[PythonFile, Names, ast.ClassDef]


class _Entry(NamedTuple):
    """Where a class is kept.

    Attributes:
        container: The variable or attribute that keeps it.
        is_keyed: Whether it is kept by a key.
        key: The key, where it can be told.
        variable: Where the class is spoken of.
    """

    container: ast.Name | ast.Attribute
    is_keyed: bool
    key: str | None
    variable: ast.Name


class ClassRegistries:
    """Finds where classes are taken from what keeps them.

    Args:
        sources: The project's files.
        lineage: Its classes by their bases.
        uses_of_binding: Returns where a name that a file binds is used.
    """

    def __init__(
        self, sources: Sources, lineage: Lineage, uses_of_binding: Callable[[PythonFile, ast.Name], Iterator[Use]]
    ) -> None:
        self._sources = sources
        self._lineage = lineage
        self._uses_of_binding = uses_of_binding

    def uses(self, file: PythonFile, names: Names, unit: ast.ClassDef) -> Iterator[Use]:
        """Yield where a class is taken out of what keeps the classes derived from one of its bases."""
        if not self._sources.words.holding_any(_WORDS):
            return
        bases = [*filter(None, map(self._lineage.at, self._lineage.bases(place_of(file, unit))))]
        for number, base in enumerate(bases):
            yield from self._uses_by(base, file.path, unit, [*bases[:number], base], by_itself=False)
            yield from self._uses_of_list(base[2], unit, bases[:number])
        for base in ((file, names, unit), *bases):
            for made_by in filter(None, map(self._lineage.at, self._lineage.metaclass(place_of(base[0], base[2])))):
                yield from self._uses_by(made_by, file.path, unit, bases, by_itself=True)

    def _uses_by(
        self, keeper: _Class, path: str, unit: ast.ClassDef, bases: list[_Class], *, by_itself: bool
    ) -> Iterator[Use]:
        """Yield what is done with a class where it is defined, and where it is taken out of what then keeps it."""
        file, names, _ = keeper
        for method, new_names in _hooks(keeper, by_itself=by_itself):
            entries = [*_kept(method, new_names, unit, bases, by_itself=by_itself)]
            for entry in entries:
                yield from self._uses_of_entry(keeper, entry, unit)
            followed = {entry.variable for entry in entries if _is_lasting(file, names, entry.container)}
            for node in nodes_in(method):
                is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in new_names
                if isinstance(node, ast.Name) and is_read and node not in followed:
                    yield from self._uses_of_spoken(file, names, node, Place(path, unit), unit)

    def _uses_of_spoken(
        self, file: PythonFile, names: Names, spoken: ast.Name, defined: Place, unit: ast.ClassDef
    ) -> Iterator[Use]:
        """Yield what a hook does where a class is defined: it makes an object of it, or hands it on."""
        node: ast.AST = spoken
        parent = file.parents.get(node)
        while isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.keyword, ast.Starred)):
            node, parent = parent, file.parents.get(parent)
        choice = Use(defined, Reachability.CHOSEN, f"{unit.name} ({file.path}:{spoken.lineno})")
        if isinstance(parent, ast.Call) and parent.func is spoken:
            yield choice if place_context(file, parent).tests else Use(defined)
        elif isinstance(parent, ast.Call):
            bound = bound_in_project(self._sources.project, file, names, parent.func)
            if bound is None and last_name(parent.func) in _ASKING and spoken not in parent.args[2:]:
                return
            registered = kept_by(bound[0], bound[1], bound[2], parent, unit) if bound is not None else []
            for each in registered:
                yield from self.of_registration(each, unit, file.path)
            if not registered:
                yield choice
        elif isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.Lambda, ast.Yield)):
            yield choice

    def of_registration(
        self, registration: Registration, unit: FunctionNode | ast.ClassDef, path: str
    ) -> Iterator[Use]:
        """Yield where what keeps a function or class is asked for it.

        Args:
            registration: Where it is kept.
            unit: The function or class.
            path: The file that has it kept.
        """
        if registration.container is None:
            yield Use(Place(path, unit), Reachability.CHOSEN, f"{unit.name} ({path}:{unit.lineno})")
            return
        for use in self._uses_of_binding(registration.file, registration.container):
            loaded = self._sources.file(use.place.path)
            node = use.place.node
            if loaded is None or not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            asked = lookup(loaded[0], node, is_keyed=registration.key is not None)
            if asked is None:
                continue
            place = Place(use.place.path, asked.node, use.place.through)
            if registration.key is not None and asked.asked is not None:
                written = string_value(asked.asked)
                if written is None or written == registration.key:
                    yield Use(place, test=None if written is not None else is_equal(asked.asked, registration.key))
            elif asked.takes_all:
                yield Use(place)
            else:
                yield Use(place, Reachability.CHOSEN, f"{unit.name} ({place.path}:{asked.node.lineno})")

    def _uses_of_entry(self, keeper: _Class, entry: _Entry, unit: ast.ClassDef) -> Iterator[Use]:
        """Yield where the container of a class is asked for it."""
        file, names, _ = keeper
        container = entry.container
        if isinstance(container, ast.Name):
            own = [each for each in names.bindings(container) if isinstance(each, ast.Name)]
            uses = [use.place for binding in own[:1] for use in self._uses_of_binding(file, binding)]
        else:
            uses = [*self._attributes(container.attr)]
        for place in uses:
            loaded, node = self._sources.file(place.path), place.node
            if loaded is None or not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue
            chosen = _chosen(loaded[0], node, unit)
            if chosen is not None:
                yield from _use_of(Place(place.path, chosen.node, place.through), chosen, unit)
                continue
            asked = lookup(loaded[0], node, is_keyed=entry.is_keyed)
            if asked is not None:
                there = Place(place.path, asked.node, place.through)
                yield from _use_of(there, _Choice(asked.node, asked.asked, entry.key, asked.takes_all), unit)

    def _uses_of_list(self, base: ast.ClassDef, unit: ast.ClassDef, between: list[_Class]) -> Iterator[Use]:
        """Yield where the classes derived from a base are listed and one is taken."""
        related = {base.name, *(each[2].name for each in between)}
        for place in self._attributes("__subclasses__"):
            loaded, node = self._sources.file(place.path), place.node
            call = loaded[0].parents.get(node) if loaded is not None and node is not None else None
            if loaded is None or not isinstance(node, ast.Attribute) or not isinstance(call, ast.Call):
                continue
            owner = node.value
            name = last_name(owner)
            around_it = loaded[0].enclosing_class(node)
            if name in ("cls", "self", "__class__", "type"):
                name = around_it.name if around_it is not None else ""
            if name not in related:
                continue
            chosen = _chosen(loaded[0], call, unit) or _Choice(call, None, None, False)
            yield from _use_of(Place(place.path, chosen.node), chosen, unit)

    def _attributes(self, name: str) -> Iterator[Place]:
        for path in self._sources.words.as_attribute(name):
            loaded = self._sources.file(path)
            yield from (
                Place(path, each) for each in (loaded[0].attributes.get(name, ()) if loaded is not None else ())
            )


class _Choice(NamedTuple):
    """How classes are taken: at a node, those of which something equals what is asked; all where nothing is asked."""

    node: ast.expr
    asked: ast.expr | None
    own: str | None
    takes_all: bool


def _use_of(place: Place, choice: _Choice, unit: ast.ClassDef) -> Iterator[Use]:
    if choice.takes_all:
        yield Use(place)
    elif choice.asked is None or choice.own is None:
        yield Use(place, Reachability.CHOSEN, f"{unit.name} ({place.path}:{getattr(place.node, 'lineno', 0)})")
    else:
        written = string_value(choice.asked)
        if written is None or written == choice.own:
            yield Use(place, test=None if written is not None else is_equal(choice.asked, choice.own))


_ASKING = frozenset({
    "isinstance", "issubclass", "super", "hasattr", "getattr", "setattr", "print", "repr", "str", "len", "id", "hash",
    "type", "vars", "dir", "cast", "format", "signature", "getsource", "getmembers", "getmro", "get_type_hints",
    "fields", "dataclass", "final", "wraps", "update_wrapper", "debug", "info", "warning", "warn", "log", "__init__",
    "__setattr__", "__init_subclass__",
})  # fmt: skip
"""Functions that ask something of a class, or give it something, and make no object of it."""


def _is_lasting(file: PythonFile, names: Names, container: ast.Name | ast.Attribute) -> bool:
    """Whether what keeps a class outlives the hook: a variable of the module, or an attribute."""
    bindings = names.bindings(container) if isinstance(container, ast.Name) else ()
    return not any(file.scope(each) is not file.tree for each in bindings if isinstance(each, ast.Name))


def _hooks(keeper: _Class, *, by_itself: bool) -> Iterator[tuple[ast.FunctionDef, set[str]]]:
    """Yield what a base, or a metaclass, runs where a class is defined, with what it calls that class."""
    methods = ("__new__", "__init__") if by_itself else ("__init_subclass__",)
    for method in keeper[2].body:
        if isinstance(method, ast.FunctionDef) and method.name in methods:
            first = {each.arg for each in method.args.args[:1]}
            yield method, first if method.name != "__new__" else _named_new(method)


def _kept(
    method: ast.FunctionDef, new_names: set[str], unit: ast.ClassDef, bases: list[_Class], *, by_itself: bool
) -> Iterator[_Entry]:
    """Yield where `__init_subclass__` of a base, or what a metaclass runs, keeps a class."""
    arguments = [each.arg for each in method.args.args]
    keywords: dict[str, ast.expr] = {keyword.arg: keyword.value for keyword in unit.keywords if keyword.arg is not None}
    if by_itself and len(arguments) > 1:
        keywords[arguments[1]] = ast.Constant(unit.name)
    classes = [unit, *(each[2] for each in bases)]
    for part in nodes_in(method):
        held = _held(part.value, new_names) if isinstance(part, ast.Assign) else None
        if isinstance(part, ast.Assign) and held is not None:
            for target in part.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, (ast.Name, ast.Attribute)):
                    yield _Entry(target.value, True, _own(target.slice, new_names, keywords, classes), held)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            of = part.func.value
            given = next((held_name for x in part.args if (held_name := _held(x, new_names)) is not None), None)
            if not isinstance(of, (ast.Name, ast.Attribute)):
                continue
            if part.func.attr == "update" and part.args and isinstance(part.args[0], ast.Dict):
                for key, value in zip(part.args[0].keys, part.args[0].values, strict=True):
                    if key is not None and (held := _held(value, new_names)) is not None:
                        yield _Entry(of, True, _own(key, new_names, keywords, classes), held)
            elif given is not None and part.func.attr in _ADDS:
                yield _Entry(of, False, None, given)
            elif given is not None and part.func.attr == "setdefault":
                yield _Entry(of, True, _own(part.args[0], new_names, keywords, classes), given)


def _held(value: ast.expr, new_names: set[str]) -> ast.Name | None:
    """Return where an expression speaks of a class that whoever takes the value may call; None where it does not.

    `cls`, `(cls, 1)`, `partial(cls, 2)`.
    """
    if isinstance(value, (ast.Tuple, ast.List)):
        return next((held for each in value.elts if (held := _held(each, new_names)) is not None), None)
    if isinstance(value, ast.Call) and last_name(value.func) in PARTIAL and value.args:
        return _held(value.args[0], new_names)
    return value if isinstance(value, ast.Name) and value.id in new_names else None


def _named_new(method: ast.FunctionDef) -> set[str]:
    """Return what a metaclass calls the class that it makes: `cls = super().__new__(mcs, name, bases, namespace)`."""
    stores = (part for part in nodes_in(method) if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call))
    creations = (part for part in stores if last_name(part.value.func) == "__new__")  # type: ignore[attr-defined]
    return {last_name(target) for part in creations for target in part.targets}


def _own(
    value: ast.expr, new_names: set[str], keywords: dict[str, ast.expr], classes: list[ast.ClassDef]
) -> str | None:
    """Return the text that an expression is for one class: `cls.__name__.lower()`, `cls.kind`; None for no text."""
    if isinstance(value, ast.Name) and value.id in keywords:
        return string_value(keywords[value.id])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
        if value.func.attr in _CHANGES:
            inner = _own(value.func.value, new_names, keywords, classes)
            return None if inner is None else _CHANGES[value.func.attr](inner)
        value = value.func
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name) or value.value.id not in new_names:
        return string_value(value)
    if value.attr in ("__name__", "__qualname__"):
        return classes[0].name
    for owner in classes:
        for node in owner.body:
            if isinstance(node, ast.Assign) and any(last_name(target) == value.attr for target in node.targets):
                return string_value(node.value)
            if isinstance(node, ast.AnnAssign) and last_name(node.target) == value.attr and node.value is not None:
                return string_value(node.value)
            if isinstance(node, ast.FunctionDef) and node.name == value.attr:
                returned = [each.value for each in nodes_in(node) if isinstance(each, ast.Return)]
                return string_value(returned[0]) if len(returned) == 1 and returned[0] is not None else None
    return None


def _chosen(file: PythonFile, classes: ast.expr, unit: ast.ClassDef) -> _Choice | None:
    """Return how one of some classes is taken where they are gone through; None where they are not."""
    loop = file.parents.get(classes)
    if isinstance(loop, (ast.For, ast.comprehension)) and loop.iter is classes and isinstance(loop.target, ast.Name):
        loop_names = {loop.target.id}
    else:
        return None
    if isinstance(loop, ast.For):
        first = loop.body[0] if loop.body else None
        tests = [first.test] if isinstance(first, ast.If) else []
    else:
        tests = loop.ifs
        around_it = file.parents.get(loop)
        if isinstance(around_it, ast.DictComp):
            taken = file.parents.get(around_it)
            asked = taken.slice if isinstance(taken, ast.Subscript) else None
            return _Choice(classes, asked, _own(around_it.key, loop_names, {}, [unit]), False)
    if not tests:
        around_it = loop if isinstance(loop, ast.For) else file.parents.get(loop)
        calls = (part for part in nodes_in(around_it or loop) if isinstance(part, ast.Call))
        return _Choice(classes, None, None, any(last_name(part.func) in loop_names for part in calls))
    for test in tests:
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and len(test.ops) == 1 else []
        if sides and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            for own, asked in (sides, sides[::-1]):
                text = _own(own, loop_names, {}, [unit]) if not isinstance(own, ast.Constant) else None
                if text is not None:
                    return _Choice(classes, asked, text, False)
    return _Choice(classes, None, None, False)
