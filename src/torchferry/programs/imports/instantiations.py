"""Where files make objects of what settings name: `instantiate(cfg.model)`, `get_class(cfg.kind)`, `LightningCLI()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from torchferry.core.budget import TooCostlyError
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.computed_names import LOCATORS
from torchferry.programs.imports.plugin_loading import plugin_calls
from torchferry.programs.imports.settings_classes import SettingsFiles
from torchferry.programs.syntax.per_file import once_per_file
from torchferry.rules.library.named_in_settings import names_in_tags
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import import_calls
from torchferry.source.kinds import Kind
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile
from torchferry.source.settings import settings

TARGET = "_target_"
"""What hydra calls the class of which an object is made."""

_HYDRA = frozenset({"instantiate", "call"})
_OF_HYDRA = ("hydra.", "hydra_zen.", "detectron2.config.")
_WHOLE = frozenset({"LightningCLI", "CLI"})
"""What makes objects of all that its settings name."""

_LOADS_TAGS = frozenset({"unsafe_load", "load", "unsafe_load_all", "load_all"})
_PLAIN_LOADERS = frozenset({"SafeLoader", "CSafeLoader", "BaseLoader", "FullLoader", "CFullLoader"})

WORDS = frozenset({*_HYDRA, *_WHOLE, *_LOADS_TAGS, *LOCATORS})
"""Names that a file holds which makes objects so, where it imports one of `LIBRARIES`."""

IMPORTS_BY_NAME = frozenset({"import_module", "__import__"})

LIBRARIES = frozenset({
    "detectron2", "hydra", "hydra_zen", "jsonargparse", "lightning", "pkgutil", "pydoc", "pytorch_lightning", "yaml",
})  # fmt: skip
"""Packages without one of which, and without a call that imports by a name, no file makes objects so."""

_APART = frozenset({"rsplit", "split", "rpartition", "partition"})
_TABLES = frozenset({"values", "items"})
_MOST_STEPS = 10

_PLACED = lazy_regex(r"(?m)^[ \t]*-[ \t]+(?:(?:optional|override)[ \t]+)*[\w/.-]+@[\w.]|#[ \t]*@package[ \t]")


class SettingsName(NamedTuple):
    """A dotted name in a settings file.

    Attributes:
        path: The file.
        line: Its line there.
        keys: The keys that lead to it.
        name: The name.
        is_tag: Whether a tag of PyYAML says it: `!!python/object/apply:nets.Net`.
        is_placed: Whether settings may say below which keys hydra puts the file: not below the name of its folder.
    """

    path: str
    line: int
    keys: tuple[str, ...]
    name: str
    is_tag: bool = False
    is_placed: bool = False


class Instantiation(NamedTuple):
    """A call that makes an object of what settings name.

    Attributes:
        node: What represents the call; what it is given does not go to the class that is named.
        of: The settings that it is given; None where it is given a name, or nothing.
        name: The name that it is given.
        is_each: Whether it is given what is below `of`, key by key.
        by_tag: Whether only tags of PyYAML are meant.
    """

    node: ast.expr
    of: ast.expr | None = None
    name: ast.expr | None = None
    is_each: bool = False
    by_tag: bool = False

    def tests(self, named: SettingsName) -> Iterator[ast.Compare | None]:
        """Yield the conditions of which one holds where the call makes what a name says; None where it surely does."""
        if named.is_tag is not self.by_tag:
            return
        if self.name is not None:
            word = last_key(self.name)
            if not word or word in named.keys:
                yield _equal(self.name, (), named.name)
        elif self.of is None:
            yield None
        elif named.keys[-1:] == (TARGET,):
            for rest in self.below(named):
                yield _equal(self.of, rest, named.name)

    def below(self, named: SettingsName) -> Iterator[tuple[str, ...]]:
        """Yield the keys that may lead from the settings that the call is given to the name.

        The file itself may be below further keys, as hydra puts it there.
        """
        word, keys = last_key(self.of), named.keys
        begins = [number + 1 for number, key in enumerate(keys) if key == word] if word else range(len(keys))
        if not begins and (named.is_placed or word in named.path.replace(".", "/").split("/")):
            begins = [0]
        yield from (keys[begin:] for begin in begins if len(keys) - begin > self.is_each)


def _equal(of: ast.expr, keys: tuple[str, ...], name: str) -> ast.Compare:
    """Return the comparison of what settings say below some keys with a name; it is in no file."""
    asked = of
    for key in keys:
        asked = ast.Subscript(asked, ast.Constant(key), ast.Load())
    return ast.copy_location(ast.Compare(asked, [ast.Eq()], [ast.Constant(name)]), of)


def last_key(node: ast.expr | None) -> str:
    """Return the key by which an expression takes something out of settings; empty where it is not told."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return string_value(node.slice) or ""
    if isinstance(node, ast.Call) and last_name(node.func) == "get" and node.args:
        return string_value(node.args[0]) or ""
    return ""


