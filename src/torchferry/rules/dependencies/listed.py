"""The requirements that a file of any kind lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.rules.base import Context, PythonContext
from torchferry.rules.commands import commands_of, prints_text
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement, in_command, in_lines, normalised, requirement
from torchferry.source.settings import settings

LIST_KINDS = (Kind.REQUIREMENTS, Kind.PYPROJECT, Kind.SETUP_CFG, Kind.CONDA)
"""Kinds of file that list requirements and little else."""

_LISTS = re.compile(r"(?:install_requires|setup_requires|extras_require|requirements?|dependencies)\Z", re.IGNORECASE)
_INSTALLS = re.compile(r"(?:\A|_)(?:require|requires|requirements|install)(?:\Z|_)")
_SETUP_CFG_LIST = re.compile(r"^[ \t]*(?:install_requires|setup_requires|[\w-]+)[ \t]*=[ \t]*(.*)$")


def requirements_of(context: Context) -> Iterator[Requirement]:
    """Yield the requirements of a file, in order of place."""
    text = context.text
    kind = context.kind
    if isinstance(context, PythonContext):
        yield from _in_setup(context)
    elif kind is Kind.REQUIREMENTS:
        yield from in_lines(text)
    elif kind is Kind.PYPROJECT:
        for setting in settings(kind, text):
            path = setting.path
            listed = any(_LISTS.search(key) for key in path) or "optional-dependencies" in path or "requires" in path
            poetry = path[:2] == ("tool", "poetry")
            if poetry and len(path) > 2 and path[-2] == "dependencies":
                yield Requirement(normalised(path[-1]), setting.value, setting.start, setting.end, setting.end)
            elif listed and not poetry:
                found = requirement(setting.value, 0, len(setting.value))
                if found is not None:
                    yield _moved(found, setting.start)
    elif kind is Kind.SETUP_CFG:
        yield from _in_setup_cfg(text)
    elif kind is Kind.CONDA:
        for setting in settings(kind, text):
            if setting.key in ("dependencies", "pip"):
                value = setting.value
                at = value.find("::") + 2 if "::" in value else 0
                found = requirement(value, at, len(value))
                if found is not None:
                    yield _moved(found, setting.start)
    else:
        for command in commands_of(context):
            if not prints_text(command):
                yield from in_command(command)


def _moved(found: Requirement, by: int) -> Requirement:
    return found._replace(start=found.start + by, end=found.end + by, line_end=found.line_end + by)


def _in_setup_cfg(text: str) -> Iterator[Requirement]:
    """Yield the requirements of `setup.cfg`: the indented lines below a key that lists some."""
    listing = False
    at = 0
    for line in text.splitlines(keepends=True):
        match = _SETUP_CFG_LIST.match(line) if line[:1] not in " \t" else None
        if line.startswith("["):
            listing = "extras_require" in line
        elif match is not None:
            key = line.partition("=")[0].strip()
            listing = bool(_LISTS.match(key)) or (listing and not key.startswith(("name", "version")))
            if listing and match.group(1):
                yield from in_lines(text, at + match.start(1), at + match.end(1))
        elif listing and line[:1] in " \t":
            yield from in_lines(text, at, at + len(line))
        at += len(line)


def _in_setup(context: PythonContext) -> Iterator[Requirement]:
    """Yield requirements in Python: strings in `setup(...)`, in a list named for them, given to what installs."""
    for node in sorted(context.file.strings, key=lambda node: (node.lineno, node.col_offset)):
        if not isinstance(node.value, str) or not _in_list_of_requirements(context, node):
            continue
        start, end = context.file.span(node)
        inner = context.text[start:end]
        body = inner.lstrip("rRuUbB").strip("\"'")
        found = requirement(body, 0, len(body)) if "\n" not in inner else None
        if found is not None:
            yield _moved(found, start + inner.index(body))


def _in_list_of_requirements(context: PythonContext, node: ast.AST) -> bool:
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.Set, ast.IfExp)):
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
