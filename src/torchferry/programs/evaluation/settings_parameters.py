"""What settings give to the parameters of the classes and functions that they name.

`_target_: nets.Net` with `fast: true` beside it calls `Net(fast=True)`, and so does `target: nets.Net` with `params:`
where the project's own loader imports the name. No call in the code names the class, so that its parameters have the
values of the settings file, and not their defaults.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from torchferry.core.record import NamedTuple
from torchferry.programs.evaluation.inherited_calls import inheriting
from torchferry.programs.evaluation.object_kinds import ABSENT, UNKNOWN, Member, Object, OtherObject, SettingsObject
from torchferry.programs.evaluation.program_facts import MAKING_WORDS, ProgramFacts
from torchferry.programs.imports.instantiations import (
    TARGET,
    Instantiation,
    SettingsName,
    find_instantiations,
    last_key,
    whole_name,
)
from torchferry.programs.imports.settings_classes import ComposedFile
from torchferry.programs.options.answers import Answer, Truth
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.parameters import Expression, Parameter, given_by, is_given_by_python
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_MOST_SITES = 20
"""Calls of what one loader imports; of more nobody can tell what they give."""

_DEEPEST = 6
"""Functions and variables that hand on what a loader imports, and tables in tables."""

_ONLY_ASKED = frozenset({"reload", "print", "isinstance", "issubclass", "hasattr", "callable", "repr", "str", "type"})
"""Functions that call nothing of what they are given."""

_MERGE = ("merge", "merge_with", "unsafe_merge", "update")
"""Functions of OmegaConf that put settings into others."""

_MERGED = r"[\"'](?:[\w.]*\.)?{0}[\"'=]|\b{0}[ \t]*="
"""How a file that merges says a key itself."""

_COMPOSES = "compose"
"""The function of hydra that takes texts which override settings."""

_OVERRIDE = r"[\"'][+~]{{0,2}}(?:[\w@/]+\.)*{0}="
"""How a text overrides a key."""

_COPIES = frozenset({"dict", "deepcopy", "copy", "to_container", "to_object", "to_dict", "create"})
_OF_HYDRA = ("_partial_", "_args_")
"""Keys beside `_target_` with which something else gives parameters too."""

_CLASS_PATH = "class_path"
_INIT_ARGUMENTS = "init_args"


class SettingsLookup(Protocol):
    """What the look-up of members answers for the parameters that settings give."""

    def of(self, of: Object, name: str, depth: int = 0) -> Member:
        """Return an attribute or item of an object."""

    def unpacked(self, where: Expression, name: str, depth: int) -> Member:
        """Return an item of a table that is unpacked."""

    def may_be_set(self, of: SettingsObject, name: str) -> bool:
        """Whether the program may put something in the place of a setting, or of the tables around it."""


class ObjectLookup(Protocol):
    """What the look-up of objects answers for settings that are merged."""

    def of(self, where: Expression, depth: int = 0) -> tuple[Object, ...] | None:
        """Return what an expression may be."""


class _Merges(NamedTuple):
    """What a program merges into settings.

    Attributes:
        paths: The files that do it.
        is_open: Whether they merge what nobody can tell.
    """

    paths: tuple[str, ...] = ()
    is_open: bool = False


class _Site(NamedTuple):
    """A call of what a loader imports.

    Attributes:
        call: The call.
        base: The settings from which the name was taken, as the function of the call says them; None for others.
    """

    call: Expression
    base: ast.expr | None


class SettingsParameters:
    """Looks up what settings give to parameters, for one program.

    Args:
        facts: The facts of the program.
        objects: Resolves expressions to objects.
        members: Looks up what settings say.
    """

    def __init__(self, facts: ProgramFacts, objects: ObjectLookup, members: SettingsLookup) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._objects = objects
        self._members = members
        self._is_merging = False
        self.answer: Callable[[Expression], Answer] = lambda _: Answer(Truth.UNKNOWN)
        """Tells the known facts about a condition."""
        facts.answers("merges", self._merges)
        facts.answers("in tables", self._paths_of_tables)

    def of(self, file: PythonFile, of: FunctionNode | ast.ClassDef, name: str) -> list[Member]:
        """Return what settings give to a parameter, one for each place that calls its function: absent for nothing.

        Args:
            file: The file of the function.
            of: The function, or a class that takes its fields.
            name: The name of the parameter.
        """
        words = self._sources.words
        by_table = [*self._by_tables(file, of, name)] if words.holding(TARGET) else []
        if not words.holding_any(MAKING_WORDS) or not self._facts.config.names.any:
            return by_table
        namings = [*self._naming(file, of)] if self._facts.makes() else []
        making = self._makings() if namings else []
        index = _position(file, of, name) if namings else -1
        for named in namings:
            files, is_told = self._read_with(named)
            if not files:
                continue
            group = files._replace(keys=(*files.keys, *named.keys[:-1]))
            of_name = self._members.of(group, named.keys[-1]) if named.keys else UNKNOWN
            value = of_name.value.value if of_name.value is not None else UNDETERMINED
            if value is not UNDETERMINED and value != named.name:
                continue  # another file, or the command, has something else made there
            makes = (
                (each_making, where)
                for each_making, where in making
                if next(each_making.tests(named), self) is not self
            )
            given = [each for each_making in makes for each in self._given(*each_making, named, group, name, index)]
            if not given and self._facts.config.files.may_give(_called(of, file), name):
                given = [UNKNOWN]
            if value is UNDETERMINED or not is_told:
                given = [UNKNOWN if each.is_there else each for each in given]
            by_table += given
        return by_table

    # --- what names a function or class ---

    def _makings(self) -> list[tuple[Instantiation, Expression]]:
        """Return the calls in the program that make objects of what settings name."""
        loaded = [file for path in self._facts.making() if (file := self._sources.file(path)) is not None]
        return [(each, Expression(*file, each.node)) for file in loaded for each in find_instantiations(*file)]

    def _naming(self, file: PythonFile, of: FunctionNode | ast.ClassDef) -> Iterator[SettingsName]:
        """Yield the names in settings files that may mean a function or class, or a class that inherits it."""
        owner = of if isinstance(of, ast.ClassDef) else file.parents.get(of)
        method = "" if isinstance(of, ast.ClassDef) or of.name == "__init__" else of.name
        if isinstance(owner, ast.ClassDef):
            callers = [(file, owner), *inheriting(self._facts, owner, method or "__init__")]
            wanted = [(other, each.name) for other, each in callers]
        else:
            wanted, method = [(file, of.name)], ""
        names = self._facts.config.names
        for other, name in wanted:
            for named in names.ending_with(method or name):
                whole, _, last = named.name.rpartition(".")
                module, _, of_class = whole.rpartition(".") if method else (whole, "", last)
                if (of_class, last) == (name, method or name) and self._may_mean(module, name, other):
                    yield named

    def _may_mean(self, module: str, name: str, file: PythonFile) -> bool:
        """Whether a name of a module may be that of a file."""
        own = "/" + file.path.removesuffix(".py").removesuffix("/__init__")
        if own.endswith("/" + module.replace(".", "/")):
            return True
        project = self._sources.project
        path = project.module_path(module, file.path) if module else None
        if path is None:
            return own.rpartition("/")[2] == module.rpartition(".")[2]
        text = self._sources.text(path)
        return path == file.path or (name in text and f"def {name}(" not in text and f"class {name}" not in text)

    def _read_with(self, named: SettingsName) -> tuple[SettingsObject | None, bool]:
        """Return the settings that a program reads with a name, and whether it is known that it reads them."""
        composed = self._facts.composed_by_program()
        package = next((each.package for each in composed if each.path == named.path), None)
        if package is not None:
            keys = tuple(part for part in package.split(".") if part)
            return SettingsObject(composed, keys, by_hydra=True), True
        read = self._facts.settings()
        if read:
            files = tuple(ComposedFile(path, "") for path in read)
            return (SettingsObject(files) if named.path in read else None), True
        return SettingsObject((ComposedFile(named.path, ""),)), False

    # --- what is given ---

    def _given(
        self,
        making: Instantiation,
        where: Expression,
        named: SettingsName,
        group: SettingsObject,
        name: str,
        index: int,
    ) -> Iterator[Member]:
        """Yield what a call that makes objects of what settings name gives to a parameter."""
        if making.by_tag:
            yield UNKNOWN
        elif making.name is not None:
            sites = self._sites_of(making, where)
            yield from (self._at_site(site, group, name, index) for site in sites) if sites is not None else [UNKNOWN]
        elif making.of is not None:
            yield self._by_hydra(making, where, named, group, name, index)
        else:
            yield self._by_command_line(where, named, group, name)

    def _by_hydra(
        self,
        making: Instantiation,
        where: Expression,
        named: SettingsName,
        group: SettingsObject,
        name: str,
        index: int,
    ) -> Member:
        """Return what `instantiate(cfg.model, more=1)` gives: what it is given itself, else what the group has."""
        call = _call_around(where.file, making.node)
        call_paths = {len(test) for test in making.below(named)}
        is_direct, is_only = 1 + making.is_each in call_paths, call_paths == {1 + making.is_each}
        if is_direct and call is not None:
            given = self._in_call(where.part(call), call.args[1:], name, index)
            if given.is_there:
                return given if is_only else UNKNOWN
        if any(self._members.of(group, key).is_there for key in _OF_HYDRA):
            return UNKNOWN
        values = self._of_group(group, name)
        if any(self._members.of(each, TARGET).is_there for each in values.objects):
            return UNKNOWN  # an object is made of it before
        return values

    def _by_command_line(self, where: Expression, named: SettingsName, group: SettingsObject, name: str) -> Member:
        """Return what Lightning's command line gives: `class_path: nets.Net` with `init_args:` beside it."""
        if named.keys[-1:] != (_CLASS_PATH,) or any(
            str(each.value).endswith(f".{name}") for each in where.file.strings
        ):
            return UNKNOWN
        option = self._facts.option_value(".".join((*group.keys, name)))
        if option is not None:
            return Member(value=option)
        return self._of_group(group._replace(keys=(*group.keys, _INIT_ARGUMENTS)), name)

    def _of_group(self, group: SettingsObject, name: str) -> Member:
        """Return what settings say below some keys, or the words of the command in their place."""
        member = self._members.of(group, name)
        option = self._facts.option_value(".".join((*group.keys, name))) if not group.by_hydra and group.keys else None
        if option is not None:
            return Member(value=option)
        merges = self._facts.ask("merges", "")
        assert isinstance(merges, _Merges)
        said_there = _MERGED.format(re.escape(name))
        if any(re.search(said_there, self._sources.text(path)) for path in merges.paths):
            return UNKNOWN
        if self._is_overridden(name):
            return UNKNOWN
        if member.is_there and (merges.is_open or self._members.may_be_set(group, name)):
            return UNKNOWN
        return member._replace(is_open=member.is_open and not member.objects)

    def _is_overridden(self, name: str) -> bool:
        """Whether a text may override a key where hydra composes settings: `"++net.fast=True"`."""
        if not self._facts.calling(_COMPOSES):
            return False
        pattern = re.compile(_OVERRIDE.format(re.escape(name)))
        for path in self._facts.mentioning(name):
            loaded = self._sources.file(path) if pattern.search(self._sources.text(path)) is not None else None
            if loaded is None:
                continue
            file, names = loaded
            texts = (text for text in file.strings if pattern.match(f'"{text.value!s}') is not None)
            if any(self._may_run(Expression(file, names, text)) for text in texts):
                return True
        return False

    def _may_run(self, where: Expression) -> bool:
        """Whether a place may be run: no condition around it is known not to hold."""
        answers = (
            (self.answer(where.part(test)), wanted) for test, wanted in place_context(where.file, where.node).tests
        )
        return all(answer.truth is Truth.UNKNOWN or (answer.truth is Truth.YES) == wanted for answer, wanted in answers)

    def _merges(self, _: object) -> _Merges:
        """Return what the program merges into settings beside its settings files and the words of its command."""
        if self._is_merging:
            self._facts.give_up(is_met=True)
            return _Merges()
        self._is_merging = True
        try:
            calls = [*self._merging_calls()]
            is_open = not all(map(self._is_told, (part for call in calls for part in _parts_of(call))))
            return _Merges(tuple(dict.fromkeys(call.file.path for call in calls)), is_open)
        finally:
            self._is_merging = False

    def _merging_calls(self) -> Iterator[Expression]:
        for path in dict.fromkeys(path for word in _MERGE for path in self._facts.calling(word)):
            loaded = self._sources.file(path)
            for callee in (each for word in _MERGE for each in loaded[0].attributes.get(word, ())) if loaded else ():
                assert loaded is not None
                call = loaded[0].parents.get(callee)
                is_omegaconf = last_name(callee.value) == "OmegaConf" or callee.attr == "merge_with"
                if isinstance(call, ast.Call) and call.func is callee and is_omegaconf:
                    yield Expression(*loaded, call)

    def _is_told(self, part: Expression) -> bool:
        """Whether it is known what is merged: settings, words of the command, a table that is written down."""
        node = part.node
        if isinstance(node, ast.Name):
            bindings = part.names.reaching_bindings(node)
            value = assigned_value(part.file, bindings[0]) if len(bindings) == 1 else None
            node = node if value is None else value
        if isinstance(node, ast.Starred) or (isinstance(node, ast.Call) and last_name(node.func) == "from_dotlist"):
            return True  # a list of settings files; words of the command, or such as stand there
        objects = self._objects.of(part)
        return objects is not None and not any(isinstance(each, OtherObject) for each in objects)

    def _at_site(self, site: _Site, group: SettingsObject, name: str, index: int) -> Member:
        """Return what a call of what a loader has imported gives to a parameter."""
        call = site.call.node
        assert isinstance(call, ast.Call)
        return self._in_call(site.call, call.args, name, index, site.base, group)

    def _in_call(
        self,
        where: Expression,
        values: list[ast.expr],
        name: str,
        index: int,
        base: ast.expr | None = None,
        group: SettingsObject | None = None,
    ) -> Member:
        """Return what a call gives to a parameter: by its name, by its position, or out of a table.

        Args:
            where: The call.
            values: What it gives one by one.
            name: The parameter.
            index: Its position; -1 for none.
            base: The settings that hold the name, as the call's function says them.
            group: What they are.
        """
        call = where.node
        assert isinstance(call, ast.Call)
        alone = next((each.value for each in call.keywords if each.arg == name), None)
        if alone is None and index >= 0 and any(isinstance(each, ast.Starred) for each in values[: index + 1]):
            return UNKNOWN
        if alone is None and 0 <= index < len(values):
            alone = values[index]
        if alone is not None:
            keys = _below(where, alone, base) if base is not None else None
            if keys is not None and group is not None:
                return Member(objects=(group._replace(keys=(*group.keys, *keys)),))
            return Member((where.part(alone),), option=name)
        for table in (each.value for each in call.keywords if each.arg is None):
            keys = _below(where, table, base) if base is not None else None
            if keys is not None and group is not None:
                if _is_changed(where, table):
                    return UNKNOWN
                value = self._of_group(group._replace(keys=(*group.keys, *keys)), name)
            else:
                value = self._members.unpacked(where.part(table), name, 1)
            if value.is_there:
                return value
        return ABSENT

    def _by_tables(self, file: PythonFile, of: FunctionNode | ast.ClassDef, name: str) -> Iterator[Member]:
        """Yield what tables in the code give that name a function or class: `{"_target_": "nets.Net", "x": 1}`."""
        called = _called(of, file)
        for path in cast("tuple[str, ...]", self._facts.ask("in tables", called)):
            loaded = self._sources.file(path)
            if loaded is None:
                continue
            for text in loaded[0].strings:
                module, dot, last = str(text.value).rpartition(".")
                if dot and last == called and self._may_mean(module, called, file):
                    yield self._in_table(Expression(*loaded, text), name)

    def _paths_of_tables(self, called: str) -> tuple[str, ...]:
        """Return the files of the program that may name something in such a table."""
        return tuple(path for path in self._facts.mentioning(called) if TARGET in self._sources.text(path))

    def _in_table(self, text: Expression, name: str) -> Member:
        """Return what is next to a name in a table that is written down."""
        table = text.file.parents.get(text.node)
        table = text.file.parents.get(table) if isinstance(table, ast.keyword) else table
        pairs: list[tuple[str | None, ast.expr]] = []
        if isinstance(table, ast.Dict):
            keys = (None if key is None else string_value(key) for key in table.keys)
            pairs = [*zip(keys, table.values, strict=True)]
        elif isinstance(table, ast.Call):
            pairs = [(each.arg, each.value) for each in table.keywords]
        held = [value for key, value in pairs if key == name]
        if held:
            return Member((text.part(held[-1]),), option=name)
        return UNKNOWN if any(key is None for key, _ in pairs) else ABSENT

    # --- where a loader calls what it imports ---

    def _sites_of(self, making: Instantiation, where: Expression) -> tuple[_Site, ...] | None:
        """Return the calls of what a loader imports; None where it hands it on in a way that nobody can follow."""
        return self._facts.once(("sites", making.node), lambda: self._found_sites(making, where))

    def _found_sites(self, making: Instantiation, where: Expression) -> tuple[_Site, ...] | None:
        call = _call_around(where.file, making.node)
        sites: list[_Site] = []
        is_whole = call is not None and self._follow(where.part(call), making.name, sites, 0)
        return tuple(sites) if is_whole and len(sites) <= _MOST_SITES else None

    def _follow(self, followed: Expression, name: ast.expr | None, sites: list[_Site], depth: int) -> bool:
        """Add the calls of what an expression imports; say whether all were met."""
        file, node = followed.file, followed.node
        parent = file.parents.get(node)
        if depth > _DEEPEST or len(sites) > _MOST_SITES:
            return False
        if isinstance(parent, ast.Call):
            if parent.func is node:
                sites.append(_Site(followed.part(parent), _settings_around(name)))
                return True
            if last_name(parent.func) in _ONLY_ASKED:
                return True
            is_member = last_name(parent.func) == "getattr" and parent.args[:1] == [node]
            return is_member and self._follow(followed.part(parent), name, sites, depth)
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            if not isinstance(target, ast.Name):
                return False
            uses = [use for use in followed.names.uses_of(target) if isinstance(use.ctx, ast.Load)]
            return all(self._follow(followed.part(use), name, sites, depth + 1) for use in uses)
        if isinstance(parent, ast.Return):
            return self._follow_return(followed, name, sites, depth)
        # a method of the class makes its objects by its own name, and those calls are met
        return isinstance(parent, (ast.Attribute, ast.Compare, ast.FormattedValue, ast.Expr))

    def _follow_return(self, followed: Expression, name: ast.expr | None, sites: list[_Site], depth: int) -> bool:
        """Add the calls of what a function gives back; in what calls it, the name is what they give it."""
        file = followed.file
        function = file.enclosing_function(followed.node)
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        bindings = followed.names.bindings(name) if isinstance(name, ast.Name) else []
        argument = bindings[0] if len(bindings) == 1 and isinstance(bindings[0], ast.arg) else None
        owner = file.parents.get(function)
        for other, names, call in self._facts.calls_of(file, function):
            inner = None
            if argument is not None:
                bound = is_given_by_python(owner, function, call)
                given = given_by(file.path, function, call, other.path, bound=bound)
                value = given.get(Parameter(file.path, function.lineno, argument.arg))
                is_written = value is not None and value.path == other.path
                inner = whole_name(other, names, value.value)[0] if value is not None and is_written else None
            if not self._follow(Expression(other, names, call), inner, sites, depth + 1):
                return False
        return True


