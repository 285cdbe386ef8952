"""What the options of command lines and settings files give the objects that are made of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Protocol

from torchferry.core.lazy_regex import lazy_regex
from torchferry.programs.evaluation.config_files import GROUP, NO_KEY
from torchferry.programs.evaluation.object_kinds import (
    ABSENT,
    UNKNOWN,
    Member,
    OptionsObject,
    ParserObject,
    SettingsObject,
)
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.evaluation.program_facts import ProgramFacts, agreed
from torchferry.programs.options.answers import Answer, DefaultValue, Truth
from torchferry.programs.options.argument_lists import GivenWords
from torchferry.programs.options.switches import UNDETERMINED, Switch, said_of
from torchferry.programs.options.switches import options_in as command_options
from torchferry.programs.syntax.parameters import Expression
from torchferry.programs.syntax.per_file import once_per_file
from torchferry.programs.syntax.place_context import PlaceContext, place_context
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_REFERENCE = re.compile(r"\$\{(?P<up>\.*)(?P<keys>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)\}")
"""What is under other keys, told from the root or, after dots, from where it is requested."""

_MANDATORY = "???"
"""What OmegaConf asks the user for."""

_DEEPEST = 8
"""References to references that are followed."""


class MemberLookup(Protocol):
    """What the look-up of members answers for those of options."""

    def unpacked(self, where: Expression, name: str, depth: int) -> Member:
        """Return an item of a table that is unpacked."""

    def runs(self, where: Expression, context: PlaceContext, depth: int) -> Answer:
        """Return whether the program reaches a place."""

    def is_later(self, stores: Expression) -> bool:
        """Whether a place is run only behind the place that asks."""


class OptionMembers:
    """Looks up what options and settings files give, for one program.

    Args:
        facts: The facts of the program.
        objects: Resolves expressions to objects.
        members: Looks up the members of other objects.
    """

    def __init__(self, facts: ProgramFacts, objects: Objects, members: MemberLookup) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._objects = objects
        self._members = members

    def of_options(self, of: OptionsObject, name: str, depth: int) -> Member:
        """Return what a parser has read of an option: as the command says it, else its default."""
        switches = self._facts.options(name)
        option = self._said(of.words, name, switches)
        if option is not None:
            return Member(value=option)
        if of.parser is not None:
            family = self._family(of.parser, depth)
            switches = tuple(each for each in switches if self._is_of(each, family, depth))
            given = self._of_given_defaults(family, name, depth)
            if given.is_there:
                return given
        default = agreed(switches, self._facts)
        return ABSENT if default is None else Member(value=default)

    def _said(self, words: GivenWords, name: str, switches: Sequence[Switch]) -> DefaultValue | None:
        """Return what the words that a parser reads say of an option; None where they say nothing."""
        if not words.is_whole:
            return DefaultValue(UNDETERMINED)
        option = self._facts.option_value(name) if words.by_command else None
        values = said_of(name, command_options(words.words), switches) if words.words else None
        if values is None:
            return option
        return DefaultValue(values[0]) if option is None or option.value == values[0] else DefaultValue(UNDETERMINED)

    def _family(self, parser: ParserObject, depth: int) -> frozenset[object]:
        """Return a parser with its parents."""
        family: dict[object, ParserObject] = {}
        todo = [parser]
        while todo:
            each_parser = todo.pop()
            if each_parser.key in family:
                continue
            family[each_parser.key] = each_parser
            call = each_parser.where.node
            assert isinstance(call, ast.Call)
            parents = next((each.value for each in call.keywords if each.arg == "parents"), None)
            for part in parents.elts if isinstance(parents, (ast.List, ast.Tuple)) else ():
                parts = self._objects.of(each_parser.where.part(part), depth) or ()
                todo += (each for each in parts if isinstance(each, ParserObject))
        return frozenset(family)

    def _of_given_defaults(self, family: frozenset[object], name: str, depth: int) -> Member:
        """Return what `parser.set_defaults(**table)` gives an option: the last call that is run says it."""
        given = ABSENT
        for path in self._facts.calling("set_defaults"):
            loaded = self._sources.file(path)
            for callee in loaded[0].attributes.get("set_defaults", ()) if loaded is not None else ():
                assert loaded is not None
                where = Expression(*loaded, callee.value)
                call = where.file.parents.get(callee)
                tables = (
                    [each.value for each in call.keywords if each.arg is None] if isinstance(call, ast.Call) else []
                )
                parsers = self._objects.of(where, depth) if tables else ()
                if parsers is not None and family.isdisjoint(each.key for each in parsers):
                    continue
                if self._members.is_later(where):
                    continue
                runs = self._members.runs(where, place_context(where.file, callee), depth).truth
                for member in (self._members.unpacked(where.part(table), name, depth) for table in tables):
                    if runs is not Truth.NO and member.is_there:
                        given = member if runs is Truth.YES else UNKNOWN
        return given

    def _is_of(self, switch: Switch, family: frozenset[object], depth: int) -> bool:
        """Whether an option is one of a parser, or may be."""
        loaded = self._sources.file(switch.path)
        if loaded is None:
            return True
        file, names = loaded
        for callee in file.attributes.get("add_argument", ()):
            call = file.parents.get(callee)
            if isinstance(call, ast.Call) and call.func is callee and call.lineno == switch.line:
                parsers = self._objects.of(Expression(file, names, callee.value), depth)
                if parsers is None:
                    return True
                keys = {each.key for each in parsers}
                return not keys.isdisjoint(family) or not any(isinstance(each, ParserObject) for each in parsers)
        return False

    def _interpolated(self, of: SettingsObject, text: str, keys: tuple[str, ...], depth: int) -> Member:
        """Return what OmegaConf puts in for a text: what is under other keys, `${model.kind}`, where it is told."""
        reference = _REFERENCE.fullmatch(text)
        dots = len(reference["up"]) if reference is not None else 0
        if reference is None or depth > _DEEPEST or dots > len(keys):
            return Member(value=DefaultValue(UNDETERMINED))
        place_context = keys[: len(keys) - dots] if dots else ()
        path = (*place_context, *str(reference["keys"]).split("."))
        member = self.of_settings(of._replace(keys=path[:-1]), path[-1], depth + 1)
        return member if member.is_there else Member(value=DefaultValue(UNDETERMINED))

    def of_settings(self, of: SettingsObject, name: str, depth: int = 0) -> Member:
        """Return what settings files say below some keys; of hydra, the command before them."""
        keys = (*of.keys, name)
        values = []
        for file in of.files:
            package = tuple(part for part in file.package.split(".") if part)
            if keys[: len(package)] == package:
                value = self._facts.config.value(file.path, keys[len(package) :], is_composed=of.by_hydra)
                values.append(value)
            elif package[: len(keys)] == keys:
                values.append(GROUP)
        settled = [value for value in values if value is not NO_KEY]
        option = self._facts.option_value(".".join(keys)) if of.by_hydra and GROUP not in settled else None
        if option is not None:
            return Member(value=option)
        if not of.files:
            return UNKNOWN
        if not settled:
            return ABSENT
        if any(value is GROUP for value in settled):
            return Member(objects=(of._replace(keys=keys),), is_open=True)
        if of.by_hydra and values[0] is not NO_KEY and self._facts.config.is_last(of.files[0].path):
            settled = settled[:1]  # the primary file says it over what it takes in
        first = settled[0]
        if any(type(value) is not type(first) or value != first for value in settled):
            first = UNDETERMINED
        if isinstance(first, str) and ("${" in first or first == _MANDATORY):
            return self._interpolated(of, first, keys, depth)
        return Member(value=DefaultValue(first, ".".join(keys) if of.by_hydra else name))


_LOADS_SETTINGS = lazy_regex(r"\b(?:safe_load|full_load|unsafe_load|load|loads|read_yaml|load_yaml)\(")
"""Calls that read settings."""


@once_per_file
def loads_settings(file: PythonFile, _: Names) -> bool:
    """Whether a file reads settings: where it is given them instead, nobody can tell of which file they are."""
    return _LOADS_SETTINGS.search(file.source.text) is not None


WHOLE = "\n"
"""Stands behind a name that is told as a whole, where others are told by what they begin with."""


def names_in(facts: ProgramFacts, tables: Collection[object]) -> list[str] | None:
    """Return the keys of settings files, each as a whole; None where a table is another one or cannot be read.

    Args:
        facts: The facts of the program.
        tables: What the table may be.
    """
    names: set[str] = set()
    for table in tables:
        if not isinstance(table, SettingsObject) or table.by_hydra or not table.files:
            return None
        for path, package in table.files:
            below = None if package else facts.config.keys_below(path, table.keys)
            if below is None:
                return None
            names |= below
    return [f"{name}{WHOLE}" for name in sorted(names)] if tables else None


def may_be_merged(facts: ProgramFacts, name: str) -> bool:
    """Whether settings that are taken in may say a name: those of the command, or any where it names none."""
    if facts.option_value(name) is not None:
        return True
    paths = facts.settings() or sorted(facts.config.files.documents)
    pattern = re.compile(rf"(?m)^[ \t-]*[\"']?{re.escape(name)}[\"']?[ \t]*:")
    return any(pattern.search(facts.config.files.text(path)) for path in paths)
