"""The arguments of a program, read from its calls of `add_argument`; nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from torchferry.core.record import NamedTuple
from torchferry.source.exports import absolute_module
from torchferry.source.project import Project
from torchferry.source.roles import mains

_DEEPEST = 3
"""Imports that are followed from a program to the module that has its arguments."""

_FRAMEWORKS = {
    "hydra": "hydra",
    "fire": "fire",
    "click": "click",
    "typer": "typer",
    "absl": "absl.flags",
    "tyro": "tyro",
    "simple_parsing": "simple_parsing",
    "jsonargparse": "jsonargparse",
    "yacs": "yacs",
    "omegaconf": "omegaconf",
    "mmengine": "mmengine",
}
"""Modules by which programs take their settings otherwise."""

_TYPES = frozenset({"int", "float", "str"})


class ArgumentForm(str, Enum):
    """How an argument is written on the command line."""

    VALUE = "value"
    """`--name VALUE`"""

    VALUES = "values"
    """`--name VALUE VALUE`"""

    OPTIONAL = "optional"
    """`--name` or `--name VALUE`"""

    SWITCH = "switch"
    """`--name`, which turns something on."""

    OFF_SWITCH = "off-switch"
    """`--name`, which turns something off."""

    PAIR = "pair"
    """`--name` or `--no-name`."""

    POSITION = "position"
    """`VALUE`, by its place."""


class ProgramArgument(NamedTuple):
    """One argument.

    Attributes:
        flags: Its flags, or its name where it is taken by position.
        dest: The attribute that holds it.
        form: How it is written.
        type: `int`, `float`, `str`, or empty for another.
        default: Its default as it is in the code; empty for none.
        required: Whether it must be given.
        choices: What it may be, where that is in the code.
        help: What it says of itself.
        path: The file with its definition.
        line: The line there.
    """

    flags: tuple[str, ...]
    dest: str
    form: ArgumentForm = ArgumentForm.VALUE
    type: str = ""
    default: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    path: str = ""
    line: int = 0

    @property
    def flag(self) -> str:
        """The flag that is written: the first long one."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])


class ProgramArguments(NamedTuple):
    """The known facts about a program's arguments.

    Attributes:
        arguments: Those that were read.
        unread: Places where an argument is defined by what only a run knows, as `file:line`.
        otherwise: What else the program takes its settings with, such as hydra.
    """

    arguments: tuple[ProgramArgument, ...] = ()
    unread: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    def with_role(self, names: Sequence[str]) -> ProgramArgument | None:
        """Return the argument that has one of these flags or names, the first that fits; None for none."""
        by_flag = {flag: argument for argument in self.arguments for flag in argument.flags}
        return next((by_flag[name] for name in names if name in by_flag), None)


def arguments_of(program: str, project: Project) -> ProgramArguments:
    """Return the arguments of a program: those in its file, else those in the nearest modules that it imports."""
    level, seen = [program], {program}
    otherwise: dict[str, None] = {}
    for _ in range(_DEEPEST + 1):
        read: list[ProgramArgument] = []
        unread: list[str] = []
        following: list[str] = []
        for path in level:
            loaded = project.file(path)
            if loaded is None:
                continue
            tree = loaded[0].tree
            for argument in _defined(tree, path, is_program=path == program):
                if isinstance(argument, str):
                    unread.append(argument)
                else:
                    read.append(argument)
            for module in _imported(tree, path):
                if module.partition(".")[0] in _FRAMEWORKS:
                    otherwise[_FRAMEWORKS[module.partition(".")[0]]] = None
                inner = project.module_path(module, path)
                if inner is not None and inner not in seen:
                    seen.add(inner)
                    following.append(inner)
        if read or unread:
            return ProgramArguments(_without_doubles(read), tuple(unread), tuple(otherwise))
        level = following
    return ProgramArguments((), (), tuple(otherwise))


