"""The values of parameters: what the calls of a function in a program give to them, else their defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol

from torchferry.programs.evaluation.config_files import GinBindings, is_configurable
from torchferry.programs.evaluation.inherited_calls import inherited_calls
from torchferry.programs.evaluation.members import Members
from torchferry.programs.evaluation.object_kinds import Member
from torchferry.programs.evaluation.objects import GivenBySettings
from torchferry.programs.evaluation.program_facts import COMMAND_LIBRARIES, OncePerProgram, ProgramFacts, agreed
from torchferry.programs.evaluation.unnamed_calls import unnamed_calls_of
from torchferry.programs.options.answers import UNKNOWN_VALUE, DefaultValue, alike
from torchferry.programs.options.option_libraries import declaration, flags_of, said_of_declared, words_behind
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.decorators import changes_arguments
from torchferry.programs.syntax.dispatch_tables import commands_in
from torchferry.programs.syntax.parameters import (
    MOST_CALLS,
    Expression,
    Parameter,
    argument_of,
    called_as,
    default_of,
    function_of,
    is_given_by_python,
)
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name
from torchferry.source.python import PythonFile

_MOST_WORDS = 4
"""Words of a command that are looked at for those without an option."""


class ExpressionValues(Protocol):
    """What the look-up of values answers for what is passed."""

    def value(self, where: Expression, depth: int) -> DefaultValue:
        """Return the value of an expression."""

    def of_member(self, member: Member, name: str, depth: int) -> DefaultValue:
        """Return the value of an attribute or item."""


class PassedValues:
    """Tells the values of parameters, for one program.

    Args:
        facts: The facts of the program.
        members: Looks up items of what is unpacked.
        by_settings: Returns what settings give to a parameter.
        values: Tells the values of expressions.
    """

    def __init__(
        self, facts: ProgramFacts, members: Members, by_settings: GivenBySettings, values: ExpressionValues
    ) -> None:
        self._facts = facts
        self._members = members
        self._by_settings = by_settings
        self._values = values
        self._gin = GinBindings(facts.sources.project.root)
        self._parameters = OncePerProgram(facts, "parameter", self._passed, UNKNOWN_VALUE)

    def parameter(self, where: Expression, argument: ast.arg, depth: int) -> DefaultValue:
        """Return the value of a parameter: what one call gives where that is looked at, else what all of them give."""
        function = function_of(where.file, argument)
        if function is None:
            return UNKNOWN_VALUE
        key = Parameter(where.file.path, function.lineno, argument.arg)
        given = where.given.get(key) or self._facts.given(key)
        if given is not None:
            return self._values.value(given, depth + 1)
        return self._parameters.of(key)

    def _passed(self, parameter: Parameter) -> DefaultValue:
        """Return what the calls in the program give to a parameter, else its default."""
        loaded = self._facts.sources.file(parameter.path)
        argument = argument_of(loaded[0], parameter) if loaded is not None else None
        function = function_of(loaded[0], argument) if loaded is not None and argument is not None else None
        if loaded is None or argument is None or function is None:
            return UNKNOWN_VALUE
        (file, names), depth, arguments = loaded, 0, function.args
        default_node = default_of(arguments, argument)
        default = UNKNOWN_VALUE
        if default_node is not None:
            default = self._declared(Expression(file, names, default_node), argument, depth)
        if is_configurable(file, names, function) and self._facts.reads_gin() and self._gin.may_give(argument.arg):
            default = UNKNOWN_VALUE
        by_decorator = self._by_decorator(file, function, argument.arg)
        if by_decorator is not None:
            return by_decorator
        if function.decorator_list and changes_arguments(self._facts.sources.project, file, names, function):
            return UNKNOWN_VALUE
        owner = file.parents.get(function)
        positions = [*arguments.posonlyargs, *arguments.args]
        index = positions.index(argument) if argument in positions else -1
        values: list[DefaultValue] = []
        calls = [*self._facts.calls_of(file, function)]
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            calls += inherited_calls(self._facts, owner)
        by_settings = self._by_settings(file, function, argument.arg)
        if not by_settings:
            unnamed = unnamed_calls_of(self._facts, file, function, argument.arg)
            if unnamed is None:
                return UNKNOWN_VALUE
            calls += unnamed
        for other, other_names, call in calls:
            if len(values) >= MOST_CALLS:
                return UNKNOWN_VALUE
            asked = index - is_given_by_python(owner, function, call)
            values.append(self._given(Expression(other, other_names, call), call, argument.arg, asked, default, depth))
        values += [
            self._values.of_member(each, argument.arg, depth) if each.is_there else default for each in by_settings
        ]
        if not values:
            is_made = not isinstance(owner, ast.ClassDef) or function.name == "__init__"
            maker = called_as(file, function) if is_made else ""
            if maker and self._may_be_chosen(maker, argument.arg):
                return UNKNOWN_VALUE
            words = self._facts.sources.words
            by_library, by_fire = self._facts.makes_commands(function.name)
            if not by_library and file.path not in words.holding_any(COMMAND_LIBRARIES):
                return default
            option = self._facts.option_value(argument.arg) if declaration(argument.annotation) is None else None
            is_of_fire = by_fire or file.path in words.holding("Fire")
            if option is None and function.name != "__init__" and is_of_fire:
                files = map(self._facts.sources.file, words.holding("Fire"))
                option = words_behind(self._words(), {function.name, *commands_in(files)})
            is_fixed = default_node is None or default.value is UNDETERMINED or default.option
            return option or (default if is_fixed else default._replace(option="--" + argument.arg.replace("_", "-")))
        return alike(values)

    def _may_be_chosen(self, called: str, name: str) -> bool:
        """Whether settings may give a parameter to what they name in a way which is not followed."""
        files = self._facts.config.files
        return files.may_give(called, name) or files.may_choose(self._facts.settings(), called, name)

    def _declared(self, where: Expression, argument: ast.arg, depth: int) -> DefaultValue:
        """Return the default of a parameter: `typer.Option(False)` declares an option, also in an annotation."""
        call = declaration(where.node)
        default: ast.expr | None = where.node
        if call is not None:
            default = next((each.value for each in call.keywords if each.arg == "default"), None)
            default = call.args[0] if default is None and call.args else default
        call = call or declaration(argument.annotation)
        default_value = self._values.value(where.part(default), depth + 1) if default is not None else UNKNOWN_VALUE
        if call is None:
            return default_value
        option = said_of_declared(call, argument.arg, self._facts.option_value)
        if option is None and last_name(call.func) == "Argument":
            option = words_behind(self._words(), ())
        flag = next(iter(flags_of(call)), f"--{argument.arg}")
        return option or default_value._replace(option=flag.partition("/")[0].replace("_", "-"))

    def _words(self) -> Iterator[str | None]:
        """Yield the words of the command."""
        return map(self._facts.argument, range(1, _MOST_WORDS))

    def _by_decorator(self, file: PythonFile, function: FunctionNode, name: str) -> DefaultValue | None:
        """Return what `@click.option("--name")` gives a parameter; None where nothing declares it."""
        lines = {each.lineno for each in function.decorator_list}
        declared = tuple(each for each in self._facts.options(name) if each.path == file.path and each.line in lines)
        if not declared:
            return None
        return self._facts.option_value(name) or agreed(declared, self._facts)

    def _given(
        self, where: Expression, call: ast.Call, name: str, index: int, default: DefaultValue, depth: int
    ) -> DefaultValue:
        for keyword in call.keywords:
            if keyword.arg == name:
                return self._values.value(where.part(keyword.value), depth + 1)
        if 0 <= index < len(call.args) and not any(isinstance(part, ast.Starred) for part in call.args[: index + 1]):
            return self._values.value(where.part(call.args[index]), depth + 1)
        starred = [part for part in call.args if isinstance(part, ast.Starred)]
        if index >= 0 and not all(self._is_empty(where.file, part) for part in starred):
            return UNKNOWN_VALUE
        for keyword in call.keywords:
            if keyword.arg is None:
                member = self._members.unpacked(where.part(keyword.value), name, 1)
                if member.is_there:
                    return self._values.of_member(member, name, depth)
        return default

    def _is_empty(self, file: PythonFile, starred: ast.Starred) -> bool:
        """Whether `*args` hands on what its function is given beyond its parameters, and no call gives more."""
        function = file.enclosing_function(starred)
        name = starred.value.id if isinstance(starred.value, ast.Name) else ""
        if not isinstance(function, FunctionNode) or function.args.vararg is None or function.args.vararg.arg != name:
            return False
        owner, arguments = file.parents.get(function), function.args
        positions = len(arguments.posonlyargs) + len(arguments.args)
        calls = [*self._facts.calls_of(file, function)]
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            calls += inherited_calls(self._facts, owner)
        at = positions - is_given_by_python(owner, function)
        if not calls or self._facts.may_be_given_unnamed(file, function, name, at):
            return False
        return not any(
            len(call.args) > positions - is_given_by_python(owner, function, call)
            or any(isinstance(part, ast.Starred) for part in call.args)
            for _, _, call in calls
        )
