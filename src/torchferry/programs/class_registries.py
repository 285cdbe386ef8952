"""Where a class is taken from what keeps all classes that are derived from one: `__subclasses__()`, or a registry.

A registry is filled where a class is defined: by `__init_subclass__` of a base, or by its metaclass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.decorators import lookup
from torchferry.programs.lineage import Lineage, place_of
from torchferry.programs.model import Need
from torchferry.programs.sources import Sources
from torchferry.programs.tables import is_equal
from torchferry.programs.use_kinds import Place, Use
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
    """

    container: ast.Name | ast.Attribute
    is_keyed: bool
    key: str | None


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
            for entry in _kept(base, unit, [*bases[:number], base], by_itself=False):
                yield from self._uses_of_entry(base, entry, unit)
            yield from self._uses_of_list(base[2], unit, bases[:number])
        for base in ((file, names, unit), *bases):
            for made_by in filter(None, map(self._lineage.at, self._lineage.metaclass(place_of(base[0], base[2])))):
                for entry in _kept(made_by, unit, bases, by_itself=True):
                    yield from self._uses_of_entry(made_by, entry, unit)

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
        yield Use(place, Need.CHOSEN, f"{unit.name} ({place.path}:{getattr(place.node, 'lineno', 0)})")
    else:
        written = string_value(choice.asked)
        if written is None or written == choice.own:
            yield Use(place, test=None if written is not None else is_equal(choice.asked, choice.own))


def _kept(keeper: _Class, unit: ast.ClassDef, bases: list[_Class], *, by_itself: bool) -> Iterator[_Entry]:
    """Yield where `__init_subclass__` of a base, or what a metaclass runs, keeps a class."""
    _, _, owner = keeper
    methods = ("__new__", "__init__") if by_itself else ("__init_subclass__",)
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef) or method.name not in methods:
            continue
        arguments = [each.arg for each in method.args.args]
        made = set(arguments[:1]) if method.name != "__new__" else _named_new(method)
        given = {keyword.arg: keyword.value for keyword in unit.keywords if keyword.arg is not None}
        said: dict[str, ast.expr] = dict(given)
        if by_itself and len(arguments) > 1:
            said[arguments[1]] = ast.Constant(unit.name)
        classes = [unit, *(each[2] for each in bases)]
        for part in nodes_in(method):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name) and part.value.id in made:
                for target in part.targets:
                    if isinstance(target, ast.Subscript) and isinstance(target.value, (ast.Name, ast.Attribute)):
                        yield _Entry(target.value, True, _own(target.slice, made, said, classes))
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                of, is_given = part.func.value, any(isinstance(x, ast.Name) and x.id in made for x in part.args)
                if is_given and isinstance(of, (ast.Name, ast.Attribute)):
                    if part.func.attr in _ADDS:
                        yield _Entry(of, False, None)
                    elif part.func.attr == "setdefault":
                        yield _Entry(of, True, _own(part.args[0], made, said, classes))


def _named_new(method: ast.FunctionDef) -> set[str]:
    """Return what a metaclass calls the class that it makes: `cls = super().__new__(mcs, name, bases, namespace)`."""
    stores = (part for part in nodes_in(method) if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call))
    made = (part for part in stores if last_name(part.value.func) == "__new__")  # type: ignore[attr-defined]
    return {last_name(target) for part in made for target in part.targets}


def _own(value: ast.expr, made: set[str], said: dict[str, ast.expr], classes: list[ast.ClassDef]) -> str | None:
    """Return the text that an expression is for one class: `cls.__name__.lower()`, `cls.kind`; None for no text."""
    if isinstance(value, ast.Name) and value.id in said:
        return string_value(said[value.id])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
        if value.func.attr in _CHANGES:
            inner = _own(value.func.value, made, said, classes)
            return None if inner is None else _CHANGES[value.func.attr](inner)
        value = value.func
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name) or value.value.id not in made:
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
        made = {loop.target.id}
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
            return _Choice(classes, asked, _own(around_it.key, made, {}, [unit]), False)
    if not tests:
        around_it = loop if isinstance(loop, ast.For) else file.parents.get(loop)
        calls = (part for part in nodes_in(around_it or loop) if isinstance(part, ast.Call))
        return _Choice(classes, None, None, any(last_name(part.func) in made for part in calls))
    for test in tests:
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and len(test.ops) == 1 else []
        if sides and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            for own, asked in (sides, sides[::-1]):
                text = _own(own, made, {}, [unit]) if not isinstance(own, ast.Constant) else None
                if text is not None:
                    return _Choice(classes, asked, text, False)
    return _Choice(classes, None, None, False)
