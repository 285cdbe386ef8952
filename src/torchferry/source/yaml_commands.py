"""Command lines in YAML: `command:`, `entrypoint:`, `args:`, `run:` and `script:`, as a line, a list or a block.

A list whose items hold no blanks is one command, `["python", "train.py", "--device", "cuda"]`; in another one each item
is a command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.kinds import Kind
from torchferry.source.setting import Setting
from torchferry.source.settings import settings
from torchferry.source.shell import Command, Heredoc, Word, parts

COMMAND_KEYS = frozenset(
    {"command", "commands", "cmd", "cmds", "entrypoint", "args", "run", "script", "before_script", "setup", "test"}
)
"""Keys whose values are command lines in compose files, job descriptions and continuous integration."""

_ENVIRONMENT = frozenset({"env", "envs", "environment", "env_vars"})
"""Keys of what is set for the commands beside them."""

_MAY_COMMAND = lazy_regex(rf"\b(?:{'|'.join(sorted(COMMAND_KEYS))})\s*(?:[\"']\s*)?:")
"""A text without it has no such key, and is not read."""

_BLOCK = lazy_regex(
    r"^(?P<indent>[ \t]*(?:-[ \t]+)*)(?P<key>[A-Za-z_]+)[ \t]*:[ \t]*[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\r?\n", re.MULTILINE
)
_ITEM_BLOCK = lazy_regex(r"^(?P<indent>[ \t]*)-[ \t]+[|>][-+0-9]*[ \t]*\r?\n", re.MULTILINE)
_LINE = lazy_regex(r"[ \t]*(?P<first>[^\s])?[^\n]*(?:\n|\Z)")


def yaml_parts(kind: Kind, text: str) -> Iterator[Command | Heredoc]:
    """Yield the commands in a YAML text."""
    read = settings(kind, text) if _MAY_COMMAND.search(text) is not None else ()
    for path, group in groupby(read, key=lambda setting: setting.path):
        if not path or path[-1] not in COMMAND_KEYS:
            continue
        items = list(group)
        if len(items) > 1 and not any(re.search(r"\s", setting.value) for setting in items):
            yield Command((), tuple(Word(setting.value, setting.start, setting.end) for setting in items))
        else:
            for setting in items:
                yield from parts(text, setting.start, setting.end)
    for pattern in (_BLOCK, _ITEM_BLOCK):
        end = 0
        for match in pattern.finditer(text):
            if match.start() >= end and match.groupdict().get("key", "run") in COMMAND_KEYS:  # a block holds no blocks
                end = _block_end(text, match.end(), len(match["indent"]))
                yield from parts(text, match.end(), end)


def _block_end(text: str, at: int, indent: int) -> int:
    """Return the offset behind the lines at `at` that are indented deeper than `indent`, or blank."""
    while at < len(text):
        match = _LINE.match(text, at)
        if match is None or (match["first"] is not None and match.start("first") - at <= indent):
            break
        at = match.end()
    return at


class YamlVariable(NamedTuple):
    """A variable of the environment that a file sets for commands.

    Attributes:
        name: Its name.
        value: What it is set to.
        path: The keys of what it is set for, outermost first.
    """

    name: str
    value: str
    path: tuple[str, ...]


def yaml_variables(read: Iterable[Setting]) -> Iterator[YamlVariable]:
    """Yield the variables that settings set: `env: {A: 1}`, `environment: [A=1]`, `env: [{name: A, value: 1}]`."""
    name = ""
    for setting in read:
        path = setting.path
        if len(path) > 0 and path[-1] in _ENVIRONMENT:
            before, equals, value = setting.value.partition("=")
            if equals:
                yield YamlVariable(before, value, path[:-1])
        elif len(path) > 1 and path[-2] in _ENVIRONMENT:
            if path[-1] == "name":
                name = setting.value
            elif path[-1] == "value" and name:
                yield YamlVariable(name, setting.value, path[:-2])
                name = ""
            else:
                yield YamlVariable(path[-1], setting.value, path[:-2])
