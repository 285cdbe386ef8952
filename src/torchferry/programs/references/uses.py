"""Where a function or class of a project is used: by its name, as a method, or chosen by a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Reachability
from torchferry.programs.options.switches import commands_of_class, subcommand
from torchferry.programs.references.callable_fields import asked_as_field
from torchferry.programs.references.calls import calls_of_own_kind
from torchferry.programs.references.class_hierarchy import Askers, ClassPlace, Lineage, SaidClass, classes_of, place_of
from torchferry.programs.references.class_registries import ClassRegistries
from torchferry.programs.references.decorator_calls import (
    REGISTERS,
    calls_at_once,
    dispatching,
    is_kept_by_package,
    is_part_of_field,
    operators_of,
)
from torchferry.programs.references.settings_uses import SettingsUses, string_uses
from torchferry.programs.syntax import dynamic_lookups
from torchferry.programs.syntax.decorators import registrations
from torchferry.programs.syntax.dispatch_tables import (
    ASKING,
    MethodRequest,
    asked_by_name,
    command_of,
    is_equal,
    key_of,
    lists_keys,
    lookups,
    method_requests,
    table_of,
)
from torchferry.programs.syntax.method_names import MethodName, gives_a_name, is_implicit, names_of_method, uses_in_body
from torchferry.programs.syntax.partial_texts import written_ends
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.programs.syntax.use_syntax import (
    COMMANDS,
    RUN_WHEN_SERVED,
    Place,
    Use,
    applied_as,
    derived_class,
    is_inside,
    is_kept_by_object,
    is_registering,
    is_same_place,
    is_use,
    may_never_run,
    runs_tests,
)
from torchferry.source.exports import absolute_module
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.python import PythonFile
from torchferry.source.roles import is_run_when_started

MOST_PLACES = 1_000
"""Places that a method may be called from, by its name, above which nobody looks at each: `to`, `load`."""


class LookupFacts(NamedTuple):
    """What a file says that many questions ask for, of more files than can be kept parsed.

    Attributes:
        classes: Its classes.
        looked_in: The names of the modules that it looks names up in; an empty one for itself.
        requests: What it asks of objects by names.
    """

    classes: tuple[SaidClass, ...] = ()
    looked_in: frozenset[str] = frozenset()
    requests: tuple[MethodRequest, ...] = ()


def _commands(of: ast.ClassDef | ast.Module) -> tuple[str, ...]:
    """Return what `fire.Fire` makes commands of: one must be said."""
    return tuple(part.name for part in of.body if isinstance(part, FunctionNode) and part.name[:1] != "_")


def lookup_facts(file: PythonFile, names: Names) -> LookupFacts:
    """Return what a file says that many questions ask for."""
    is_looking = any(word in file.source.text for word in dynamic_lookups.WORDS)
    looked_in = (each.module for each in dynamic_lookups.namespace_lookups(file, names)) if is_looking else ()
    return LookupFacts(classes_of(file, names), frozenset(looked_in), method_requests(file, names))


class Uses:
    """Finds where functions and classes are used, in all files of a project.

    Args:
        sources: The project's files.
        modules: Its imports.
        facts: The facts of files from which they were extracted already, by the files.
    """

    def __init__(self, sources: Sources, modules: Modules, facts: Mapping[str, LookupFacts] | None = None) -> None:
        self.sources = sources
        self.modules = modules
        self.paths = sorted(sources.project.paths | sources.notebooks)
        self.reached: frozenset[str] | None = None
        """The files that any program reaches, where they are known: what others use leads nowhere."""
        self.object_calls: dict[ast.expr, list[Place] | None] = {}
        """Where the objects are called that calls make, by these; None where nobody knows."""
        self._renamed: WeakKeyDictionary[PythonFile, tuple[dict[str, dict[str, None]], bool]] = WeakKeyDictionary()
        self._mentions: dict[tuple[str, int, int], list[Use]] = {}
        self._listed: dict[tuple[str, str], bool] = {}
        self._everywhere: dict[str, bool] = {}
        self._looking: dict[tuple[str, str], frozenset[str]] = {}
        self._namespaces: dict[str, frozenset[str]] = {}
        self._name_givers: dict[str, dict[str, list[str]]] = {}
        self._making: dict[ClassPlace, tuple[str, ...]] = {}
        self._said: dict[str, LookupFacts] = dict(facts or {})
        self.lineage = Lineage(sources, modules, lambda path: self._said_in(path).classes)
        self._registries = ClassRegistries(sources, self.lineage, self.of_binding)
        self.settings = SettingsUses(sources, modules, self._counts, self._passes_on)

    def of(self, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef) -> list[Use]:
        """Return where a function or class is spoken of, in any file of the project."""
        mentions = self._mentions.get((file.path, unit.lineno, unit.col_offset))
        return [*self.each(file, names, unit)] if mentions is None else mentions

    def each(self, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef) -> Iterator[Use]:
        """Yield the same, each while its file is at hand: further questions to it do not have it parsed again."""
        key = (file.path, unit.lineno, unit.col_offset)
        if key in self._mentions:
            yield from self._mentions[key]
            return
        owner = file.parents.get(unit)
        if isinstance(owner, ast.ClassDef) and not isinstance(unit, ast.ClassDef):
            uses = self._uses_of_method(file, names, owner, unit)
        else:
            uses = self._uses_of_name(file, names, unit, set())
        collected: list[Use] = []
        for use in uses:
            collected.append(use)
            yield use
        self._mentions[key] = collected

    def is_called_everywhere(self, file: PythonFile, unit: FunctionNode) -> bool:
        """Whether more places than anybody looks at may call a method of a class, by its name."""
        name = unit.name
        if not isinstance(file.parents.get(unit), ast.ClassDef) or name.startswith("__") or is_implicit(name):
            return False
        if name not in self._everywhere:
            texts = [self.sources.text(path) for path in self.sources.words.as_attribute(name) if self._counts(path)]
            is_everywhere = sum(text.count(f".{name}") for text in texts) > MOST_PLACES
            if is_everywhere:  # longer names that begin with it are counted, too
                pattern = re.compile(rf"\.{re.escape(name)}\b")
                is_everywhere = sum(len(pattern.findall(text)) for text in texts) > MOST_PLACES
            self._everywhere[name] = is_everywhere
        return self._everywhere[name]

    def _uses_of_method(self, file: PythonFile, names: Names, owner: ast.ClassDef, unit: FunctionNode) -> Iterator[Use]:
        called = False
        for known_as in names_of_method(file, owner, unit):
            for use in self._uses_under(file, names, owner, unit, known_as):
                called = True
                yield use
            for spoken in uses_in_body(file, owner, known_as.name) if known_as.table is None else ():
                if not gives_a_name(file.statement(spoken)):
                    called = True
                    yield Use(Place(file.path, spoken))
        name = unit.name
        by_decorators = [*self._uses_unnamed(file, names, unit)]
        if is_part_of_field(names, owner, unit):
            by_decorators += self._uses_of_name(file, names, owner, set())
        by_decorators += self.settings.named(file, owner.name, name)
        called = called or bool(by_decorators)
        yield from by_decorators
        for path in self.sources.words.holding("Fire") if not name.startswith("_") else ():
            loaded = self.sources.file(path)
            for call in commands_of_class(*loaded, owner.name) if loaded is not None else ():
                called = True
                yield Use(Place(path, call), Reachability.OPTION, option=name, others=_commands(owner))
        if called or is_implicit(name):
            return
        if name.startswith("__") or self.lineage.has_foreign_base(names, owner):
            yield from self._uses_of_name(file, names, owner, set())
            return
        askers = self.lineage.askers(file, owner, name)
        for heirs, reachability in ((askers.foreign, Reachability.ALWAYS), (askers.hidden, Reachability.CHOSEN)):
            for heir in filter(None, map(self.lineage.at, heirs)):
                choice = f"{name}() ({file.path}:{unit.lineno})" if reachability is Reachability.CHOSEN else ""
                for use in self.of(*heir):
                    yield use._replace(reachability=max(use.reachability, reachability), choice=use.choice or choice)

    def _uses_under(
        self, file: PythonFile, names: Names, owner: ast.ClassDef, unit: FunctionNode, known_as: MethodName
    ) -> Iterator[Use]:
        """Yield where objects are asked for a method under one of its names."""
        tests = tuple((file.path, test, wanted) for test, wanted in known_as.tests)
        if known_as.table is not None:
            asking = [*lookups(file, known_as.table)]
            yield from (Use(Place(file.path, each), test=test, also=tests) for each, test in asking)
            if asking:
                return
        name = known_as.name
        if is_implicit(name):
            uses = self._uses_of_name(file, names, owner, set())
            yield from (use._replace(also=(*use.also, *tests)) for use in uses)
        else:
            reachability = Reachability.ALWAYS if known_as.table is None else Reachability.CHOSEN
            choice = "" if known_as.table is None else f"{name} ({file.path}:{unit.lineno})"
            for place, makers in self._attributes_of(file, owner, unit, known_as):
                yield Use(place, reachability, choice, makers=makers, also=tests)
        for path in self._asking_by_name(file, owner, known_as):
            loaded = self.sources.file(path)
            for asked in asked_by_name(*loaded, owner.name, known_as) if loaded is not None else ():
                yield Use(Place(path, asked.call), test=asked.test, also=tests)

    def _attributes_of(
        self, file: PythonFile, owner: ast.ClassDef, unit: FunctionNode, known_as: MethodName
    ) -> Iterator[tuple[Place, tuple[str, ...]]]:
        """Yield where an attribute may be a method of a class, with the files of which one must make its objects."""
        name, called = known_as.name, False
        askers, related = self.lineage.askers(file, owner, name), self.lineage.related(owner)
        spoken = self.sources.words.as_attribute(name)
        # first the files that count: whether others call it is asked only where they do not
        for path in sorted(spoken, key=lambda path: (not self._counts(path), path)):
            if called and not self._counts(path):
                break
            if not (self.sources.is_parsed(path) or self._may_ask(path, name, related | askers.names)):
                continue
            loaded = self.sources.file(path)
            if loaded is None:
                continue
            other, other_names = loaded
            for attribute in other.attributes.get(name, ()):
                if not known_as.is_used_by(other, attribute) or is_inside(other, attribute, file, unit):
                    continue
                if self._may_be_of(other, other_names, attribute, owner.name, related):
                    # many objects are given attributes of one name: one of the class must be there
                    makers = () if known_as.access is ast.Load else self._made_in(place_of(file, owner))
                    if makers or known_as.access is ast.Load:
                        called = True
                        yield Place(path, attribute), makers
                elif makers := self._made_for(askers, other, attribute):
                    called = True
                    yield Place(path, attribute), makers

    def _made_for(self, askers: Askers, file: PythonFile, attribute: ast.Attribute) -> tuple[str, ...]:
        """Return the files that make objects whose class or bases ask themselves for a method at a place."""
        value = attribute.value
        if isinstance(value, ast.Name) and value.id in ("self", "cls"):
            asking = askers.by_self
        elif isinstance(value, ast.Call) and last_name(value.func) == "super":
            asking = askers.by_super
        else:
            return ()
        around_it = file.enclosing_class(attribute)
        heirs = asking.get(place_of(file, around_it), ()) if around_it is not None else ()
        return tuple(dict.fromkeys(path for heir in heirs for path in self._made_in(heir)))

    def _made_in(self, owner: ClassPlace) -> tuple[str, ...]:
        """Return the files that speak of a class, and so may make its objects."""
        if owner not in self._making:
            loaded = self.lineage.at(owner)
            uses = self.of(*loaded) if loaded is not None else ()
            self._making[owner] = tuple(dict.fromkeys(use.place.path for use in uses))
        return self._making[owner]

    def _asking_by_name(self, file: PythonFile, owner: ast.ClassDef, method: MethodName) -> list[str]:
        """Return the files that may ask an object of a class for a method by its name: `getattr(net, "fast")()`."""
        words = self.sources.words
        naming = {file.path, *words.holding(owner.name)}
        naming.update(path for name in self.lineage.related(owner) for path in words.holding(name))
        asking = sorted(words.holding_any(ASKING))
        return [
            path
            for path in asking
            if path in naming or words.says(path, method.name)
            if any(each.may_be(owner.name, method) for each in self._said_in(path).requests)
        ]

    def _said_in(self, path: str) -> LookupFacts:
        """Return what a file says, without its syntax."""
        if path not in self._said:
            loaded = self.sources.file(path)
            self._said[path] = lookup_facts(*loaded) if loaded is not None else LookupFacts()
        return self._said[path]

    def _may_ask(self, path: str, name: str, related: set[str]) -> bool:
        """Whether a file may use a method of one of some related classes, judged by its text."""
        words = self.sources.words
        return words.asks_others(path, name) or not related.isdisjoint(words.classes_in(path))

    def _counts(self, path: str) -> bool:
        return self.reached is None or path in self.reached

    def _may_use(self, path: str, name: str, file: PythonFile) -> bool:
        """Whether a file may use the name of a function or class of another, judged by its text."""
        if path == file.path:
            return True
        words = self.sources.words
        if not self._counts(path):
            return path in words.as_base(name)  # a class derived from it may be used in files that count
        return (
            not self._givers(path).keys().isdisjoint((name, "*"))  # the quickest to ask comes first
            or path in self._looking_up(name, file.path)
            or words.holds_attribute(path, name)
            or words.says(path, name)
        )

    def _speaking_of(self, name: str, module: str) -> list[str]:
        """Return the files that may speak of a function or class of a module, in order."""
        holding, looking = self.sources.words.holding(name), self._looking_up(name, module)
        return sorted({*holding, *looking}) if looking else holding

    def _looking_up(self, name: str, module: str) -> frozenset[str]:
        """Return the files that may look a function or class of a module up by a computed name."""
        if (name, module) not in self._looking:
            self._looking[name, module] = frozenset(
                path
                for path in self.sources.words.holding_any(dynamic_lookups.WORDS)
                if any(of == module or self._passes_on(of, name, module) for of in self._looked_into(path))
            )
        return self._looking[name, module]

    def _looked_into(self, path: str) -> frozenset[str]:
        """Return the files of the project that a file looks something up in, without its syntax."""
        if path not in self._namespaces:
            of = (self.modules.find(module, path) if module else path for module in self._said_in(path).looked_in)
            self._namespaces[path] = frozenset(each for each in of if each is not None)
        return self._namespaces[path]

    def _looked_up(self, other: PythonFile, names: Names, name: str, file: PythonFile) -> Iterator[Use]:
        """Yield where another file, or the same, looks a function or class up by a text that may be its name."""
        for node, asked, module in dynamic_lookups.namespace_lookups(other, names):
            path = self.modules.find(module, other.path) if module else other.path
            if path is None or not (path == file.path or self._passes_on(path, name, file.path)):
                continue
            if isinstance(asked, ast.Constant):
                if asked.value == name:
                    yield Use(Place(other.path, node))
            elif asked is None:
                yield Use(Place(other.path, node), Reachability.CHOSEN, f"{name} ({other.path}:{node.lineno})")
            elif written_ends(other, names, asked).may_be(name):
                yield Use(Place(other.path, node), test=is_equal(asked, name))

    def _passes_on(self, path: str, name: str, origin: str) -> bool:
        """Whether a file takes a name from another one, or from one that passes it on."""
        todo, met = [path], {path}
        while todo:
            givers = self._givers(todo.pop())
            for giver in (*givers.get(name, ()), *givers.get("*", ())):
                if giver == origin:
                    return True
                if giver not in met:
                    met.add(giver)
                    todo.append(giver)
        return False

    def _givers(self, path: str) -> Mapping[str, list[str]]:
        """Return each name that a file takes from other modules, with those of the project; `*` for all of one."""
        if path not in self._name_givers:
            givers = self._name_givers[path] = {}
            for imported in self.modules.imports.get(path, ()):
                giver = self.modules.find(absolute_module(imported.module, path), path)
                for name in imported.names:
                    givers.setdefault(name, []).extend(() if giver is None else (giver,))
        return self._name_givers[path]

    def _may_be_of(
        self, file: PythonFile, names: Names, attribute: ast.Attribute, owner: str, related: set[str]
    ) -> bool:
        """Whether `x.method` may be a method of a class, where the names of those that are related to it are known."""
        value = attribute.value
        if isinstance(value, ast.Call) and last_name(value.func) == "super":
            around_it = file.enclosing_class(attribute)
            return around_it is not None and around_it.name in related
        if isinstance(value, ast.Name):
            if value.id in ("self", "cls"):
                around_it = file.enclosing_class(attribute)
                return around_it is None or around_it.name in related
            origin = names.origin(value)
            if origin is not None:  # a module, or a class or an object that was imported
                return origin.rpartition(".")[2] in related or self.lineage.may_be_object(origin, file.path, owner)
            classes = self.lineage.of_variable(file, names, value)
            if classes and not any(bases is None or owner in bases for bases in map(self.lineage.with_bases, classes)):
                return False
        if isinstance(value, (ast.Constant, ast.JoinedStr)):
            return False
        qualified = names.qualified(value)
        if qualified is None or not related.isdisjoint((*qualified.split("."), attribute.attr)):
            return True
        return self.lineage.may_be_object(qualified, file.path, owner)

    def _uses_of_name(
        self, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef, seen: set[int]
    ) -> Iterator[Use]:
        """Yield where a function or class of a file is spoken of."""
        if id(unit) in seen or len(seen) > 50:
            return
        seen.add(id(unit))
        name = unit.name
        parent = file.parents.get(unit)
        kinds = {last_name(node) for node in unit.decorator_list}
        is_alone = any(last_name(node) == "command" and not self._groups(file) for node in unit.decorator_list)
        if is_run_when_started(unit) or kinds & RUN_WHEN_SERVED:
            yield Use(Place(file.path, unit))
        elif (
            (kinds & COMMANDS and not is_alone)
            or is_kept_by_object(file, names, unit)
            or (isinstance(unit, FunctionNode) and is_kept_by_package(self.sources.project, file, names, unit))
        ):
            yield Use(Place(file.path, unit), Reachability.CHOSEN, f"{name} ({file.path}:{unit.lineno})")
        yield from self._uses_unnamed(file, names, unit)
        for _, call in calls_of_own_kind(file, name) if isinstance(unit, ast.ClassDef) else ():
            yield Use(Place(file.path, call.func))
        for call in commands_of_class(file, names, "") if parent is file.tree and "Fire(" in file.source.text else ():
            yield Use(Place(file.path, call), Reachability.OPTION, option=name, others=_commands(file.tree))
        top = parent is file.tree or not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if top:
            yield from self._uses_of_registered(file, names, unit)
            yield from self.settings.named(file, name)
            yield from self.settings.loaded_as_plugin(file, name)
        registered = any("register" in last_name(node).lower() or is_registering(node) for node in unit.decorator_list)
        paths = self._speaking_of(name, file.path) if top else [file.path]
        for path in paths:
            loaded = self.sources.file(path) if self._may_use(path, name, file) else None
            if loaded is None:
                continue
            other, other_names = loaded
            for use in self._name_uses(file, unit, other, other_names):
                assert use.node is not None
                key = key_of(other, use.node)
                derived = derived_class(other, use.node)
                command = command_of(other, use.node)
                if command is not None:
                    call, option, others = command
                    yield Use(Place(path, call), Reachability.OPTION, option=option, others=others)
                    continue
                if key is not None:
                    asking = [*lookups(other, use.node)]
                    yield from (Use(Place(path, lookup), test=test) for lookup, test in asking)
                    if not asking and not self._is_only_listed(other, use.node):
                        yield Use(use, Reachability.CHOSEN, f"{key} ({path}:{getattr(use.node, 'lineno', 0)})")
                    continue
                as_field = asked_as_field(self.sources, other, other_names, use.node)
                if as_field:
                    yield from map(Use, as_field)
                    continue
                applied = applied_as(other, use.node)
                if derived is not None:
                    yield from self._uses_of_name(other, other_names, derived, seen)
                elif applied is not None:
                    yield from self.of_binding(other, applied)
                elif may_never_run(other, other_names, use.node, unit):
                    yield Use(use, Reachability.CHOSEN, f"{name} ({path}:{getattr(use.node, 'lineno', 0)})")
                else:
                    yield Use(use, *subcommand(other, other_names, use.node))
            if self.sources.words.says(path, name):
                yield from string_uses(other, name, registered, file.path)
            yield from self._looked_up(other, other_names, name, file) if top else ()

    def _uses_unnamed(self, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef) -> Iterator[Use]:
        """Yield where a function is called by a decorator or a test runner, or a class taken from what keeps it."""
        project = self.sources.project
        for tests in calls_at_once(project, file, names, unit):
            yield Use(Place(file.path, unit), also=tests)
        yield from (Use(Place(file.path, call)) for call in runs_tests(file, names, unit))
        if isinstance(unit, ast.ClassDef):
            yield from self._registries.uses(file, names, unit)
            return
        for each in dispatching(project, file, names, unit):
            reachability = Reachability.ALWAYS if each.is_sure else Reachability.CHOSEN
            choice = "" if each.is_sure else f"{unit.name} ({file.path}:{unit.lineno})"
            for use in self.of(*each.defined):
                loaded = self.sources.file(use.place.path)
                spoken = loaded[0].parents.get(use.place.node) if loaded and use.place.node is not None else None
                if not isinstance(spoken, ast.Attribute) or spoken.attr not in REGISTERS:
                    yield use._replace(reachability=max(use.reachability, reachability), choice=use.choice or choice)
        for operator in operators_of(names, unit):
            for path in self.sources.words.as_attribute(operator.name):
                loaded = self.sources.file(path)
                for attribute in loaded[0].attributes.get(operator.name, ()) if loaded is not None else ():
                    qualified = loaded[1].qualified(attribute) or "" if loaded is not None else ""
                    namespace = operator.namespace or qualified.split(".")[-2:][0]
                    if qualified == f"torch.ops.{namespace}.{operator.name}":
                        yield Use(Place(path, attribute))

    def _uses_of_registered(self, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef) -> Iterator[Use]:
        """Yield where what the project's own decorators keep a function or class in is asked for it."""
        for registration in registrations(self.sources.project, file, names, unit):
            yield from self._registries.of_registration(registration, unit, file.path)

    def _is_only_listed(self, file: PythonFile, value: ast.AST) -> bool:
        """Whether the table of a module that holds a value is asked for nothing but its keys."""
        statement = file.parents.get(table_of(file, value) or value)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if (
            len(targets) != 1
            or not isinstance(targets[0], ast.Name)
            or file.parents.get(statement or value) is not file.tree
        ):
            return False
        name = targets[0].id
        key = (file.path, name)
        if key not in self._listed:
            self._listed[key] = True
            for path in self.sources.words.holding(name):
                loaded = self.sources.file(path)
                uses = (
                    (*loaded[0].names.get(name, ()), *loaded[0].attributes.get(name, ())) if loaded is not None else ()
                )
                if loaded is None or not all(each is targets[0] or lists_keys(loaded[0], each) for each in uses):
                    self._listed[key] = False
                    break
        return self._listed[key]

    def of_binding(self, file: PythonFile, binding: ast.Name) -> Iterator[Use]:
        """Yield where a name that a file binds is used, in any file."""
        for path in self.sources.words.holding(binding.id):
            loaded = self.sources.file(path)
            if loaded is not None:
                yield from map(Use, self._name_uses(file, binding, *loaded))

    def _groups(self, file: PythonFile) -> bool:
        return "add_typer" in file.source.text or "@click.group" in file.source.text or "Typer(" in file.source.text

    def _name_uses(
        self, file: PythonFile, unit: FunctionNode | ast.ClassDef | ast.Name, other: PythonFile, names: Names
    ) -> Iterator[Place]:
        """Yield where another file, or the same, uses the name of a function or class, or one that is bound to it."""
        name = unit.id if isinstance(unit, ast.Name) else unit.name
        renamed, stars = self._imported_names(other)
        for identifier in (name, *renamed.get(name, ())):
            for use in other.names.get(identifier, ()):
                if not isinstance(use.ctx, ast.Load) or is_inside(other, use, file, unit) or not is_use(other, use):
                    continue
                bindings = names.bindings(use)
                if other.path == file.path:
                    if any(is_same_place(binding, unit) for binding in bindings):
                        yield Place(other.path, use)
                elif not bindings and stars:
                    yield Place(other.path, use)
                for binding in bindings:
                    if isinstance(binding, ast.alias) and self._comes_from(other, names, binding, file, name):
                        statement = other.statement(binding)
                        inner = statement.col_offset and other.parents.get(statement) is not other.tree
                        yield Place(other.path, use, statement if inner else None)
        for attribute in other.attributes.get(name, ()):
            if not isinstance(attribute.ctx, ast.Load) or not is_use(other, attribute):
                continue
            module = names.qualified(attribute.value)
            path = self.modules.find(module, other.path) if module is not None else None
            if path is not None and (path == file.path or path.endswith("__init__.py")):
                yield Place(other.path, attribute)

    def _imported_names(self, file: PythonFile) -> tuple[dict[str, dict[str, None]], bool]:
        """Return the names that a file imports by others, with these, and whether it imports all of some module."""
        if file not in self._renamed:
            aliases = [alias for statement in file.imports for alias in statement.names]
            renamed: dict[str, dict[str, None]] = {}
            for alias in aliases:
                if alias.asname is not None and alias.asname != alias.name:
                    renamed.setdefault(alias.name, {})[alias.asname] = None
            self._renamed[file] = (renamed, any(alias.name == "*" for alias in aliases))
        return self._renamed[file]

    def _comes_from(self, other: PythonFile, names: Names, alias: ast.alias, file: PythonFile, name: str) -> bool:
        """Whether an import of a name may mean that of a file: from the file itself, or from one that passes it on."""
        statement = other.parents.get(alias)
        if not isinstance(statement, ast.ImportFrom) or alias.name != name:
            return False
        path = self.modules.find(names.imported_module(statement), other.path)
        if path is None or path == file.path:
            return path is not None
        defined = f"def {name}(" in (text := self.sources.text(path)) or f"class {name}" in text
        passes_on = name in text or "import *" in text or any(self.modules.lazy.modules(path, [name]))
        return path != other.path and not defined and passes_on
