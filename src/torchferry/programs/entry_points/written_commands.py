"""The commands that a file writes, with what represents their variables: scripts, images, documents and notebooks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.entry_points.command_variables import HeldCommands, is_make_with_variables
from torchferry.programs.imports.packaging_metadata import LARGEST_DOCUMENT
from torchferry.rules.base import Context
from torchferry.rules.commands import JOB_KINDS, commands_of, commands_of_service
from torchferry.source.dockerfile import docker_variables, instructions
from torchferry.source.document import Document
from torchferry.source.kinds import Kind
from torchferry.source.markdown import command_view
from torchferry.source.notebook import Notebook
from torchferry.source.roles import is_of_integration
from torchferry.source.settings import settings
from torchferry.source.shell import Command
from torchferry.source.shell_variables import ShellVariables
from torchferry.source.task_files import has_tasks, task_view
from torchferry.source.text import SourceText
from torchferry.source.yaml_commands import yaml_variables

MODULE_OPTION = lazy_regex(r"-[bBdEiIOPqRsSuvx]*m(?P<module>[\w.]*)\Z")
"""Python's `-m`, also behind other letters, `-um`, and with the module, `-mpkg.train`."""

_NAMES_MODULE = lazy_regex(rb"[ \"']-[bBdEiIOPqRsSuvx]{0,20}m[ \"'\w]")

READ_FOR_COMMANDS = frozenset({*JOB_KINDS, Kind.MARKDOWN, Kind.NOTEBOOK})
"""Kinds of file that are read for commands whatever their names are."""
NOT_STARTED = frozenset(
    [
        "@echo",
        "ADD",
        "COPY",
        "autopep8",
        "black",
        "cat",
        "chmod",
        "coverage",
        "cp",
        "curl",
        "diff",
        "echo",
        "find",
        "flake8",
        "git",
        "grep",
        "head",
        "isort",
        "less",
        "ls",
        "mv",
        "mypy",
        "nano",
        "pip",
        "pre-commit",
        "py_compile",
        "pylint",
        "pytest",
        "rm",
        "ruff",
        "sed",
        "tail",
        "touch",
        "unittest",
        "vi",
        "vim",
        "wget",
        "yapf",
    ]
)
"""Programs, and modules, that read or write a file and do not start it."""

_STARTS = (
    r"(?:python[\d.]*|torchrun|accelerate[ \t]+launch|deepspeed|(?:streamlit|chainlit|modal|marimo)[ \t]+run|gradio"
    r"|fastapi[ \t]+(?:run|dev)|uvicorn|gunicorn|hypercorn)[ \t]"
)
_STARTING = re.compile(_STARTS)
_COMMAND = re.compile(rf"(?:[A-Z_]+=[^\s`]+[ \t]+)*(?:\$[ \t]+)?{_STARTS}")
_PROGRAM = re.compile(r"\.py\b|[ \t]-m[ \t]|\w:\w")
_INDENT = re.compile(r"[ ]{4,}|\t")
_RUN_MAGIC = re.compile(r"^%run[ \t]+", re.MULTILINE)

_SERVERS = frozenset({"uvicorn", "gunicorn", "hypercorn", "daphne", "granian"})
"""Programs, and modules, that start the web application which a word names: `uvicorn app.main:app`."""

_APPLICATION = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*")

_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)

_COMMENT_LINE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)

_MAKES = lazy_regex(rb"\bmake[ \t][^\n]{0,200}=|=[^\n]{0,200}\bmake[ \t]")


_ESCAPED = lazy_regex(r"\\(?<!\\\\)\\*[\"']")

_CELL_SETS = lazy_regex(
    r"(?m)^[ \t]{0,40}(?:%(?:set_)?env[ \t]{1,40}(?P<magic>[A-Za-z_]\w*)(?:=|[ \t])(?P<value>[^\n]*)"
    r"|os\.environ\[[\"'](?P<python>\w{1,80})[\"']\][ \t]{0,20}=(?!=)[ \t]{0,20}(?:[\"'](?P<text>[^\"'\n]*)[\"'])?)"
)
_NOTHING: Mapping[str, str] = MappingProxyType({})

ENTER = ("cd", "pushd")
LEAVE = "popd"


class WrittenCommand(NamedTuple):
    """A command as a file has it, and where it is written."""

    command: Command
    place: str


