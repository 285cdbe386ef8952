"""What `make train ARGS="--fast"` gives the commands of a Makefile."""

from __future__ import annotations

from collections.abc import Mapping

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.shell import Command, assigned_name

_MAKE = frozenset({"make", "gmake", "$(MAKE)", "${MAKE}"})
NAMES = ("Makefile", "makefile", "GNUmakefile")
"""Files that `make` reads in a folder."""

_RULE = lazy_regex(r"(?m)^(?P<targets>[^\s:#=][^:#=\n]{0,400}):(?!=)(?P<needs>[^#\n=]*)(?:#[^\n]*)?$")
_MOST_TARGETS = 200


class MakeCall(NamedTuple):
    """A command that has `make` run.

    Attributes:
        targets: The targets that it names; none for the first one of the file.
        variables: The variables that it sets.
        folder: The folder that it goes to, as `-C` says; empty for none.
        place: Where it stands.
        document: Whether that is a document, for people.
    """

    targets: tuple[str, ...]
    variables: Mapping[str, str]
    folder: str
    place: str
    document: bool


def is_make_with_variables(command: Command) -> bool:
    """Whether a command runs `make` and sets variables for it."""
    if not command.words or command.words[0].value not in _MAKE:
        return False
    return bool(command.assignments) or any(assigned_name(word) for word in command.words[1:])


def make_call(command: Command, place: str, document: bool) -> MakeCall | None:
    """Return what a command has `make` do, where it sets variables for that; else None."""
    if not is_make_with_variables(command):
        return None
    targets: list[str] = []
    variables: dict[str, str] = {}
    folder, before = "", ""
    for word in (*command.assignments, *command.words[1:]):
        value = word.value
        if before == "-C":
            folder = value
        elif assigned_name(word):
            variables[assigned_name(word)] = value.partition("=")[2]
        elif not value.startswith("-") and before not in ("-f", "-j", "-o"):
            targets.append(value)
        before = value
    return MakeCall(tuple(targets), variables, folder, place, document)


def lines_of(text: str, targets: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the lines of a Makefile that are run for some targets, with what these need: from a line to a line."""
    rules = [(text.count("\n", 0, rule.start()) + 1, rule) for rule in _RULE.finditer(text)]
    ends = [line for line, _ in rules[1:]] + [text.count("\n") + 2]
    plain = [rule["targets"].split() for _, rule in rules]
    first = next((names[:1] for names in plain if names and not names[0].startswith(".")), [])
    todo = [*(targets or first)]
    wanted: set[str] = set()
    while todo and len(wanted) < _MOST_TARGETS:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += (each for (_, rule), names in zip(rules, plain, strict=True) if name in names
                     for each in rule["needs"].split())  # fmt: skip
    return [
        (line, end) for (line, _), end, names in zip(rules, ends, plain, strict=True) if not wanted.isdisjoint(names)
    ]
