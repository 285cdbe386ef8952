"""The constants that objects keep in attributes of their own, for all programs of a project.

Options of programs are often kept so: one class of them says `self.is_train = True`, another one False. What a file
stores does not depend on the program that asks, so that each file is looked into once for a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.programs.around import around
from torchferry.programs.sources import Sources
from torchferry.programs.switches import UNSAID, Value
from torchferry.source.names import assigned_value
from torchferry.source.python import PythonFile


class OwnConstants:
    """Says which constant an attribute has, wherever it is stored.

    Args:
        sources: The project's files.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._stores: dict[tuple[str, str], tuple[Value, ...] | None] = {}

    def agreed(self, name: str, paths: Iterable[str]) -> Value:
        """Return the constant that objects give an attribute themselves; `UNSAID` unless all of some files agree."""
        words = self._sources.words
        if words.storing_constant(name).isdisjoint(paths):
            return UNSAID
        constants: list[Value] = []
        speaking = words.as_attribute(name)
        for path in paths:
            stored = self._stored(path, name) if path in speaking else ()
            if stored is None:
                return UNSAID
            constants += stored
        first = constants[0] if constants else UNSAID
        return first if all(type(value) is type(first) and value == first for value in constants) else UNSAID

    def _stored(self, path: str, name: str) -> tuple[Value, ...] | None:
        """Return the constants that a file stores under a name; None where it may store something else."""
        if (path, name) not in self._stores:
            loaded = self._sources.file(path)
            self._stores[path, name] = _stored_in(loaded[0], name) if loaded is not None else ()
        return self._stores[path, name]


def _stored_in(file: PythonFile, name: str) -> tuple[Value, ...] | None:
    constants: list[Value] = []
    for store in file.attributes.get(name, ()):
        value = None if isinstance(store.ctx, ast.Load) else assigned_value(file, store)
        handed_on = isinstance(value, ast.Attribute) and value.attr == name
        if isinstance(store.ctx, ast.Load) or handed_on:
            continue
        own = isinstance(store.value, ast.Name) and store.value.id == "self"
        if not own or not isinstance(value, ast.Constant) or around(file, store).tests:
            return None
        if "setattr(self" in file.source.text:
            return None
        constants.append(value.value)
    return tuple(constants)