def reads_commands(path: str, kind: Kind) -> bool:
    """Whether a file is read for commands that start programs."""
    if has_tasks(path):
        return True
    is_hidden = any(part.startswith(".") for part in path.split("/"))
    return kind in READ_FOR_COMMANDS and (not is_hidden or (kind is Kind.YAML and is_of_integration(path)))


def may_start(kind: Kind, data: bytes) -> bool:
    """Whether a file may hold a command that starts a program, judged by its bytes."""
    if len(data) > LARGEST_DOCUMENT or not _may_name_program(data):
        return False
    return kind is not Kind.YAML or _may_name_program(_COMMENT_LINE.sub(b"", data))  # many begin with how to use them


def _may_name_program(data: bytes) -> bool:
    if any(word in data for word in (b".py", b"--module", b".sh", b"corn ")):
        return True
    return _NAMES_MODULE.search(data) is not None or _MAKES.search(data) is not None


def written_in(document: Document, context: Context, given: Mapping[str, str] = _NOTHING) -> tuple[WrittenCommand, ...]:
    """Return the commands of a file that may start one of the project's, and those that go to another folder.

    Args:
        document: The file.
        context: The same as rules see it.
        given: Variables that the command which has the file read sets, as `make NAME=value` does.
    """
    path, notebook = document.path, document.notebook
    if notebook is not None:
        context = Context(path, Kind.SHELL, _with_runs(notebook), context.target, context.options)
    elif document.kind is Kind.MARKDOWN:
        shown = SourceText(_of_document(document.source.text))
        context = Context(path, Kind.SHELL, shown, context.target, context.options)
    elif has_tasks(path):
        kind = Kind.MAKEFILE if context.kind is Kind.MAKEFILE else Kind.SHELL
        context = Context(path, kind, SourceText(task_view(path, context.text)), context.target, context.options)
    commands = []
    for command in _expanded(context, document, given):
        offset = command.words[0].start
        if notebook is None:
            place = f"{path}:{context.source.position(offset)[0]}"
        else:
            cell = notebook.location(path, offset, offset)
            place = f"{path}:cell {cell.cell}:{cell.line}"
        commands.append(WrittenCommand(command, place))
    return tuple(commands)


def _expanded(context: Context, document: Document, given: Mapping[str, str]) -> Iterator[Command]:
    """Yield the commands of a file that may be followed, with what represents their variables."""
    commands = commands_of_service(context) if is_of_integration(context.path) else commands_of(context)
    written = sorted(map(_unescaped, commands), key=lambda each: (*each.assignments, *each.words)[0].start)
    variables = ShellVariables(context.text, context.kind is Kind.MAKEFILE, written, given)
    is_yaml = context.kind in (Kind.YAML, Kind.COMPOSE, Kind.JSON)
    beforehand = deque(docker_variables(context.text) if context.kind is Kind.DOCKERFILE else ())
    if document.notebook is not None:
        beforehand.extend(_of_cells(document.notebook))
    read = tuple(settings(context.kind, context.text)) if is_yaml and "env" in context.text.lower() else ()
    set_beside = tuple(yaml_variables(read))
    held = HeldCommands(context.text, written)
    followed: list[tuple[Command, Command]] = []
    end = 0
    for command in _joined_entries(context, written) if context.kind is Kind.DOCKERFILE else written:
        start = (*command.assignments, *command.words)[0].start
        if document.kind is Kind.MARKDOWN and _FENCE.search(document.source.text, end, start) is not None:
            variables.begin_example()
        end = start
        while beforehand and beforehand[0][0] < start:
            _, name, value, is_seen = beforehand.popleft()
            variables.set(name, value, exports=is_seen)
        own = next((setting.path for setting in read if setting.start <= start < setting.end), None)
        for each in set_beside:
            variables.unset(each.name)
        for each in set_beside:
            if own is None or own[: len(each.path)] == each.path:
                variables.set(each.name, each.value, exports=True)
        variables.read(command)
        for expanded in variables.expanded(command) if command.words else ():
            whole = held.expanded(command, expanded)
            if _may_be_followed(whole):
                followed.append((command, whole))
    yield from held.followed(followed)


def _unescaped(command: Command) -> Command:
    """Return a command of which no word has a quote that a shell around its own has escaped: `\\"python a.py\\"`."""
    if not any("\\" in word.text for word in command.words):
        return command
    return command._replace(words=tuple(word._replace(text=_ESCAPED.sub("", word.text)) for word in command.words))


