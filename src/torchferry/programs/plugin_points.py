"""Entry points by which a project's own metadata name what its programs load: `[project.entry-points."lab.nets"]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from torchferry.core import toml
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.record import NamedTuple
from torchferry.programs.per_file import once_per_file
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_LOADERS = frozenset({
    "importlib.metadata.entry_points", "importlib_metadata.entry_points", "pkg_resources.iter_entry_points",
})  # fmt: skip
_WORDS = ("entry_points", "iter_entry_points")
WORDS = frozenset(_WORDS)
"""Names that a file holds which loads entry points."""

LOADING = frozenset({"importlib", "importlib_metadata", "pkg_resources"})
"""Packages that load entry points."""

_CHOOSES = frozenset({"select", "get"})


class PluginPoint(NamedTuple):
    """An entry point: its group and name, and the module and the object in it that it stands for."""

    group: str
    name: str
    module: str
    member: str


class PluginCall(NamedTuple):
    """A call that asks for entry points; None for a group or a name that is not written down."""

    node: ast.Call
    group: str | None
    name: str | None

    def may_give(self, point: PluginPoint) -> bool:
        """Whether the call may give an entry point."""
        return self.group in (None, point.group) and self.name in (None, point.name)

    def is_sure(self, points: tuple[PluginPoint, ...]) -> bool:
        """Whether it gives one of some entry points, and no other."""
        return self.group is not None and sum(map(self.may_give, points)) == 1


def plugin_points(root: Path) -> tuple[PluginPoint, ...]:
    """Return the entry points that the project in a folder declares; none of them a command."""
    try:
        text = read_regular(root / "pyproject.toml", LARGEST_SETTINGS).decode("utf-8", "replace")
        document = toml.loads(text) if "entry-points" in text or "plugins" in text else {}
    except (OSError, ValueError):
        return ()
    groups = (_table(document, "project", "entry-points"), _table(document, "tool", "poetry", "plugins"))
    return tuple(point for table in groups for point in _points(table))


def _table(document: object, *keys: str) -> dict[str, object]:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _points(groups: dict[str, object]) -> Iterator[PluginPoint]:
    for group, entries in groups.items():
        for name, value in entries.items() if isinstance(entries, dict) else ():
            if isinstance(value, str):
                module, _, member = value.partition("[")[0].strip().partition(":")
                yield PluginPoint(group, str(name), module.strip(), member.strip().partition(".")[0])


@once_per_file
def plugin_calls(file: PythonFile, names: Names) -> tuple[PluginCall, ...]:
    """Return the calls of a file that ask for entry points."""
    calls = (call for word in _WORDS for call in file.calls_by_name(word))
    return tuple(_call(file, call) for call in calls if names.qualified(call.func) in _LOADERS)


def _call(file: PythonFile, call: ast.Call) -> PluginCall:
    chosen = {keyword.arg: keyword.value for keyword in call.keywords}
    chosen |= dict(zip(("group", "name"), call.args, strict=False))
    around = file.parents.get(call)
    outer = file.parents.get(around) if isinstance(around, ast.Attribute) and around.attr in _CHOOSES else None
    if isinstance(outer, ast.Call):
        chosen |= {keyword.arg: keyword.value for keyword in outer.keywords}
        if outer.args:
            chosen["group"] = outer.args[0]
    elif isinstance(around, ast.Subscript) and around.value is call:
        chosen["group"] = around.slice
    group, name = (string_value(chosen[key]) if key in chosen else None for key in ("group", "name"))
    return PluginCall(call, group, name)