@once_per_file
def find_instantiations(file: PythonFile, names: Names) -> tuple[Instantiation, ...]:
    """Return the calls of a file that make objects of what settings name."""
    return tuple(_makings(file, names))


def naming(file: PythonFile, names: Names) -> Iterator[ast.expr]:
    """Yield what imports a module of which something is named elsewhere, or in a text that settings take in."""
    yield from (making.node for making in find_instantiations(file, names))
    yield from (call.node for call in plugin_calls(file, names))
    yield from (each for each in file.strings if "." in str(each.value)) if TARGET in file.source.text else ()


def _makings(file: PythonFile, names: Names) -> Iterator[Instantiation]:
    for word in sorted(_HYDRA):
        for call in file.calls_by_name(word):
            qualified, given = names.qualified(call.func) or "", _given(call, "config")
            if qualified.startswith(_OF_HYDRA) and given is not None:
                table = _gone_through(file, names, given)
                yield Instantiation(given, table or given, is_each=table is not None)
    for word, functions in LOCATORS.items():
        for call in file.calls_by_name(word):
            if names.qualified(call.func) in functions and (given := _given(call, "path")) is not None:
                yield Instantiation(given, name=given)
    for call in import_calls(file):
        given = _given(call, "name")
        if given is not None:
            whole, is_part = whole_name(file, names, given)
            if is_part:
                yield Instantiation(given, name=whole)
    derived = {owner.name for owner in file.classes if any(last_name(base) in _WHOLE for base in owner.bases)}
    for word in sorted(_WHOLE | derived):
        for call in file.calls_by_name(word):
            if (
                word in derived
                or (names.qualified(call.func) or "").endswith(f"cli.{word}")
                or _is_of_parser(names, call)
            ):
                yield Instantiation(call)
    for word in sorted(_LOADS_TAGS):
        for call in file.calls_by_name(word):
            if (names.qualified(call.func) or "").startswith("yaml.") and not _is_plain(call):
                yield Instantiation(call, by_tag=True)


def _is_of_parser(names: Names, call: ast.Call) -> bool:
    return (names.qualified(call.func) or "").partition(".")[0] == "jsonargparse"


def _is_plain(call: ast.Call) -> bool:
    """Whether a call of PyYAML makes no objects of the classes that tags name."""
    given = [*call.args[1:], *(part.value for part in call.keywords if part.arg == "Loader")]
    return any(last_name(each) in _PLAIN_LOADERS for each in given)


def _given(call: ast.Call, keyword: str) -> ast.expr | None:
    named = (part.value for part in call.keywords if part.arg == keyword)
    given = call.args[0] if call.args else next(named, None)
    return None if isinstance(given, (ast.Constant, ast.Starred)) else given


def _gone_through(file: PythonFile, names: Names, node: ast.expr) -> ast.expr | None:
    """Return the table whose values a variable takes one by one: `for c in cfg.callbacks.values()`."""
    bindings = names.reaching_bindings(node) if isinstance(node, ast.Name) else []
    binding: ast.AST | None = bindings[0] if len(bindings) == 1 else None
    around = file.parents.get(binding) if binding is not None else None
    if isinstance(around, ast.Tuple) and around.elts[-1] is binding:
        binding, around = around, file.parents.get(around)
    if not isinstance(around, (ast.For, ast.AsyncFor, ast.comprehension)) or around.target is not binding:
        return None
    through = around.iter
    is_table = isinstance(through, ast.Call) and isinstance(through.func, ast.Attribute) and not through.args
    return through.func.value if is_table and through.func.attr in _TABLES else None  # type: ignore[attr-defined]


