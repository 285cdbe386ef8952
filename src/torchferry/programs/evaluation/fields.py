"""What the fields of records hold: what the command line, the environment, settings and calls give them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from torchferry.core.files import read_regular
from torchferry.programs.evaluation.inherited_calls import calls_of_class
from torchferry.programs.evaluation.object_kinds import UNKNOWN, ClassObject, Member
from torchferry.programs.evaluation.objects import GivenBySettings, Objects
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.switches import read_scalar
from torchferry.programs.syntax.parameters import MOST_CALLS, Expression
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.nodes import nodes_in

_DEEPEST = 24


class UnpackingLookup(Protocol):
    """What the look-up of members answers for fields."""

    by_settings: GivenBySettings

    def unpacked(self, where: Expression, name: str, depth: int) -> Member:
        """Return an item of a table that is unpacked."""


class Fields:
    """Looks up the fields of records, for one program.

    Args:
        facts: The facts of the program.
        objects: Resolves expressions to objects.
        members: Looks up the members of other objects.
    """

    def __init__(self, facts: ProgramFacts, objects: Objects, members: UnpackingLookup) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._objects = objects
        self._members = members
        self._environment = EnvironmentFiles(facts.sources.project.root)

    def option_value(self, of: ClassObject, name: str) -> DefaultValue | None:
        """Return what the command says of a field: `--fast`, of an object inside of another one `--model.fast`."""
        if not of.prefix:
            return self._facts.option_value(name) or self._facts.settings_say(name)
        option = self._facts.option_value(f"{of.prefix}{name}")
        if option is None and self._facts.option_value(f"{of.prefix}no_{name}") is not None:
            return DefaultValue(False)
        return (
            self._facts.option_value(name)
            if option is None and self._sources.words.holding("simple_parsing")
            else option
        )

    def by_environment(self, of: ClassObject, name: str) -> Member | None:
        """Return what the environment gives a field of pydantic's settings; None where it gives nothing."""
        if not self._sources.words.holding("BaseSettings"):
            return None
        classes = [of, *self._objects.bases(of)]
        for variable in variables_of_field(classes, name) if is_filled_by_environment(classes) else ():
            variable_value = self._facts.variable(variable)
            if variable_value is not None:
                value = (
                    read_scalar(variable_value.value) if isinstance(variable_value.value, str) else variable_value.value
                )
                return Member(value=DefaultValue(value, variable))
            if self._facts.sets_variable(variable) or self._environment.say(variable):
                return UNKNOWN
        return None

    def by_makers(self, of: ClassObject, name: str, default: Member, depth: int) -> Member:
        """Return what a field of `self` may hold: what settings and calls give it that make objects of its class.

        Args:
            of: The class; where the call is known that makes the object, that call says it.
            name: The field.
            default: What the field has where they give it nothing.
            depth: How many members were followed.
        """
        is_field = any(
            isinstance(part, ast.AnnAssign) and getattr(part.target, "id", "") == name for part in of.node.body
        )
        if of.maker is not None or of.by_options or not is_field or self._objects.method(of, "__init__") is not None:
            return default
        given: list[Member | None] = [
            each if each.is_there else None for each in self._members.by_settings(of.file, of.node, name)
        ]
        for file, names, call in islice(calls_of_class(self._facts, of.node.name), MOST_CALLS):
            given.append(self.given(of._replace(maker=Expression(file, names, call)), name, depth))
        settled = [each for each in given if each is not None]
        if not settled:
            return default
        if len(settled) == len(given) == 1:
            return settled[0]
        if any(each.is_open or not each.values for each in (default, *settled)):
            return UNKNOWN
        values = [value for each in settled for value in each.values]
        return Member((*(() if len(settled) == len(given) else default.values), *values), option=name)

    def given(self, of: ClassObject, name: str, depth: int) -> Member | None:
        """Return what the call that makes an object gives a field; None where it gives it nothing."""
        call = of.maker.node if of.maker is not None else None
        if of.maker is None or not isinstance(call, ast.Call) or self._objects.method(of, "__init__") is not None:
            return None
        keyword = next((each for each in call.keywords if each.arg == name), None)
        if keyword is not None:
            return Member((of.maker.part(keyword.value),), option=name)
        fields = [*self._names(of)] if call.args else []
        if name in fields and fields.index(name) < len(call.args):
            before = call.args[: fields.index(name) + 1]
            if any(isinstance(value, ast.Starred) for value in before):
                return UNKNOWN
            return Member((of.maker.part(before[-1]),), option=name)
        if any(isinstance(value, ast.Starred) for value in call.args):
            return UNKNOWN
        for each in call.keywords:
            if each.arg is None:
                member = self._members.unpacked(of.maker.part(each.value), name, depth)
                if member.is_there:
                    return member
        return None

    def _names(self, of: ClassObject, depth: int = 0) -> Iterator[str]:
        """Yield the fields of a record, those of its bases first."""
        seen: set[str] = set()
        for base in self._objects.bases(of) if depth < _DEEPEST else ():
            for name in self._names(base, depth + 1):
                if name not in seen:
                    seen.add(name)
                    yield name
        for part in of.node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id not in seen:
                yield part.target.id


_LARGEST = 1_000_000


_FILES = (".env", ".env.example", ".env.sample", ".env.template", "env.example")
"""Files of the project's folder that say the environment, or show what to put into it."""


_ALIASES = frozenset({"env", "alias", "validation_alias"})


def is_filled_by_environment(classes: list[ClassObject]) -> bool:
    """Whether an object of a class, told with its bases, takes its fields from the environment."""
    return any(last_name(base) == "BaseSettings" for each in classes for base in each.node.bases)


def variables_of_field(classes: list[ClassObject], name: str) -> Iterator[str]:
    """Yield the variables of the environment that give a field of a class, told with its bases."""
    prefix = ""
    for each in reversed(classes):
        for node in nodes_in(each.node):
            targets = node.targets if isinstance(node, ast.Assign) else []
            is_keyword = isinstance(node, ast.keyword) and node.arg == "env_prefix"
            if isinstance(node, (ast.Assign, ast.keyword)):
                if is_keyword or any(last_name(target) == "env_prefix" for target in targets):
                    prefix = string_value(node.value) or prefix
            field = node.value if isinstance(node, ast.AnnAssign) and last_name(node.target) == name else None
            for keyword in field.keywords if isinstance(field, ast.Call) else ():
                alias = string_value(keyword.value) if keyword.arg in _ALIASES else None
                if alias is not None:
                    yield from (alias, alias.upper())
    for each_name in (name, prefix + name):
        yield from (each_name.upper(), each_name)


class EnvironmentFiles:
    """Answers which variables the files of a project say: `.env`.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._text: str | None = None

    def say(self, variable: str) -> bool:
        """Whether a file says a variable."""
        if self._text is None:
            self._text = "\n".join(map(self._read, _FILES))
        return re.search(rf"(?mi)^[ \t]*(?:export[ \t]{{1,20}})?{re.escape(variable)}[ \t]*=", self._text) is not None

    def _read(self, name: str) -> str:
        try:
            return read_regular(self._root / name, _LARGEST).decode("utf-8", "replace")
        except OSError:
            return ""
