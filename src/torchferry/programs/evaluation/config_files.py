"""What settings files say, key by key: YAML, JSON and TOML, each parsed when a program asks for it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchferry.core.files import read_regular
from torchferry.core.json_text import JSONError, parsed_json
from torchferry.core.toml import TOMLDecodeError, loads
from torchferry.programs.imports.instantiations import SettingsNames
from torchferry.programs.imports.settings_classes import SettingsFiles
from torchferry.programs.options.switches import UNDETERMINED, Value, read_scalar
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import callee
from torchferry.source.names import Names
from torchferry.source.python import PythonFile
from torchferry.source.yamltext import yaml_settings

_MOST_SCALARS = 100_000
"""Values of one file; a larger one is data."""

NO_KEY = object()
"""Stands for a key that a file does not have."""

GROUP = object()
"""Stands for a key with keys below it."""

_TAKES_IN = re.compile(
    r"(?:^|[\s{,\"'])(?:<<|_?base_?(?:_config)?|includes?|inherits?|extends|defaults)[\"']?[ \t]*:|!include",
    re.MULTILINE | re.IGNORECASE,
)
"""What says that a file takes in others: what it does not have may be there."""


class ConfigFiles:
    """Looks keys up in the settings files of a project.

    Args:
        files: The settings files.
        names: The dotted names in them.
    """

    def __init__(self, files: SettingsFiles, names: SettingsNames) -> None:
        self.files = files
        self.names = names
        self._said: dict[str, Mapping[tuple[str, ...], Value] | None] = {}

    def value(self, path: str, keys: tuple[str, ...], *, is_composed: bool = False) -> Value:
        """Return what a file has under some keys.

        `GROUP` where there are keys below, `NO_KEY` where there is nothing, `UNDETERMINED` if it is unknown.

        Args:
            path: The file.
            keys: The keys, the outermost first.
            is_composed: Whether what it takes in is looked at by itself.
        """
        values = self._of(path)
        if values is None:
            return UNDETERMINED
        if keys in values:
            return values[keys]
        is_open = any(values.get(keys[:end]) is UNDETERMINED for end in range(len(keys)))
        takes_in = not is_composed and _TAKES_IN.search(self.files.text(path)) is not None
        return UNDETERMINED if is_open or takes_in else NO_KEY

    def keys_below(self, path: str, keys: tuple[str, ...]) -> frozenset[str] | None:
        """Return the keys that a file has below others; None if it is unknown."""
        values = self._of(path)
        if values is None or _TAKES_IN.search(self.files.text(path)) is not None or values.get(keys) is UNDETERMINED:
            return None
        depth = len(keys)
        return frozenset(each[depth] for each in values if len(each) > depth and each[:depth] == keys)

    def is_last(self, path: str) -> bool:
        """Whether hydra puts what a file says itself behind all that it takes in: what it says then counts."""
        _, _, behind = self.files.text(path).partition("- _self_")
        rest = behind.lstrip(" \t").partition("\n")[2].lstrip()
        return not rest.startswith("- ")

    def _of(self, path: str) -> Mapping[tuple[str, ...], Value] | None:
        if path not in self._said:
            self._said[path] = _read(path, self.files.text(path))
        return self._said[path]


def _read(path: str, text: str) -> Mapping[tuple[str, ...], Value] | None:
    """Return the values of a file by their keys; None where it cannot be read."""
    if path.endswith(".toml"):
        try:
            return _flat(loads(text))
        except TOMLDecodeError:
            return None
    if path.endswith(".json"):
        try:
            return _flat(parsed_json(text))
        except JSONError:
            pass  # with comments it is YAML to us
    return _of_yaml(text)


def _flat(document: Any) -> Mapping[tuple[str, ...], Value] | None:
    values: dict[tuple[str, ...], Value] = {}
    todo: list[tuple[tuple[str, ...], Any]] = [((), document)]
    while todo:
        keys, value = todo.pop()
        if len(values) > _MOST_SCALARS:
            return None
        if isinstance(value, dict):
            values[keys] = GROUP
            todo += (((*keys, str(key)), inner) for key, inner in value.items())
        elif isinstance(value, list):
            values[keys] = UNDETERMINED if value else ()
        else:
            values[keys] = value
    return values


_LINE = re.compile(
    r"(?P<indent> *)(?P<item>(?:- +)*)[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?[ \t]*:(?=[ \t\r]|\Z)(?P<value>.*)"
)
_NOTHING = re.compile(r"[ \t]*(?:#.*)?\r?\Z")
_NO_KEYS = re.compile(r"[ \t]*(?:\{[ \t]*\}|(?P<list>\[[ \t]*\]))[ \t]*(?:#.*)?\r?\Z")
_BLOCK = re.compile(r"[ \t]*[|>]")


def _of_yaml(text: str) -> Mapping[tuple[str, ...], Value] | None:
    values: dict[tuple[str, ...], Value] = {(): GROUP}
    for setting in yaml_settings(text):
        if len(values) > _MOST_SCALARS:
            return None
        for end in range(1, len(setting.path)):
            values.setdefault(setting.path[:end], GROUP)
        is_text = setting.start > 0 and text[setting.start - 1] in ("'", '"')
        value: Value = setting.value if is_text else read_scalar(setting.value)
        if setting.path:  # an item of a list, or a key that is said twice, is not told
            values[setting.path] = UNDETERMINED if setting.path in values else value
    for keys, value in _other_keys(text):
        values.setdefault(keys, value)
    return values


def _other_keys(text: str) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Yield the keys of YAML that have no scalar on their line: nothing, an empty table, or what is not read.

    That is a text of several lines, or an alias of what is elsewhere.
    """
    levels: list[tuple[int, str]] = []
    block = -1
    for line in text.split("\n"):
        match = _LINE.match(line)
        indent = len(line) - len(line.lstrip(" "))
        if block >= 0 and (indent > block or not line.strip()):
            continue
        block = -1
        if match is None:
            continue
        column = len(match["indent"]) + len(match["item"])
        while levels and levels[-1][0] >= column:
            levels.pop()
        levels.append((column, match["key"]))
        keys, value = tuple(key for _, key in levels), match["value"]
        empty = _NO_KEYS.match(value)
        if _NOTHING.match(value) is not None:
            yield keys, None
        elif empty is not None:
            yield keys, () if empty["list"] else GROUP
        else:
            yield keys, UNDETERMINED
            block = indent if _BLOCK.match(value) is not None else -1