def whole_name(file: PythonFile, names: Names, node: ast.expr) -> tuple[ast.expr, bool]:
    """Return the dotted name of which an expression is a part, and whether it is one: of `path.rsplit(".", 1)`."""
    is_part = False
    for _ in range(_MOST_STEPS):
        inner: ast.expr | None = None
        if isinstance(node, ast.Name):
            bindings = names.reaching_bindings(node)
            inner = _assigned(file, bindings[0]) if len(bindings) == 1 else None
        elif isinstance(node, ast.Subscript) and string_value(node.slice) is None:
            inner = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _APART:
                inner, is_part = node.func.value, True
            elif node.func.attr == "join" and len(node.args) == 1:
                inner = node.args[0]
        if inner is None:
            break
        node = inner
    return node, is_part


def _assigned(file: PythonFile, binding: ast.AST) -> ast.expr | None:
    """Return what an assignment gives a name, or takes apart for it and others."""
    parent = file.parents.get(binding)
    if isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
        outer = file.parents.get(parent)
        parent = file.parents.get(outer) if isinstance(parent, ast.Starred) and outer is not None else outer
        value = parent.value if isinstance(parent, ast.Assign) else None
        return value if isinstance(value, ast.Call) else assigned_value(file, binding)
    return assigned_value(file, binding)


class SettingsNames:
    """The dotted names in the settings files of a project, by the last part of each.

    Args:
        files: The settings files.
    """

    def __init__(self, files: SettingsFiles) -> None:
        self._files = files
        self._in_file: dict[str, tuple[SettingsName, ...]] = {}

    def ending_with(self, member: str) -> list[SettingsName]:
        """Return the names that end with a dot and a name, or the name and that of a method."""
        return self._by_last.get(member, [])

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._by_last)

    def at(self, path: str, line: int) -> Iterator[SettingsName]:
        """Yield the names on a line of a file."""
        return (named for named in self._of(path) if named.line == line)

    @cached_property
    def _by_last(self) -> dict[str, list[SettingsName]]:
        by_last: dict[str, list[SettingsName]] = {}
        for path in sorted(self._files.paths):
            for named in self._of(path):
                for part in named.name.split(".")[-2:]:
                    by_last.setdefault(part, []).append(named)
        return by_last

    def _of(self, path: str) -> tuple[SettingsName, ...]:
        if path not in self._in_file:
            self._in_file[path] = tuple(self._names_in(path))
        return self._in_file[path]

    @cached_property
    def _are_placed(self) -> bool:
        """Whether settings say below which keys hydra puts others: `- model@net: small`."""
        return any(_PLACED.search(self._files.text(path)) is not None for path in self._files.paths)

    def _names_in(self, path: str) -> Iterator[SettingsName]:
        text = self._files.text(path)
        lines = _LineCount(text)
        if not self._files.dotted_in(path) and "!!python/" not in text:
            return
        try:
            for setting in settings(Kind.JSON if path.endswith(".json") else Kind.YAML, text):
                parts = setting.value.split(".")
                if len(parts) > 1 and all(part.isidentifier() for part in parts):
                    line = lines.at(setting.start)
                    yield SettingsName(path, line, setting.path, setting.value, is_placed=self._are_placed)
        except TooCostlyError:  # its findings say so
            return
        lines = _LineCount(text)
        for tag in names_in_tags(text):
            yield SettingsName(path, lines.at(tag.start()), (), tag[1], is_tag=True)


class _LineCount:
    """Counts the lines of a text up to one offset after another.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset, self._line = 0, 1

    def at(self, offset: int) -> int:
        """Return the line of an offset, which lies behind the one that was asked for before."""
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = max(offset, self._offset)
        return self._line
