"""The requirements that a file of any kind lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.backends.tables import normalised
from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.commands import commands_of, prints_text
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement, in_command, in_lines, requirement
from torchferry.source.settings import Setting, settings

LIST_KINDS = (Kind.REQUIREMENTS, Kind.PYPROJECT, Kind.SETUP_CFG, Kind.CONDA)
"""Kinds of file that list requirements and little else."""

_LISTS = lazy_regex(r"(?:(?:install|setup|tests|extras)_requires?|requirements?|dependencies)\Z", re.IGNORECASE)
_INSTALLS = lazy_regex(r"(?:\A|_)(?:require|requires|requirements|install)(?:\Z|_)")


def requirements_of(context: Context) -> Iterator[Requirement]:
    """Yield the requirements of a file, in order of place."""
    text = context.text
    kind = context.kind
    if isinstance(context, PythonContext):
        yield from _in_setup(context)
    elif kind is Kind.REQUIREMENTS:
        yield from in_lines(text)
    elif kind is Kind.PYPROJECT:
        yield from sorted(_in_pyproject(text), key=lambda listed: listed.start)
    elif kind is Kind.SETUP_CFG:
        yield from _in_setup_cfg(text)
    elif kind is Kind.CONDA:
        for setting in settings(kind, text):
            if setting.key in ("dependencies", "pip"):
                value = setting.value
                at = value.find("::") + 2 if "::" in value else 0  # the channel in front of the name
                listed = requirement(value, at, len(value))
                if listed is not None:
                    yield _moved(listed, setting.start)
    else:
        for command in commands_of(context):
            if not prints_text(command):
                yield from in_command(command)


def _moved(listed: Requirement, by: int) -> Requirement:
    return listed._replace(start=listed.start + by, end=listed.end + by, line_end=listed.line_end + by)


def _in_pyproject(text: str) -> Iterator[Requirement]:
    """Yield the requirements of `pyproject.toml`: strings of a list, or keys of a table such as Poetry's."""
    tables: dict[tuple[str, ...], list[Setting]] = {}  # what a table such as Poetry's says of each of its requirements
    for setting in settings(Kind.PYPROJECT, text):
        path = setting.path
        table = next((index for index, key in enumerate(path) if key.endswith("dependencies")), len(path))
        if path[:2] in (("tool", "poetry"), ("tool", "pixi")) and table + 1 < len(path):
            tables.setdefault(path[: table + 2], []).append(setting)
        elif path[:1] == ("dependency-groups",) or "requires" in path or any(_LISTS.search(key) for key in path):
            listed = requirement(setting.value, 0, len(setting.value))
            if listed is not None:
                yield _moved(listed, setting.start)

    for path, given in tables.items():
        versions = [setting for setting in given if setting.path[len(path) :] in ((), ("version",))]
        for setting in versions or given[:1]:
            specifier = setting.value or "*" if versions else f"@ {setting.value}" if _is_source(setting) else "*"
            yield Requirement(normalised(path[-1]), specifier, setting.start, setting.end, setting.end)


def _is_source(setting: Setting) -> bool:
    """Whether a table of a requirement says by this where the distribution is, and not which version is wanted."""
    return setting.key in ("git", "url", "path", "file")


def _in_setup_cfg(text: str) -> Iterator[Requirement]:
    """Yield the requirements of `setup.cfg`: those of a key that lists some, in its line and the lines below it."""
    listing = in_extras = False
    at = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            listing, in_extras = False, "extras_require" in line
        elif line[:1] not in " \t\r\n#;":
            key, equals, value = line.partition("=")
            listing = bool(equals) and (in_extras or _LISTS.match(key.strip()) is not None)
            if listing:
                yield from in_lines(text, at + len(line) - len(value), at + len(line))
        elif listing:
            yield from in_lines(text, at, at + len(line))
        at += len(line)


def _in_setup(context: PythonContext) -> Iterator[Requirement]:
    """Yield requirements in Python: strings in `setup(...)`, in a list named for them, given to what installs."""
    parents = context.file.parents
    listed = [
        node
        for node in context.file.strings
        if type(parents.get(node)) in _LEADING and _in_list_of_requirements(context, node)
    ]
    for node in sorted(listed, key=lambda node: (node.lineno, node.col_offset)):
        start, end = context.file.span(node)
        inner = context.text[start:end]
        body = inner.lstrip("rRuUbB").strip("\"'")
        written = requirement(body, 0, len(body)) if "\n" not in inner else None
        if written is not None:
            yield _moved(written, start + inner.index(body))


_HOLDING = frozenset({ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.Set, ast.IfExp})
"""What a requirement may stand in on the way to what it is given to."""


_LEADING = _HOLDING | {ast.Call}
"""What a requirement itself stands in: most strings stand in something else, and are nothing more to ask about."""


def _in_list_of_requirements(context: PythonContext, node: ast.AST) -> bool:
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None and type(parent) in _HOLDING:
        if isinstance(parent, ast.Dict) and child in parent.keys:
            return False
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Call) and child is not parent.func:
        return _INSTALLS.search(last_name(parent.func)) is not None
    if child is node:
        return False
    if isinstance(parent, ast.keyword):
        return bool(parent.arg and _LISTS.match(parent.arg))
    if isinstance(parent, ast.Assign):
        return any(_LISTS.search(last_name(target)) for target in parent.targets)
    return False