def imported_paths(program: str, project: Project, deepest: int = _DEEPEST) -> list[str]:
    """Return the file of a program and those that it imports from the project, the nearest first.

    Args:
        program: The program.
        project: Its project.
        deepest: How many imports are followed, one from the other.
    """
    level, seen = [program], {program: None}
    for _ in range(deepest):
        if not level:
            break
        following = []
        for path in level:
            loaded = project.file(path)
            for module in () if loaded is None else _imported(loaded[0].tree, path):
                inner = project.module_path(module, path)
                if inner is not None and inner not in seen:
                    seen[inner] = None
                    following.append(inner)
        level = following
    return list(seen)


def unlisted_imports(path: str, project: Project) -> Iterator[str]:
    """Yield where the modules would be that a file imports, and that are no files of the project."""
    loaded = project.file(path)
    for module in () if loaded is None else _imported(loaded[0].tree, path):
        if project.module_path(module, path) is None:
            yield from project.places_of_module(module, path)


def _without_doubles(arguments: Sequence[ProgramArgument]) -> tuple[ProgramArgument, ...]:
    """Keep the first of those with the same flag: several subcommands may have it."""
    kept: dict[str, ProgramArgument] = {}
    for argument in arguments:
        kept.setdefault(argument.flag, argument)
    return tuple(kept.values())


def _imported(tree: ast.Module, path: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module("." * node.level + (node.module or ""), path)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _defined(tree: ast.Module, path: str, is_program: bool) -> Iterator[ProgramArgument | str]:
    """Yield the arguments that a file defines, in their order; a place, where one cannot be read."""
    of_others = [] if is_program else mains(tree)
    calls = [
        node
        for statement in tree.body
        if statement not in of_others
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
    ]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        flags = [node.value for node in call.args if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        if not flags or len(flags) != len(call.args) or len(keywords) != len(call.keywords):
            yield f"{path}:{call.lineno}"
            continue
        if keywords.keys() & {"version"} or _text(keywords.get("action")) in ("help", "version"):
            continue
        yield _argument(flags, keywords, path, call.lineno)


def _argument(flags: Sequence[str], keywords: Mapping[str, ast.expr], path: str, line: int) -> ProgramArgument:
    by_position = not flags[0].startswith("-")
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    choices = keywords.get("choices")
    options = choices.elts if isinstance(choices, (ast.List, ast.Tuple, ast.Set)) else []
    kind = keywords.get("type")
    default = keywords.get("default")
    required = keywords.get("required")
    return ProgramArgument(
        tuple(flags),
        _text(keywords.get("dest")) or long.lstrip("-").replace("-", "_"),
        _form(keywords, by_position),
        kind.id if isinstance(kind, ast.Name) and kind.id in _TYPES else "",
        "" if default is None else ast.unparse(default),
        (by_position and "nargs" not in keywords) or (isinstance(required, ast.Constant) and required.value is True),
        tuple(str(option.value) for option in options if isinstance(option, ast.Constant)),
        _text(keywords.get("help")),
        path,
        line,
    )


def _form(keywords: Mapping[str, ast.expr], by_position: bool) -> ArgumentForm:
    if by_position:
        return ArgumentForm.POSITION
    action = keywords.get("action")
    name = _text(action) or (ast.unparse(action).rpartition(".")[2] if action is not None else "")
    switches = {"store_true": ArgumentForm.SWITCH, "store_false": ArgumentForm.OFF_SWITCH,
                "BooleanOptionalAction": ArgumentForm.PAIR, "count": ArgumentForm.SWITCH,
                "store_const": ArgumentForm.SWITCH, "append_const": ArgumentForm.SWITCH}  # fmt: skip
    if name in switches:
        return switches[name]
    nargs = keywords.get("nargs")
    if _text(nargs) == "?":
        return ArgumentForm.OPTIONAL
    one = nargs is None or (isinstance(nargs, ast.Constant) and nargs.value == 1)
    return ArgumentForm.VALUE if one else ArgumentForm.VALUES


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