_LARGEST = 1_000_000


_MOST = 400


_MOST_FOLDERS = 4_000
"""Bytes of one file, files, and folders that are looked into; where there are more, nobody can tell what they give."""


def is_configurable(file: PythonFile, names: Names, function: FunctionNode) -> bool:
    """Whether gin gives a function, or the class that it makes objects of, what its calls leave out."""
    owner = file.parents.get(function)
    around_it = owner.decorator_list if isinstance(owner, ast.ClassDef) else []
    for decorator in (*function.decorator_list, *around_it):
        called = callee(decorator)
        if (names.qualified(called) or "").partition(".")[0] == "gin":
            return True
    return False


class GinBindings:
    """Answers what the files of gin in a project say.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._texts: list[str] | None = None

    def may_give(self, parameter: str) -> bool:
        """Whether a file may give a parameter something; also where none is read, as the user then brings one."""
        if self._texts is None:
            self._texts = self._read()
        pattern = re.compile(rf"(?m)^[^#\n=]{{0,400}}\.{re.escape(parameter)}[ \t]{{0,40}}=")
        return not self._texts or any(pattern.search(text) for text in self._texts)

    def _read(self) -> list[str]:
        """Return the texts of all files; none where one of them is not read."""
        texts: list[str] = []
        for number, (folder, folders, files) in enumerate(os.walk(self._root)):
            if number > _MOST_FOLDERS:
                return []
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in sorted(files):
                if name.endswith(".gin"):
                    if len(texts) >= _MOST:
                        return []
                    try:
                        texts.append(read_regular(Path(folder, name), _LARGEST).decode("utf-8", "replace"))
                    except OSError:
                        return []
        return texts
