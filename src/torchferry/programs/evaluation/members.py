"""What an object says of one of its attributes or items: what its class, its table, its parser or its file gives it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import cast

from torchferry.core.record import NamedTuple
from torchferry.programs.evaluation.fields import Fields
from torchferry.programs.evaluation.object_kinds import (
    ABSENT,
    UNKNOWN,
    ClassObject,
    KeywordsObject,
    LayersObject,
    Member,
    ModuleObject,
    Object,
    OptionsObject,
    OtherObject,
    ParametersObject,
    ParserObject,
    SettingsObject,
    TableObject,
    WordsObject,
    body_values,
    default_of_field,
    is_record,
    keys_of,
    layers_of,
    whole_key,
)
from torchferry.programs.evaluation.objects import GivenBySettings, Objects, returned
from torchferry.programs.evaluation.option_members import WHOLE, OptionMembers, loads_settings, may_be_merged, names_in
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.options.answers import Answer, Truth
from torchferry.programs.syntax.assignments import (
    computed_members,
    is_empty,
    is_of_loop,
    item_stores,
    loops_around,
    may_fill_anything,
    merges_settings,
    one_parameter,
    stores_in,
    table_of_names,
)
from torchferry.programs.syntax.parameters import Expression, function_of
from torchferry.programs.syntax.place_context import PlaceContext, place_context
from torchferry.source.exports import dotted
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEEPEST = 24
_MOST_STORES = 40
"""Places that store under one name; where there are more, nobody can tell what an object holds."""

_KEPT_AS_IS = frozenset({"object", "ABC", "Protocol", "Generic", "NamedTuple", "Enum"})
"""Bases that give an object no attributes that a program reads."""

_MAKE = frozenset({"__init__", "__post_init__", "__new__", "__init_subclass__"})
"""Methods that are run where an object is made."""


class _Store(NamedTuple):
    """A place where the program gives an object an attribute or item: `x.name = value`."""

    base: Expression
    value: Expression | None
    context: PlaceContext

    @property
    def site(self) -> _Site:
        """By what it is told from others: the file, and the expression of the object."""
        return self.base.file.path, self.base.node


_Site = tuple[str, ast.expr]


class Members:
    """Looks up attributes and items, for one program; `objects` tells what expressions are."""

    def __init__(self, facts: ProgramFacts, objects: Objects) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._objects = objects
        self._fields = Fields(facts, objects, self)
        self._options = OptionMembers(facts, objects, self)
        objects.member = self.of
        self._stores: dict[str, list[_Store] | None] = {}
        self._keys: dict[_Site, frozenset[object]] = {}
        """In what objects places store, by the keys of these; none while that is searched."""
        self._under_way: set[_Site] = set()
        self._begins: dict[object, set[str]] | None = None
        self._merges = False
        facts.answers("stores", self._places_of_stores)
        facts.answers("set by name", self._sets_by_name, is_kept=False)
        self._open: set[tuple[object, str]] = set()
        self.answer: Callable[[Expression, int], Answer] = lambda where, depth: Answer(Truth.UNKNOWN)
        """Returns the known facts about a condition."""
        self.by_settings: GivenBySettings = lambda file, of, name: []
        """Returns what settings give to a parameter."""

    def of(self, of: Object, name: str, depth: int = 0) -> Member:
        """Return an attribute or item of an object."""
        key = (of.key, name)
        if key in self._open:
            self._facts.give_up(is_met=True)
            return UNKNOWN
        if not self._facts.goes_on(depth, _DEEPEST):
            return UNKNOWN
        self._open.add(key)
        try:
            whole = whole_key(of)
            if whole is None:
                return self._looked_up(of, name, depth)
            return self._facts.once(
                ("member", whole, name), lambda: self._looked_up(of, name, depth), depth, by_asker=True
            )
        finally:
            self._open.discard(key)

    def _looked_up(self, of: Object, name: str, depth: int) -> Member:
        return self._with_stores(of, name, self._own(of, name, depth + 1), depth + 1)

    def _own(self, of: Object, name: str, depth: int) -> Member:
        """Return what an object is made with."""
        if isinstance(of, ClassObject):
            return self._of_class(of, name, depth)
        if isinstance(of, ModuleObject):
            return self._of_module(of, name, depth)
        if isinstance(of, TableObject):
            return self._of_table(of.where, name, depth)
        if isinstance(of, OptionsObject):
            return self._options.of_options(of, name, depth)
        if isinstance(of, SettingsObject):
            return self._options.of_settings(of, name)
        if isinstance(of, LayersObject):
            return self._of_layers(of, name, depth)
        if isinstance(of, KeywordsObject):
            return self._of_keywords(of, name, depth)
        if isinstance(of, ParametersObject):
            return self._of_parameters(of, name)
        if isinstance(of, WordsObject):
            option = self._facts.option_value(".".join((*of.keys, name)))
            return ABSENT if option is None else Member(value=option)
        return ABSENT if isinstance(of, OtherObject) else UNKNOWN

    def _of_layers(self, of: LayersObject, name: str, depth: int) -> Member:
        """Return what several objects in one have; of tables that are put into one another, all that they have."""
        below: list[Object] = []
        for layer in reversed(of.layers):
            member = self.of(layer, name, depth)
            if isinstance(layer, WordsObject) and not member.is_there:
                below.append(WordsObject((*layer.keys, name)))
                continue
            if not member.is_there:
                continue
            if not of.is_deep or not member.objects:
                layers = [each for each in below if not isinstance(each, WordsObject)]
                return Member(objects=(LayersObject(tuple(reversed(layers)), True),)) if layers else member
            below += member.objects[:1] if len(member.objects) == 1 else ()
        if all(isinstance(each, WordsObject) for each in below):
            return ABSENT
        return Member(objects=(LayersObject(tuple(reversed(below)), True),), is_open=True)

    # --- what is stored in an object ---

    def _with_stores(self, of: Object, name: str, own: Member, depth: int) -> Member:
        """Return what an object has, with what the program stores in it from outside."""
        if isinstance(of, (ParametersObject, ParserObject)):
            return own
        keys = keys_of(of)
        stores = self._stores_into(keys, name)
        if stores is None:
            return own._replace(is_open=True) if not isinstance(of, OptionsObject) or not own.is_there else own
        values = list(own.values)
        is_open = own.is_open or self._is_set_by_name(of, name)
        is_stored, skipped = False, ""
        for store in stores:
            if self.is_later(store.base):
                continue
            stored_in = self._keys[store.site]
            if None in stored_in and isinstance(of, (ClassObject, TableObject)):
                is_open = True
            if not stored_in.isdisjoint(keys):
                is_stored = True
                answer = self.runs(store.base, store.context, depth)
                if answer.truth is Truth.NO:
                    skipped = answer.option or skipped
                    continue
                values += [store.value] if store.value is not None else []
                is_open = is_open or answer.truth is Truth.UNKNOWN or store.value is None
        if isinstance(of, OtherObject) and not is_stored:
            return UNKNOWN
        if not is_stored:
            return own._replace(is_open=is_open) if own.is_there else own
        option = own.value.option if own.value is not None else own.option
        return Member(tuple(values), own.value, own.objects, skipped or option or name, is_open)

    def _stores_into(self, keys: tuple[object, ...], name: str) -> list[_Store] | None:
        """Return where the program stores under a name in an object; None where it stores so too often."""
        stores = self._stores.get(name)
        if stores and not self._under_way.isdisjoint(store.site for store in stores):
            self._facts.give_up(is_met=True)
            return [each for each in stores if not self._keys.get(each.site, frozenset()).isdisjoint((*keys, None))]
        places = cast("tuple[object, ...] | None", self._facts.ask("stores", (keys, name)))
        stores = self._stores[name]
        return None if places is None or stores is None else [each for each in stores if each.base.place in places]

    def may_be_set(self, of: SettingsObject, name: str) -> bool:
        """Whether the program may put something in the place of a setting, or of the tables around it.

        What it stores in an object that nobody can tell counts for the setting itself.
        """
        stores = self._stores_into((), name)
        if stores is None or stores or self._facts.ask("set by name", (keys_of(of), name, False)):
            return True
        place_context = (of._replace(keys=of.keys[:number]) for number in range(len(of.keys)))
        return any(self._is_replaced(each, of.keys[number]) for number, each in enumerate(place_context))

    def may_replace(self, of: Object, name: str) -> bool:
        """Whether the program may store something in the place of what a module or a class defines."""
        stores = self._stores_into(keys_of(of), name)
        return stores is None or any(not self.is_later(store.base) for store in stores)

    def _is_replaced(self, of: SettingsObject, name: str) -> bool:
        """Whether the program surely stores something under a name in a table of settings."""
        keys = keys_of(of)
        stores = self._stores_into(keys, name) or ()
        return any(not self._keys[store.site].isdisjoint(keys) for store in stores)

    def _places_of_stores(self, question: tuple[tuple[object, ...], str]) -> tuple[object, ...] | None:
        """Return where the program stores, or may store, under a name in an object, told by its keys."""
        keys, name = question
        stores = self._stores_of(name)
        if stores is None:
            return None
        sought = (*keys, None)
        return tuple(each.base.place for each in stores if not self._find_keys(each).isdisjoint(sought))

    def _find_keys(self, store: _Store) -> frozenset[object]:
        """Find out once in what objects a place stores."""
        site = store.site
        if site not in self._keys:
            self._keys[site] = frozenset()
            self._under_way.add(site)
            objects = self._objects_of(("stored in", site), store.base)
            self._keys[site] = frozenset({None}) if objects is None else objects
            self._under_way.discard(site)
        return self._keys[site]

    def _objects_of(self, key: Hashable, where: Expression) -> frozenset[object] | None:
        """Return what an expression may be, by the keys of the objects: the same wherever the search comes from."""
        met, self._open = self._open, set()
        try:
            objects = self._facts.shared(key, lambda: self._objects.of(where, _DEEPEST // 2))
        finally:
            self._open = met
        return None if objects is None else frozenset(part.key for each in objects for part in layers_of(each))

    def runs(self, where: Expression, context: PlaceContext, depth: int) -> Answer:
        """Return whether the program reaches a place: yes where nothing has to hold for it."""
        truth = Truth.UNKNOWN if context.attempts or context.suppressed or context.fallback else Truth.YES
        for test, wanted in context.tests:
            answer = self.answer(where.part(test), depth)
            if answer.truth is Truth.UNKNOWN:
                truth = Truth.UNKNOWN
            elif (answer.truth is Truth.YES) != wanted:
                return Answer(Truth.NO, answer.option, answer.guard)
        return Answer(truth)

    def is_later(self, stores: Expression) -> bool:
        """Whether a place that stores is run only behind the place that asks."""
        is_later = self._is_later(stores)
        self._facts.left_out(stores.file.path, is_behind=is_later)
        return is_later

    def _is_later(self, stores: Expression) -> bool:
        asks = self._facts.asks
        if asks is None or asks.file is not stores.file or stores.place[1] <= asks.place[1]:
            return False
        file = asks.file
        if file.scope(asks.node) is not file.scope(stores.node):
            return False
        return not loops_around(file, asks.node) & loops_around(file, stores.node)

    def _stores_of(self, name: str) -> list[_Store] | None:
        """Return where the program stores under a name in objects; None where that is too often."""
        if name not in self._stores:
            stores = self._stores[name] = []
            for path in self._facts.storing(name):
                stores += self._stores_in(path, name)
            if len(stores) > _MOST_STORES:
                self._stores[name] = None
        return self._stores[name]

    def _stores_in(self, path: str, name: str) -> Iterator[_Store]:
        loaded = self._sources.file(path)
        if loaded is None:
            return
        file, names = loaded
        stores: list[ast.Attribute | ast.Subscript] = [
            store for store in file.attributes.get(name, ()) if isinstance(store.ctx, ast.Store)
        ]
        stores += item_stores(file, name)
        for callee in file.names.get("setattr", ()):
            call = file.parents.get(callee)
            if isinstance(call, ast.Call) and len(call.args) == 3 and string_value(call.args[1]) == name:
                of, given = (Expression(file, names, part) for part in (call.args[0], call.args[2]))
                yield _Store(of, given, place_context(file, call))
        for store in stores:
            if isinstance(store.value, ast.Name) and store.value.id in ("self", "cls"):
                continue  # these are looked for in the class
            value = assigned_value(file, store)
            yield _Store(
                Expression(file, names, store.value),
                None if value is None else Expression(file, names, value),
                place_context(file, store),
            )

    def _is_set_by_name(self, of: Object, name: str) -> bool:
        """Whether the program may give an object attributes or items by names that it computes."""
        if not isinstance(of, (ClassObject, ModuleObject, TableObject, OptionsObject, OtherObject)):
            return False
        keys: tuple[object, ...] = keys_of(of)
        if isinstance(of, (ClassObject, OptionsObject)) or (isinstance(of, TableObject) and is_record(of)):
            keys = (*keys, None)  # what may be any object
        return bool(self._facts.ask("set by name", (keys, name, isinstance(of, (TableObject, OtherObject)))))

    def _sets_by_name(self, question: tuple[tuple[object, ...], str, bool]) -> bool:
        """Return the same for the keys of an object; what is merged into others may come to those that take it in."""
        if self._begins is None:
            self._begins = {}
            for path in self._facts.naming():
                loaded = self._sources.file(path)
                for keyed, begins in self._computed_in(*loaded) if loaded is not None else ():
                    for key in keyed:
                        self._begins.setdefault(key, set()).update(begins)
                self._merges = self._merges or (loaded is not None and merges_settings(loaded[0]))
            self._facts.answers("set by name", self._sets_by_name)  # until now it was told by what had been read
        keys, name, takes_in = question
        if takes_in and self._merges and may_be_merged(self._facts, name):
            return True  # it goes to the nodes below too, and into which one a file merges cannot always be told
        return any(f"{name}{WHOLE}".startswith(begin) for key in keys for begin in self._begins.get(key, ()))

    def _computed_in(self, file: PythonFile, names: Names) -> Iterator[tuple[frozenset[object], Iterable[str]]]:
        """Yield the objects that a file gives names which it computes, with what these begin with."""
        for base, begin in computed_members(file):
            bases = self._objects_of(("named in", base), Expression(file, names, base))
            fills_any = (bases is None or is_of_loop(names, base)) and may_fill_anything(file, base)
            if bases is None and not fills_any:
                continue
            begins = self._names_given(file, names, base) if not begin else None
            if bases is not None:
                yield bases, (begin,) if begins is None else begins
            if fills_any:
                yield frozenset({None}), (begin,) if begins is None else begins

    def _names_given(self, file: PythonFile, names: Names, base: ast.expr) -> Iterable[str] | None:
        """Return the names that come out of settings which the program reads; None where they are unknown."""
        table = table_of_names(file, base) if loads_settings(file, names) else None
        if table is None:
            return None
        if self.runs(Expression(file, names, base), place_context(file, base), 0).truth is Truth.NO:
            return ()
        return names_in(self._facts, self._objects_of(("named in", table), Expression(file, names, table)) or ())

    # --- classes ---

    def _of_class(self, of: ClassObject, name: str, depth: int) -> Member:
        option = self._fields.option_value(of, name) if of.by_options else None
        if option is not None:
            return Member(value=option)
        stored, is_made = self._stored_by_itself(of, name, depth)
        field = self._fields.given(of, name, depth)
        if field is not None:
            return field if stored is None else field._replace(is_open=True)
        given = self._fields.by_environment(of, name)
        if given is not None:
            return given
        if stored is not None and is_made:
            return stored
        declared = self._declared(of, name, depth)
        if stored is None or not declared.is_there:
            return declared if stored is None else stored
        return Member(
            (*declared.values, *stored.values),
            declared.value,
            declared.objects,
            declared.option or name,
            declared.is_open or stored.is_open or not (declared.values or declared.value),
        )

    def _declared(self, of: ClassObject, name: str, depth: int) -> Member:
        """Return what an object has by the body of its class, its methods and its bases."""
        saved = self._saved_parameters(of, depth) if name == "hparams" else None
        if saved is not None:
            return saved
        values = body_values(of.file, of.node).get(name, [])
        if values:
            value = values[0] if len(values) == 1 else None
            option = f"--{of.prefix}{name}" if of.by_options else name
            default = UNKNOWN if value is None else Member((default_of_field(of, value),), option=option)
            return self._fields.by_makers(of, name, default, depth)
        method = self._objects.method(of, name)
        if method is not None:
            inside, function = method
            if not {"property", "cached_property"} & {last_name(each) for each in function.decorator_list}:
                return UNKNOWN
            return Member(tuple(inside.part(value) for value in returned(inside.file, function)), option=name)
        bases = [*self._objects.bases(of)]
        for base in bases:
            inherited = self.of(base, name, depth)
            if inherited.is_there:
                return inherited
        own = {base.node.name for base in bases} | _KEPT_AS_IS
        is_known = of.maker is not None and all(last_name(base) in own for base in of.node.bases)
        return ABSENT if is_known and not self.is_filled(of) else UNKNOWN

    def is_filled(self, of: Object) -> bool:
        """Whether an object takes all that it is given as its attributes, by names that it computes."""
        if not isinstance(of, ClassObject):
            return False
        file = of.file
        uses = (*file.names.get("setattr", ()), *file.attributes.get("__dict__", ()))
        return any(file.enclosing_class(use) is of.node for use in uses)

    def _stored_by_itself(self, of: ClassObject, name: str, depth: int) -> tuple[Member | None, bool]:
        """Return what the methods of a class store in an object, None where nothing, and whether each object has it."""
        file = of.file
        stores = [each for own in ("self", "cls") for each in stores_in(file, own, name)
                  if file.enclosing_class(each) is of.node]  # fmt: skip
        if not stores:
            return None, False
        values = [assigned_value(file, store) for store in stores]
        units = {unit.name for store in stores if (unit := place_context(file, store).unit) is not None}
        is_made = not units.isdisjoint(_MAKE)
        if any(value is None for value in values):
            return UNKNOWN, is_made
        agreed = len(values) > 1 and one_parameter(of.names, values)
        is_plain = agreed or not any(place_context(file, store).tests for store in stores)
        stored: dict[object, Expression] = {}
        for value in values[:1] if agreed else values:
            assert value is not None
            where = self._substituted(of, Expression(file, of.names, value), depth)
            stored[where.place] = where
        filled = [is_empty(value) for value in values]
        return Member(tuple(stored.values()), option=name, is_open=not is_plain or any(filled)), is_made

    def _saved_parameters(self, of: ClassObject, depth: int) -> Member | None:
        """Return what Lightning keeps of the parameters: `self.save_hyperparameters()`; None where it keeps nothing."""
        for callee in of.file.attributes.get("save_hyperparameters", ()):
            call = of.file.parents.get(callee)
            if isinstance(call, ast.Call) and of.file.enclosing_class(callee) is of.node:
                if not call.args:
                    return Member(objects=(ParametersObject(of),))
                if len(call.args) == 1 and isinstance(call.args[0], ast.Name):
                    where = self._substituted(of, Expression(of.file, of.names, call.args[0]), depth)
                    return Member((where,), objects=self._objects.of(where, depth) or ())
        return None

    def _of_parameters(self, of: ParametersObject, name: str) -> Member:
        """Return what a call gives to a parameter of a class."""
        method = self._objects.method(of.of, "__init__")
        if method is None:
            return UNKNOWN
        inside, function = method
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if name not in {argument.arg for argument in arguments}:
            return ABSENT if function.args.kwarg is None else UNKNOWN
        node = ast.copy_location(ast.Name(name, ast.Load()), function.body[0])
        inside.file.parents[node] = function.body[0]  # it is asked what it means there
        return Member((self._substituted(of.of, inside.part(node), 0),), option=name)

    def _substituted(self, of: ClassObject, where: Expression, depth: int) -> Expression:
        """Return what a call gives to the parameter that a method stores."""
        node = where.node
        bindings = where.names.bindings(node) if isinstance(node, ast.Name) else []
        bound = bindings[0] if len(bindings) == 1 else None
        function = function_of(where.file, bound) if isinstance(bound, ast.arg) else None
        if (
            of.maker is None
            or function is None
            or function.name != "__init__"
            or not isinstance(of.maker.node, ast.Call)
        ):
            return where
        inside = Expression(where.file, where.names, node)
        return where._replace(given=self._objects.arguments(of.maker, of.maker.node, inside, function))

    # --- modules, tables, keywords ---

    def _of_module(self, of: ModuleObject, name: str, depth: int) -> Member:
        loaded = self._sources.file(of.path)
        if loaded is None:
            return UNKNOWN
        file, names = loaded
        bindings = names.module_bindings(name)
        if not bindings:
            path = self._sources.project.module_path(f".{_dotted_path(of.path)}.{name}", of.path)
            return UNKNOWN if path is None else Member(objects=(ModuleObject(path),))
        values = [assigned_value(file, binding) for binding in bindings]
        name_in_module = Expression(file, names, ast.copy_location(ast.Name(name, ast.Load()), bindings[0]))
        if all(value is not None and not isinstance(value, (ast.Tuple, ast.List)) for value in values):
            where = tuple(name_in_module.part(value) for value in values if value is not None)
            return Member(where, option=name, is_open=len(where) > 1 or is_empty(values[0]))
        meanings = [self._objects.of_binding(name_in_module, binding, depth) for binding in bindings]
        objects = {each.key: each for some in meanings for each in some or ()}
        is_told = all(each is not None for each in meanings)
        if len(bindings) == 1 and isinstance(bindings[0], ast.alias):
            origin = names.binding_origin(bindings[0]) or ""
            module, _, member = origin.rpartition(".")
            path = self._sources.project.module_path(module, file.path) if module.strip(".") else None
            if path is not None and self._sources.project.module_path(origin, file.path) is None:
                return self.of(ModuleObject(path), member, depth)
        return Member(objects=tuple(objects.values()), is_open=True) if is_told else UNKNOWN

    def _of_table(self, where: Expression, name: str, depth: int) -> Member:
        node = where.node
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = [*zip(node.keys, node.values, strict=True)]
        elif isinstance(node, ast.Call):
            pairs = [(None, value) for value in node.args]
            for keyword in node.keywords:
                if keyword.arg == name:
                    return Member((where.part(keyword.value),), option=name)
                if keyword.arg is None:
                    pairs.append((None, keyword.value))
        is_told = True
        for key, value in reversed(pairs):
            if key is not None:
                if string_value(key) == name:
                    return Member((where.part(value),), option=name, is_open=not is_told)
                is_told = is_told and isinstance(key, ast.Constant)
                continue
            inner = self.unpacked(where.part(value), name, depth)
            if inner.is_there:
                return inner if is_told else inner._replace(is_open=True)
        return ABSENT if is_told else UNKNOWN

    def unpacked(self, where: Expression, name: str, depth: int) -> Member:
        """Return an item of a table that is unpacked: `f(**table)`."""
        objects = self._objects.of(where, depth)
        if objects is None or len(objects) != 1:
            return UNKNOWN
        return self.of(objects[0], name, depth)

    def _of_keywords(self, of: KeywordsObject, name: str, depth: int) -> Member:
        values: list[Expression] = []
        absent = False
        for file, names, call in self._facts.calls_of(of.where.file, of.function):
            keyword = next((each.value for each in call.keywords if each.arg == name), None)
            if keyword is not None:
                values.append(Expression(file, names, keyword))
                continue
            inner = [self.unpacked(Expression(file, names, each.value), name, depth)
                     for each in call.keywords if each.arg is None]  # fmt: skip
            if any(each.is_there and not each.values for each in inner):
                return UNKNOWN
            values += (value for each in inner for value in each.values)
            absent = absent or not any(each.values for each in inner) or any(each.is_open for each in inner)
        by_settings = self.by_settings(of.where.file, of.function, name)
        given = [each for each in by_settings if each.is_there]
        if len(given) == 1 == len(by_settings) and not values and not absent:
            return given[0]
        if given and any(each.value or each.objects or not each.values for each in given):
            return UNKNOWN
        values += (value for each in given for value in each.values)
        if not values:
            return ABSENT
        return Member(tuple(values), option=name, is_open=absent or len(given) < len(by_settings))


def _dotted_path(path: str) -> str:
    return dotted(path.removesuffix(".py").removesuffix("/__init__"))