def _of_cells(notebook: Notebook) -> Iterator[tuple[int, str, str, bool]]:
    """Yield what the cells of a notebook set for the commands behind them, as `%env NAME=value` does."""
    for match in _CELL_SETS.finditer(notebook.script):
        name = match["magic"] or match["python"]
        value = match["value"] if match["magic"] else match["text"]
        yield match.start(), name, "$()" if value is None else value.strip(), True


def _joined_entries(context: Context, written: Sequence[Command]) -> Iterator[Command]:
    """Yield the commands of an image: what `CMD` lists is given to what `ENTRYPOINT` lists."""
    entry: Command | None = None
    keywords = tuple(instructions(context.text))
    for command in written:
        start = (*command.assignments, *command.words)[0].start
        keyword = next((each.keyword for each in keywords if each.start <= start < each.end), "")
        if keyword == "ENTRYPOINT":
            entry = command
        elif keyword == "CMD" and entry is not None and not names_program(command):
            entry = Command(entry.assignments, (*entry.words, *command.words))
        else:
            yield command
    if entry is not None:
        yield entry


def _may_be_followed(command: Command) -> bool:
    if not command.words or command.program in NOT_STARTED:
        return False
    if command.program in ENTER or command.program == LEAVE or is_make_with_variables(command):
        return True
    return names_program(command)


def names_program(command: Command) -> bool:
    """Whether a word of a command may be a program, or say that the next one is a module."""
    return served_module(command) is not None or any(
        word.value.endswith((".py", ".sh")) or word.value.startswith("--module") or MODULE_OPTION.match(word.value)
        for word in command.words
    )


def served_module(command: Command) -> str | None:
    """Return the module of the web application that a command starts: `uvicorn app.main:app`; None for no such."""
    values = [word.value for word in command.words]
    if _SERVERS.isdisjoint(value.rpartition("/")[2] for value in values[:4]):
        return None
    named = (_APPLICATION.fullmatch(value) for value in values)
    return next((match[1] for match in named if match is not None), None)


def _of_document(text: str) -> str:
    """Return the commands of a document: those of its code blocks, and those that a sentence or an indent shows."""
    view = command_view(text)
    lines = text.split("\n")
    if not any(_names_command(line) for line in lines if any(word in line for word in (".py", "-m", "corn "))):
        return view
    shown = []
    for line, command in zip(lines, view.split("\n"), strict=True):
        if command.strip() or ("`" not in line and not line.startswith((" ", "\t"))):
            shown.append(command)
            continue
        blocks, at = [], 0
        for start, end in list(_inline(line)) or _indented(line):
            # the backquotes become `;` and a blank, so that two commands of one line stay two
            blocks += [" " * (start - at), line[start:end]]
            at = end
            if at < len(line):
                blocks.append(";")
                at += 1
        shown.append("".join(blocks) + " " * (len(line) - at))
    return "\n".join(shown)


def _names_command(line: str) -> bool:
    """Whether a line has the words of a command that starts a Python program, without a backquote between them."""
    for part in line.split("`"):
        start = _STARTING.search(part)
        if start is not None and _PROGRAM.search(part, start.end()) is not None:
            return True
    return False


def _is_command(line: str, start: int, end: int) -> bool:
    """Whether a part of a line is a command that starts a Python program."""
    command = _COMMAND.match(line, start, end)
    return command is not None and _PROGRAM.search(line, command.end(), end) is not None


def _inline(line: str) -> Iterator[tuple[int, int]]:
    """Yield where commands are between backquotes."""
    opening = line.find("`")
    while opening >= 0:
        closing = line.find("`", opening + 1)
        if closing < 0:
            return
        is_command = _is_command(line, opening + 1, closing)
        if is_command:
            yield opening + 1, closing
        opening = line.find("`", closing + 1) if is_command else closing


def _indented(line: str) -> list[tuple[int, int]]:
    """Return where the command of an indented line stands, if the line is one."""
    indent = _INDENT.match(line)
    if indent is None or "`" in line or not _is_command(line, indent.end(), len(line)):
        return []
    return [(indent.end(), len(line))]


def _with_runs(notebook: Notebook) -> SourceText:
    """Return the shell commands of a notebook, and those that `%run` starts."""
    shown, at = [], 0
    for match in _RUN_MAGIC.finditer(notebook.script):
        end = notebook.script.find("\n", match.end())
        shown += [notebook.shell.text[at : match.start()], " ", notebook.script[match.start() + 1 : end]]
        at = end
    return SourceText("".join(shown) + notebook.shell.text[at:])
