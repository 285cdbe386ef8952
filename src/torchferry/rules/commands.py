"""The command lines in a file of any kind that has some."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.rules.base import Context
from torchferry.source.dockerfile import docker_commands
from torchferry.source.kinds import Kind
from torchferry.source.shell import Command, Word, commands

COMMAND_KINDS = (Kind.SHELL, Kind.MAKEFILE, Kind.DOCKERFILE)
"""Kinds of file that hold command lines; those of notebooks and documents are shown to rules as shell text."""

_TEXT = frozenset({"echo", "@echo", "printf", "@printf", "cat", "log", "info", "warn", "die"})


def commands_of(context: Context) -> list[Command]:
    """Return the commands of a file, read once for all rules."""
    if context.commands is None:
        found = docker_commands(context.text) if context.kind is Kind.DOCKERFILE else commands(context.text)
        context.commands = list(found)
    return context.commands


def prints_text(command: Command) -> bool:
    """Whether the arguments of a command are a text for people."""
    return command.program in _TEXT


def options(command: Command) -> Iterator[tuple[str, str, int]]:
    """Yield the options of a command with their values: the name without dashes, the value, its offset.

    `--device cuda`, `--device=cuda`, `device=cuda`, `+trainer.device=cuda`; of dotted names the last part.
    """
    words = command.words[1:]
    for index, word in enumerate(words):
        name, equals, _ = word.text.partition("=")
        if equals:
            start, value = _unquoted(word.text[len(name) + 1 :], word.start + len(name) + 1)
            yield _option_name(name), value, start
        elif word.text.startswith("-") and index + 1 < len(words):
            following: Word = words[index + 1]
            start, value = _unquoted(following.text, following.start)
            yield _option_name(word.text), value, start


def _option_name(text: str) -> str:
    return text.strip("\"'").lstrip("-+~").replace("-", "_").rpartition(".")[2]


def _unquoted(text: str, start: int) -> tuple[int, str]:
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return start + 1, text[1:-1]
    return start, text