def _position(file: PythonFile, of: FunctionNode | ast.ClassDef, name: str) -> int:
    """Return which of the values that are given one by one a parameter is; -1 for none."""
    if isinstance(of, ast.ClassDef):
        return -1
    positions = [argument.arg for argument in (*of.args.posonlyargs, *of.args.args)]
    positions = positions[is_given_by_python(file.parents.get(of), of) :]
    return positions.index(name) if name in positions else -1


def _called(of: FunctionNode | ast.ClassDef, file: PythonFile) -> str:
    """Return the name by which settings call a function or class: that of the class for its `__init__`."""
    owner = file.parents.get(of)
    is_made = isinstance(owner, ast.ClassDef) and isinstance(of, FunctionNode) and of.name == "__init__"
    return owner.name if is_made and isinstance(owner, ast.ClassDef) else of.name


def _parts_of(call: Expression) -> Iterator[Expression]:
    """Yield what a call merges."""
    assert isinstance(call.node, ast.Call)
    yield from map(call.part, call.node.args)


def _call_around(file: PythonFile, node: ast.AST) -> ast.Call | None:
    """Return the call that is given an expression."""
    parent = file.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = file.parents.get(parent)
    while parent is not None and not isinstance(parent, (ast.Call, ast.stmt)):
        parent = file.parents.get(parent)
    return parent if isinstance(parent, ast.Call) else None


