"""The command lines in a file of any kind that has some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import Context
from torchferry.source.dockerfile import docker_parts
from torchferry.source.inner_commands import with_inner
from torchferry.source.kinds import Kind
from torchferry.source.shell import Command, Heredoc, parts
from torchferry.source.yaml_commands import yaml_parts

COMMAND_KINDS = (Kind.SHELL, Kind.MAKEFILE, Kind.DOCKERFILE)
"""Kinds of file that are command lines; those of notebooks and documents are shown to rules as shell text."""

JOB_KINDS = (*COMMAND_KINDS, Kind.COMPOSE, Kind.YAML)
"""Kinds of file that hold command lines, those among other things included."""

_OPTION_FILES = (".args", ".flags")
"""Files of options, `python train.py @default.args`."""

_TEXT = frozenset({"echo", "@echo", "printf", "@printf", "cat", "log", "info", "warn", "die"})
_OF_PROJECT = lazy_regex(r"\.(?:vscode|devcontainer|env(?:\..*)?)\Z")
_PYTHON = lazy_regex(r"(?:.*/)?python[\d.]*\Z")
_YACS = lazy_regex(r"[A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)+\Z")


def commands_of(context: Context) -> list[Command]:
    """Return the commands of a file, those inside others too, read once for all rules.

    None of a YAML or JSON file that a service reads, such as those in `.github/workflows`: its machines are not the
    target.
    """
    if context.commands is None:
        context.commands = _once(context, _parts(context))
    return context.commands


def commands_of_service(context: Context) -> list[Command]:
    """Return the commands of a YAML file that a service reads, which tell what the project starts."""
    return _once(context, yaml_parts(context.kind, context.text))


def _once(context: Context, outer: Iterable[Command | Heredoc]) -> list[Command]:
    by_span: dict[tuple[int, int], Command] = {}
    for command in with_inner(context.text, outer):
        first = (*command.assignments, *command.words)[0]
        by_span.setdefault((first.start, first.end), command)
    return list(by_span.values())


def heredocs_of(context: Context) -> Iterator[Heredoc]:
    """Yield the here-documents of a file."""
    if "<<" in context.text:
        for part in _parts(context):
            if isinstance(part, Heredoc):
                yield part


def _parts(context: Context) -> Iterator[Command | Heredoc]:
    if context.kind is Kind.DOCKERFILE:
        return docker_parts(context.text)
    if context.path.endswith(_OPTION_FILES) and "#" not in context.text:
        return parts(context.text.replace("\n", " "))  # an option is on one line, and its value on the next
    if context.kind not in (Kind.COMPOSE, Kind.YAML, Kind.JSON):
        return parts(context.text)
    return iter(()) if is_of_service(context.path) else yaml_parts(context.kind, context.text)


def is_of_service(path: str) -> bool:
    """Whether a path lies in a folder that a service reads, such as `.github/workflows`.

    An editor reads its own where the project is, and starts the program there; the program reads its variables.
    """
    return any(part.startswith(".") and not _OF_PROJECT.match(part) for part in path.split("/"))


def words_of_options(context: Context) -> dict[int, str]:
    """Return the options whose values are in the lists of a file, such as `args: [--device, cuda]`, by their offset.

    Rules about settings leave these values to those about command lines.
    """
    if context.kind not in (Kind.COMPOSE, Kind.YAML, Kind.JSON):
        return {}
    return {start: name for command in commands_of(context) for name, _, start in options(command)}


def prints_text(command: Command) -> bool:
    """Whether the arguments of a command are a text for people."""
    return command.program in _TEXT


def options(command: Command) -> Iterator[tuple[str, str, int]]:
    """Yield the options of a command with their values: the name without dashes, the value, its offset.

    `--device cuda`, `--device=cuda`, `device=cuda`, `+trainer.device=cuda`, `MODEL.DEVICE cuda`; of dotted names the
    last part. Each value of `--devices cuda:0 cuda:1` is one.
    """
    name = ""
    begins_with_option = bool(command.words) and command.words[0].text.startswith("-")
    for word in command.words if begins_with_option else command.words[1:]:
        before, equals, _ = word.text.partition("=")
        if equals:
            name = ""
            start, value = unquoted(word.text[len(before) + 1 :], word.start + len(before) + 1)
            yield _option_name(before), value, start
        elif word.text.startswith("-") or _YACS.match(word.text):
            name = _option_name(word.text)
        elif name:
            start, value = unquoted(word.text, word.start)
            yield name, value, start


def positional_words(command: Command) -> Iterator[tuple[str, str, int]]:
    """Yield the words that a program of Python is given before any option: the program, the word, its offset."""
    program, is_python = "", False
    words = iter(command.words)
    for word in words:
        if not program:
            if word.value.endswith(".py"):
                program = word.value.rpartition("/")[2]
            elif word.value == "-m" and is_python:
                program = next(words, word).value
            is_python = is_python or _PYTHON.match(word.value) is not None
        elif word.text.startswith("-"):
            return
        else:
            start, value = unquoted(word.text, word.start)
            yield program, value, start


def _option_name(text: str) -> str:
    return text.strip("\"'").lstrip("-+~").replace("-", "_").rpartition(".")[2]


def unquoted(text: str, start: int) -> tuple[int, str]:
    """Return where a value begins behind its quotes, and the value."""
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return start + 1, text[1:-1]
    return start, text
