"""Where a command line names a device or a collective backend: options, variables, comparisons, loops."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context
from torchferry.rules.commands import commands_of, is_of_service, options, positional_words, prints_text, unquoted
from torchferry.source.dockerfile import instructions
from torchferry.source.kinds import Kind
from torchferry.source.lexicon import lexicon
from torchferry.source.settings import settings
from torchferry.source.shell import Command, Word, commands

_ASSIGNED = lazy_regex(r"(?P<name>[A-Za-z_]\w*)(?:\+|[:?!]|::)?=")
_REFERENCE = lazy_regex(r"[\"']?\$+[{(]?(?P<name>\w+)(?::?-[^{}]*)?[})]?[\"']?\Z")
_DEFAULT = lazy_regex(r"\$\{\w+:?[-=]([^{}$]*)\}\Z")
_EXPANSION = lazy_regex(r"\$\{(?P<name>\w+)(?:##?|%%?|//?|\^\^?)[\"']?(?P<value>\w+:?)")
_PATTERN = lazy_regex(r"(?:^|[\n;|(]|\bin\b)[ \t]*[\"']?(?P<value>[\w:*]+)[\"']?[ \t]*(?=[)|])")
_EQUALS = frozenset({"=", "==", "!=", "=~"})
_MAKE_ASSIGNS = frozenset({"=", ":=", "::=", "?=", "+="})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset", "set", "setenv"})
_LONGEST_CASE = 20_000


class How(NamedTuple):
    """How a value stands beside its name: `option`, `given`, `compared`, or `positional`: behind a program."""

    name: str


OPTION, GIVEN, COMPARED, POSITIONAL = How("option"), How("given"), How("compared"), How("positional")


class ShellValue(NamedTuple):
    """A value beside the name that says what it is.

    Attributes:
        name: The option or variable, or the program; empty where the values beside it say what it is.
        value: The value, without quotes; of `${NAME:-value}` the default.
        start: Offset of the value.
        how: How it stands beside its name.
        role: What the values beside it are, `device` or `collective`; empty where the name says it.
    """

    name: str
    value: str
    start: int
    how: How
    role: str = ""


def places(context: Context) -> Iterator[ShellValue]:
    """Yield the values of options and variables, and what variables are compared with."""
    text = context.text
    for command in commands_of(context):
        if not prints_text(command):
            for name, value, start in options(command):
                yield _place(name, value, start, OPTION)
            for name, value, start in positional_words(command):
                yield ShellValue(name, value, start, POSITIONAL, "device")
            yield from _in_command(context, command)
    if context.kind is Kind.DOCKERFILE:
        for instruction in instructions(text):
            if instruction.keyword in ("ENV", "ARG"):
                for command in commands(text, instruction.start, instruction.end):
                    yield from _assignments(command, all_words=True)
    elif context.kind in (Kind.COMPOSE, Kind.YAML) and not is_of_service(context.path):
        yield from _environment(context)
    for match in _EXPANSION.finditer(text):
        yield ShellValue(match["name"], match["value"], match.start("value"), COMPARED)


def _in_command(context: Context, command: Command) -> Iterator[ShellValue]:
    yield from _assignments(command)
    words = command.words
    if len(command.assignments) == 1 and command.assignments[0].text.endswith("=") and words:  # NAME=(a b)
        yield from _listed(context, command.assignments[0].text.rstrip("+="), words)
    if len(words) > 3 and words[0].text == "for" and words[2].text == "in":
        yield from _listed(context, words[1].text, words[3:])
    if len(words) == 3 and words[1].text in _MAKE_ASSIGNS and context.kind is Kind.MAKEFILE:
        yield _of_word(words[0].text, words[2], GIVEN)
    for left, operator, right in zip(words, words[1:], words[2:], strict=False):
        if operator.text in _EQUALS:
            for reference, word in ((left, right), (right, left)):
                match = _REFERENCE.match(reference.text)
                if match is not None:
                    yield _of_word(match["name"], word, COMPARED)
    if len(words) > 2 and words[0].text == "case" and words[2].text == "in":
        match = _REFERENCE.match(words[1].text)
        end = context.text.find("esac", words[2].end, words[2].end + _LONGEST_CASE)
        if match is not None and end > 0:
            for pattern in _PATTERN.finditer(context.text, words[2].start, end):
                yield ShellValue(match["name"], pattern["value"], pattern.start("value"), COMPARED)


def _assignments(command: Command, *, all_words: bool = False) -> Iterator[ShellValue]:
    declares = all_words or command.program in _DECLARES
    for word in (*command.assignments, *(command.words if declares else ())):
        match = _ASSIGNED.match(word.text)
        if match is not None:
            value = Word(word.text[match.end() :], word.start + match.end(), word.end)
            yield _of_word(match["name"], value, GIVEN)
    if all_words and len(command.words) == 2 and not command.assignments:  # ENV NAME value
        yield _of_word(command.words[0].text, command.words[1], GIVEN)


def _listed(context: Context, name: str, words: tuple[Word, ...]) -> Iterator[ShellValue]:
    """Yield the items of a list; an item beside one that is a device is one, whatever the list is called."""
    values = [unquoted(word.text, word.start) for word in words]
    backend = context.target.backend
    lexicons = (lexicon("device", backend.DEVICE_TYPE), lexicon("collective", backend.COLLECTIVE))
    role = next((kind.role for kind in lexicons if any(kind.is_known_value(value) for _, value in values)), "")
    for start, value in values:
        yield ShellValue(name, value, start, GIVEN, role)


def _environment(context: Context) -> Iterator[ShellValue]:
    """Yield the variables that a compose file or a job description sets."""
    for setting in settings(context.kind, context.text):
        if setting.key in ("environment", "env"):
            match = _ASSIGNED.match(setting.value)
            if match is not None:
                yield _place(match["name"], setting.value[match.end() :], setting.start + match.end(), GIVEN)
        elif context.kind is Kind.COMPOSE and {"environment", "env", "args"} & set(setting.path[:-1]):
            yield _place(setting.key, setting.value, setting.start, GIVEN)


def _of_word(name: str, word: Word, how: How) -> ShellValue:
    start, value = unquoted(word.text, word.start)
    return _place(name, value, start, how)


def _place(name: str, value: str, start: int, how: How) -> ShellValue:
    default = _DEFAULT.match(value)
    if default is not None:
        return ShellValue(name, default.group(1), start + default.start(1), how)
    return ShellValue(name, value, start, how)