def _settings_around(name: ast.expr | None) -> ast.expr | None:
    """Return the settings from which a name is taken: `config` of `config["target"]`."""
    if isinstance(name, (ast.Attribute, ast.Subscript)) and last_key(name):
        return name.value
    if isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute) and name.func.attr in ("get", "pop"):
        return name.func.value
    return None


def _below(where: Expression, node: ast.expr, base: ast.expr | None, depth: int = 0) -> tuple[str, ...] | None:
    """Return the keys that lead from some settings to an expression; None where it is nothing of them.

    Args:
        where: The place.
        node: The expression, such as `config.get("params", {})`.
        base: The settings: `config`.
        depth: How many were followed.
    """
    if base is None or depth > _DEEPEST:
        return None
    if ast.dump(node) == ast.dump(base):
        return ()
    if isinstance(node, ast.BoolOp):
        return _below(where, node.values[0], base, depth + 1)
    if isinstance(node, ast.IfExp):
        body, other = (_below(where, part, base, depth + 1) for part in (node.body, node.orelse))
        return other if body is None else body if other is None else None
    if isinstance(node, ast.Name):
        bindings = where.names.reaching_bindings(node)
        value = assigned_value(where.file, bindings[0]) if len(bindings) == 1 else None
        return None if value is None else _below(where, value, base, depth + 1)
    if isinstance(node, ast.DictComp) and len(node.generators) == 1:
        through = node.generators[0].iter
        items = through.func if isinstance(through, ast.Call) and not through.args else None
        is_items = isinstance(items, ast.Attribute) and items.attr == "items"
        return _below(where, items.value, base, depth + 1) if isinstance(items, ast.Attribute) and is_items else None
    if isinstance(node, ast.Call) and last_name(node.func) in _COPIES and len(node.args) == 1 and not any(
        each.arg is None for each in node.keywords
    ):  # fmt: skip
        return _below(where, node.args[0], base, depth + 1)
    key, inner = last_key(node), _settings_around(node)
    if isinstance(node, ast.Call) and node.args:
        key = string_value(node.args[0]) or ""
    keys = _below(where, inner, base, depth + 1) if inner is not None and key else None
    return None if keys is None else (*keys, key)


def _is_changed(where: Expression, table: ast.expr) -> bool:
    """Whether a function changes a table, or what it is taken from, in place: `params.update(more)`."""
    names = {each.id for each in nodes_in(table) if isinstance(each, ast.Name)}
    function = where.file.enclosing_function(where.node)
    for use in (use for name in names for use in where.file.names.get(name, ())):
        parent = where.file.parents.get(use)
        if where.file.enclosing_function(use) is not function:
            continue
        if isinstance(parent, ast.Attribute) and parent.attr in ("update", "setdefault", "merge_with"):
            return True
        if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
            return True
    return False
