"""What the classes of a project are derived from, and in which of them an object looks for a method."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources
from torchferry.source.exports import absolute_module
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_MOST_BASES = 50
"""Classes that are followed from one to its bases."""

_MOST_PASSING_ON = 20
"""Modules that pass a name on, one after the other."""

_OPEN_VALUES = (ast.Attribute, ast.Await, ast.BoolOp, ast.IfExp, ast.Name, ast.NamedExpr, ast.Subscript)
"""Expressions that may be any object."""

_MOST_HEIRS = 200
"""Classes that are followed from one to those derived from it."""

_QUIET_BASES = ("torch.nn.", "torch.utils.data.", "torch.autograd.", "torch.optim.")
"""Classes of torch that call no method of those derived from them but the implicit ones."""

_ASKS_NOTHING = frozenset({"object", "ABC", "Protocol", "Generic", "NamedTuple", "TypedDict", "Enum", "Exception"})
"""Classes of Python that call no method which a class derived from them defines under its own name."""

ClassPlace = tuple[str, int, int]
"""A class: its file and place."""


class SaidClass(NamedTuple):
    """What a file says of one of its classes.

    Attributes:
        name: Its name.
        bases: The last names of its bases.
        origins: What each of them represents by the imports of the file; empty where these do not say it.
        at: The line and the column where it begins.
        defines: The names that its body gives it.
        metaclass: The last name of its metaclass, and what that represents by the imports.
    """

    name: str
    bases: tuple[str, ...]
    origins: tuple[str, ...] = ()
    at: tuple[int, int] = (0, 0)
    defines: frozenset[str] = frozenset()
    metaclass: tuple[str, str] | None = None


class _Kin(NamedTuple):
    """A class as its objects look names up in it; without a place one of a package, which may call methods."""

    place: ClassPlace | None
    name: str = ""
    defines: frozenset[str] = frozenset()


class Askers(NamedTuple):
    """Which classes come by a method where they ask an object for its name, each with those of which the object is.

    Attributes:
        by_self: Where the object itself is asked: `self.method`.
        by_super: Where it is asked for what comes behind the class: `super().method`.
        foreign: The classes with a base that is not the project's and may call the method.
        hidden: Those of them whose base may have a method of the name, which comes first.
        names: The names of the classes that ask.
    """

    by_self: dict[ClassPlace, list[ClassPlace]]
    by_super: dict[ClassPlace, list[ClassPlace]]
    foreign: list[ClassPlace]
    hidden: list[ClassPlace]
    names: set[str]


class Lineage:
    """Knows the classes of a project by their bases.

    Args:
        sources: The project's files.
        modules: Its imports.
        classes_in: Returns what a file says of its classes.
    """

    def __init__(
        self,
        sources: Sources,
        modules: Modules,
        classes_in: Callable[[str], Iterable[SaidClass]],
    ) -> None:
        self.sources = sources
        self._classes_in = classes_in
        self._modules = modules
        self._own_classes: dict[str, bool] = {}
        self._meant: dict[str, str] = {}
        self._bases: dict[str, set[str] | None] = {}
        self._made: dict[tuple[str, str], set[str] | None] = {}
        self._orders: dict[ClassPlace, tuple[_Kin, ...]] = {}
        self._heirs: dict[ClassPlace, tuple[ClassPlace, ...]] = {}

    # --- classes by where they stand ---

    def at(self, place: ClassPlace) -> tuple[PythonFile, Names, ast.ClassDef] | None:
        """Return a class."""
        loaded = self.sources.file(place[0])
        owners = loaded[0].classes if loaded is not None else ()
        owner = next((each for each in owners if (each.lineno, each.col_offset) == place[1:]), None)
        return (*loaded, owner) if loaded is not None and owner is not None else None

    def askers(self, file: PythonFile, owner: ast.ClassDef, method: str) -> Askers:
        """Return which classes come by a method of a class."""
        askers = Askers({}, {}, [], [], set())
        wanted = place_of(file, owner)
        for heir in (wanted, *self._derived(wanted)):
            order = self._order(heir)
            at = next(number for number, each in enumerate(order) if each.place == wanted)
            before = [number for number, each in enumerate(order[:at]) if method in each.defines]
            for number, each in enumerate(order):
                if each.place is None:
                    continue
                if not before:
                    askers.by_self.setdefault(each.place, []).append(heir)
                if number < at and not any(number < between for between in before):
                    askers.by_super.setdefault(each.place, []).append(heir)
                askers.names.add(each.name)
            foreign = [number for number, each in enumerate(order) if each.place is None]
            if foreign and not before:
                (askers.hidden if foreign[0] < at else askers.foreign).append(heir)
        return askers

    def bases(self, place: ClassPlace) -> list[ClassPlace]:
        """Return the classes of the project that a class is derived from, and from which these are."""
        return [each.place for each in self._order(place) if each.place is not None and each.place != place]

    def metaclass(self, place: ClassPlace) -> list[ClassPlace]:
        """Return the metaclass that a class names, and its bases."""
        class_facts = self._said_of(place)
        named = class_facts.metaclass if class_facts is not None else None
        meant = self._meant_by(place[0], *named) if named is not None else None
        return [] if meant is None else [meant, *self.bases(meant)]

    def _order(self, place: ClassPlace, below: tuple[ClassPlace, ...] = ()) -> tuple[_Kin, ...]:
        """Return the classes in which an object of a class looks a name up, in the order in which it does."""
        if place in self._orders:
            return self._orders[place]
        class_facts = self._said_of(place)
        kin = [_Kin(place, class_facts.name, class_facts.defines)] if class_facts is not None else []
        for name, origin in zip(class_facts.bases, class_facts.origins, strict=True) if class_facts is not None else ():
            base = self._meant_by(place[0], name, origin)
            if base is None:
                is_own = name in _ASKS_NOTHING or origin.startswith(_QUIET_BASES) or self._is_own_class(name)
                kin += [] if is_own else [_Kin(None)]
            elif base not in (*below, place) and len(below) < _MOST_BASES:
                kin += self._order(base, (*below, place))
        last = {each.place: number for number, each in enumerate(kin)}  # a base that several share comes behind them
        order = tuple(each for number, each in enumerate(kin) if each.place is None or last[each.place] == number)
        if not below:
            self._orders[place] = order
        return order

    def _said_of(self, place: ClassPlace) -> SaidClass | None:
        return next((each for each in self._classes_in(place[0]) if each.at == place[1:]), None)

    def _meant_by(self, path: str, name: str, origin: str) -> ClassPlace | None:
        """Return the class of the project that a base of a class represents."""
        if not origin:
            return self._named(path, name)
        module, _, member = origin.rpartition(".")
        module_path = self.sources.project.module_path(module, path) if module.strip(".") else None
        todo, met = [] if module_path is None else [module_path], {module_path}
        while todo:
            path = todo.pop()
            place = self._named(path, member)
            if place is not None:
                return place
            for imported in self._modules.imports.get(path, ()):  # a module that passes it on
                if not {member, "*"}.isdisjoint(imported.names):
                    taken = self._modules.find(absolute_module(imported.module, path), path)
                    todo += [taken] if taken is not None and taken not in met else []
                    met.add(taken)
        return None

    def _named(self, path: str, name: str) -> ClassPlace | None:
        return next(((path, *each.at) for each in self._classes_in(path) if each.name == name), None)

    def _derived(self, place: ClassPlace) -> tuple[ClassPlace, ...]:
        """Return the classes that are derived from one, and from these."""
        if place not in self._heirs:
            heirs: dict[ClassPlace, None] = {}
            todo = [place]
            while todo and len(heirs) < _MOST_HEIRS:
                for each in self._derived_at_once(todo.pop()):
                    if each not in heirs and each != place:
                        heirs[each] = None
                        todo.append(each)
            self._heirs[place] = tuple(heirs)
        return self._heirs[place]

    def _derived_at_once(self, place: ClassPlace) -> Iterator[ClassPlace]:
        defined = self._said_of(place)
        name = defined.name if defined is not None else ""
        words = self.sources.words
        renamed = (path for path in words.holding(name) if f"{name} as " in self.sources.text(path)) if name else ()
        for path in sorted({*words.as_base(name), *renamed}) if name else ():
            for each in self._classes_in(path):
                for base, origin in zip(each.bases, each.origins, strict=True):
                    if name in (base, origin.rpartition(".")[2]) and self._meant_by(path, base, origin) == place:
                        yield path, *each.at
                        break

    # --- classes by their names ---

    def related(self, owner: ast.ClassDef) -> set[str]:
        """Return the names of the classes that are the class, its bases and those derived from it, by their names."""
        related = {owner.name} | {last_name(base) for base in owner.bases}
        for path in self.sources.words.as_base(owner.name):
            related.update(each.name for each in self._classes_in(path) if owner.name in each.bases)
        return related

    def of_variable(self, file: PythonFile, names: Names, variable: ast.Name) -> set[str]:
        """Return the project's classes of which a variable is an object, where each of its values is one; else none."""
        makers = set()
        for binding in names.reaching_bindings(variable):
            value = assigned_value(file, binding)
            name = self.class_meant(last_name(value.func)) if isinstance(value, ast.Call) else ""
            if not name:
                return set()
            makers.add(name)
        return makers

    def may_be_object(self, origin: str, importer: str, owner: str) -> bool:
        """Whether a name of a module is an object of a class or of one derived from it, or of nobody knows which."""
        maker = self._made_by_module(origin, importer, 0)
        return maker is None or any(bases is None or owner in bases for bases in map(self.with_bases, maker))

    def _made_by_module(self, origin: str, importer: str, depth: int) -> set[str] | None:
        """Return the project's classes of which a name of a module is an object; None where nobody knows."""
        module, _, member = origin.rpartition(".")
        path = self.sources.project.module_path(module, importer) if module.strip(".") else None
        if path is None or depth > _MOST_PASSING_ON:
            return set()
        if (path, member) not in self._made:
            self._made[path, member] = set()
            loaded = self.sources.file(path)
            self._made[path, member] = self._made_in(*loaded, member, depth) if loaded is not None else set()
        return self._made[path, member]

    def _made_in(self, file: PythonFile, names: Names, member: str, depth: int) -> set[str] | None:
        makers: set[str] = set()
        for binding in names.module_bindings(member):
            value = assigned_value(file, binding)
            origin = names.binding_origin(binding)
            if origin is not None:
                maker = self._made_by_module(origin, file.path, depth + 1)
            elif isinstance(value, ast.Call):
                maker = self._made_by_call(file, names, value)
            else:
                maker = None if isinstance(value, _OPEN_VALUES) else set()
            if maker is None:
                return None
            makers |= maker
        return makers

    def _made_by_call(self, file: PythonFile, names: Names, call: ast.Call) -> set[str] | None:
        """Return the class that a call makes an object of; none for a call of another package."""
        name = self.class_meant(last_name(call.func))
        if name:
            return {name}
        module = (names.qualified(call.func) or "").rpartition(".")[0]
        modules = {module, module.partition(".")[0]} - {"", "."}
        is_foreign = modules and all(self.sources.project.module_path(each, file.path) is None for each in modules)
        return set() if is_foreign else None

    def class_meant(self, name: str) -> str:
        """Return the project's class that a name represents, by itself or by `Name = Class`; empty where it is none."""
        if not name or self._is_own_class(name):
            return name
        if name not in self._meant:
            given = re.compile(rf"^{re.escape(name)}[ \t]*(?::[^=\n]*)?=(?!=)[ \t]*([^\n#]*)", re.MULTILINE)
            values = {
                value.strip()
                for path in self.sources.words.holding(name)
                for value in given.findall(self.sources.text(path))
            }
            alone = values.pop() if len(values) == 1 else ""
            self._meant[name] = alone if alone.isidentifier() and self._is_own_class(alone) else ""
        return self._meant[name]

    def with_bases(self, name: str) -> set[str] | None:
        """Return the name of a class with those of its bases in the project, and of theirs; None for too many."""
        if name not in self._bases:
            self._bases[name] = self._found_bases(name)
        return self._bases[name]

    def _found_bases(self, name: str) -> set[str] | None:
        bases: set[str] = set()
        todo = [name]
        while todo and len(bases) < _MOST_BASES:
            name = todo.pop()
            if name in bases:
                continue
            bases.add(name)
            for path in (
                path for path in self.sources.words.holding(name) if f"class {name}" in self.sources.text(path)
            ):
                for class_facts in self._classes_in(path):
                    if class_facts.name == name:
                        todo += class_facts.bases
        return None if todo else bases

    def has_foreign_base(self, names: Names, owner: ast.ClassDef) -> bool:
        """Whether a class has a base that is not the project's, which may call its methods."""
        return any(last_name(base) != "object" and self._is_foreign(names, base) for base in owner.bases)

    def _is_foreign(self, names: Names, base: ast.expr) -> bool:
        if (names.qualified(base) or "").startswith(_QUIET_BASES):
            return False
        name = last_name(base)
        own = any(isinstance(binding, ast.ClassDef) for binding in names.module_bindings(name))
        return not own and not self._is_own_class(name)

    def _is_own_class(self, name: str) -> bool:
        if name not in self._own_classes:
            paths = self.sources.words.beginning(name)
            self._own_classes[name] = any(f"class {name}" in self.sources.text(path) for path in paths)
        return self._own_classes[name]


def place_of(file: PythonFile, owner: ast.ClassDef) -> ClassPlace:
    """Return where a class stands."""
    return file.path, owner.lineno, owner.col_offset


def classes_of(file: PythonFile, names: Names) -> tuple[SaidClass, ...]:
    """Return what a file says of its classes."""
    return tuple(
        SaidClass(
            owner.name,
            tuple(last_name(_unsubscripted(base)) for base in owner.bases),
            tuple(names.qualified(_unsubscripted(base)) or "" for base in owner.bases),
            (owner.lineno, owner.col_offset),
            _defined(owner),
            next((_said_as(names, each.value) for each in owner.keywords if each.arg == "metaclass"), None),
        )
        for owner in file.classes
    )


def _said_as(names: Names, value: ast.expr) -> tuple[str, str]:
    return last_name(value), names.qualified(value) or ""


def _unsubscripted(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _defined(owner: ast.ClassDef) -> frozenset[str]:
    """Return the names that the body of a class gives it."""
    defined = set()
    for node in owner.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(defined)
