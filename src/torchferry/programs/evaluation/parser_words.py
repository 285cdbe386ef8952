"""The words that a call gives a parser of options to read: `main(argv)` hands on what its callers give."""

from __future__ import annotations

import ast

from torchferry.programs.evaluation.program_facts import OncePerProgram, ProgramFacts
from torchferry.programs.options.argument_lists import OF_COMMAND, GivenWords, Lists, words_of
from torchferry.programs.syntax.parameters import (
    MOST_CALLS,
    Expression,
    Parameter,
    argument_of,
    default_of,
    function_of,
    given_by,
    is_given_by_python,
)
from torchferry.source.flow.syntax import last_name

_DEEPEST = 24
_MOST_LISTS = 8
_UNTOLD: Lists = (GivenWords(is_whole=False),)

_OF_FILES = frozenset({"parse_dict", "parse_json_file", "parse_yaml_file", "parse_args_and_config"})
"""Methods that read something else than words."""


class ParserWords:
    """Tells the words that parsers read.

    Args:
        facts: The facts of the program.
    """

    def __init__(self, facts: ProgramFacts) -> None:
        self._facts = facts
        self._parameters = OncePerProgram(facts, "words", self._from_calls, _UNTOLD)

    def of(self, where: Expression, call: ast.Call) -> Lists | None:
        """Return the lists of words that a call may give a parser; None where that fills what is there already."""
        if any(keyword.arg == "namespace" for keyword in call.keywords):
            return None
        name = last_name(call.func)
        given = next((each.value for each in call.keywords if each.arg == "args"), call.args[0] if call.args else None)
        if given is None:
            return (OF_COMMAND,)
        if name in _OF_FILES:
            is_parameter = isinstance(given, ast.Name) and isinstance(_only(where, given), ast.arg)
            is_word = isinstance(given, ast.Subscript) and where.names.qualified(given.value) == "sys.argv"
            return (OF_COMMAND,) if is_parameter or is_word else None
        return words_of(where.part(given), self._passed)

    def _passed(self, where: Expression, argument: ast.arg, depth: int) -> Lists:
        """Return what a function is given."""
        function = function_of(where.file, argument)
        if function is None or argument in (function.args.vararg, function.args.kwarg):
            return _UNTOLD
        if not self._facts.goes_on(depth, _DEEPEST):
            return _UNTOLD
        key = Parameter(where.file.path, function.lineno, argument.arg)
        given = where.given.get(key) or self._facts.given(key)
        return words_of(given, self._passed, depth + 1) if given is not None else self._parameters.of(key)

    def _from_calls(self, key: Parameter) -> Lists:
        """Return what all calls of a function give to a parameter; without any, its default or the command's words."""
        loaded = self._facts.sources.file(key.path)
        argument = argument_of(loaded[0], key) if loaded is not None else None
        function = function_of(loaded[0], argument) if loaded is not None and argument is not None else None
        if loaded is None or argument is None or function is None:
            return _UNTOLD
        owner = loaded[0].parents.get(function)
        default = default_of(function.args, argument)
        words: dict[GivenWords, None] = {}
        for number, (file, names, call) in enumerate(self._facts.calls_of(loaded[0], function)):
            bound = is_given_by_python(owner, function, call)
            given = given_by(key.path, function, call, file.path, bound=bound).get(key)
            if given is None or number >= MOST_CALLS or len(words) > _MOST_LISTS:
                return _UNTOLD
            of = loaded if given.value is default else (file, names)
            words |= dict.fromkeys(words_of(Expression(*of, given.value), self._passed))
        if words:
            return tuple(words)
        return (OF_COMMAND,) if default is None else words_of(Expression(*loaded, default), self._passed)


def _only(where: Expression, name: ast.Name) -> ast.AST | None:
    """Return what binds a name where one thing does."""
    bindings = where.names.bindings(name)
    return bindings[0] if len(bindings) == 1 else None
