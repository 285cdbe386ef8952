"""The entry points that a setup.py lists: in the call of `setup`, in tables that are made before it, in a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.computed_names import HOLE
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

SCRIPT_GROUPS = ("console_scripts", "gui_scripts")
"""Groups whose entry points are commands."""

ANY_GROUP = "*"
"""Stands for the group of entry points of which nothing is told."""

TextsOf = Callable[[PythonFile, Names, ast.expr], tuple[str, ...]]
"""Returns the texts that an expression may have, with `HOLE` in what cannot be told."""

_OBJECT = re.compile(r"[\w.]+(?:[ \t]*:[ \t]*[\w.]+)?(?:[ \t]*\[[^\]\n]*\])?")
_ADDS = frozenset({"append", "extend", "insert"})

_DEEPEST = 12
"""Variables and parts of expressions that are followed to an entry point."""

_MOST_STEPS = 5_000
"""Expressions of one file that are looked at."""


class DeclaredPoint(NamedTuple):
    """An entry point: its group, its name, and the object; the latter are empty for one that cannot be told."""

    group: str
    name: str
    value: str


UNTOLD_POINT = DeclaredPoint(ANY_GROUP, "", "")
"""Stands for the entry points of a text that was not read or not understood."""


def points_in_lines(group: str, lines: Iterable[str]) -> Iterator[DeclaredPoint]:
    """Yield the entry points of a group, each on a line: `name = package.module:object [extra]`."""
    for line in lines:
        name, equals, value = line.strip().partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or name.startswith(("#", ";")):
            continue
        yield DeclaredPoint(group, name, value) if _OBJECT.fullmatch(value) else DeclaredPoint(group, "", "")


def points_in_text(text: str) -> Iterator[DeclaredPoint]:
    """Yield the entry points of a text whose sections are groups: `[console_scripts]`, and entries below it."""
    group = ""
    for line in map(str.strip, text.split("\n")):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group:
            yield from points_in_lines(group, [line])


def setup_points(
    project: Project, path: str, text: str, texts: TextsOf, read: Callable[[str], str]
) -> Iterator[DeclaredPoint]:
    """Yield the entry points of a setup.py.

    Args:
        project: The project's Python files.
        path: The file.
        text: Its text.
        texts: Returns the texts that an expression may have.
        read: Returns the text of a file that it names; empty where there is none.
    """
    if not any(word in text for word in ("entry_points", *SCRIPT_GROUPS)):
        return
    loaded = project.file(path)
    yield from [UNTOLD_POINT] if loaded is None else _SetupScript(project, texts, read).points(*loaded)


class _SetupPlace(NamedTuple):
    """An expression in a file, and how many steps led to it."""

    file: PythonFile
    names: Names
    node: ast.expr
    depth: int = 0

    def at(self, node: ast.expr) -> _SetupPlace:
        """Return another expression of the file, one step further."""
        return self._replace(node=node, depth=self.depth + 1)


class _SetupScript:
    def __init__(self, project: Project, texts: TextsOf, read: Callable[[str], str]) -> None:
        self._project = project
        self._texts = texts
        self._read = read
        self._steps = 0

    def points(self, file: PythonFile, names: Names) -> Iterator[DeclaredPoint]:
        """Yield the entry points, wherever the file lists them."""
        for node in nodes_in(file.tree):
            if isinstance(node, ast.Dict):
                yield from self._of_dictionary(_SetupPlace(file, names, node))
            elif isinstance(node, ast.keyword):
                yield from self._of_named(node.arg or "", _SetupPlace(file, names, node.value))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    key = string_value(target.slice) if isinstance(target, ast.Subscript) else last_name(target)
                    if key == "entry_points" and isinstance(target, ast.Name):
                        continue  # where it is used says what it is
                    yield from self._of_named(key or "", _SetupPlace(file, names, node.value))
            elif isinstance(node, ast.Constant) and (listed := string_value(node)) is not None:
                if any(f"[{group}]" in listed for group in SCRIPT_GROUPS):
                    yield from points_in_text(listed)

    def _of_dictionary(self, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield what a dictionary lists: the arguments of `setup`, or groups, among which are scripts."""
        assert isinstance(place.node, ast.Dict)
        keys = [string_value(key) for key in place.node.keys if key is not None]
        for key, value in zip(place.node.keys, place.node.values, strict=True):
            if key is not None and string_value(key) == "entry_points":
                yield from self._groups(place.at(value))
        if any(key in SCRIPT_GROUPS for key in keys):
            yield from self._groups(place)

    def _of_named(self, name: str, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield what is given to an argument or a variable of this name."""
        if name == "entry_points":
            yield from self._groups(place)
        elif name in SCRIPT_GROUPS:
            yield from self._entries(name, place)

    def _is_spent(self, place: _SetupPlace) -> bool:
        self._steps += 1
        return place.depth > _DEEPEST or self._steps > _MOST_STEPS

    # --- groups: a dictionary of lists, or a text with sections ---

    def _groups(self, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield the entry points of an expression that holds groups."""
        node = place.node
        if self._is_spent(place):
            yield UNTOLD_POINT
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self._groups(place.at(value))
                    continue
                for group in self._texts(place.file, place.names, key):
                    yield from self._entries(ANY_GROUP if HOLE in group else group, place.at(value))
        elif isinstance(node, ast.Constant):
            yield from points_in_text(string_value(node) or "")
        elif isinstance(node, ast.Name):
            yield from self._groups_of_variable(place)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.Add)):
            for side in (node.left, node.right):
                yield from self._groups(place.at(side))
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            for choice in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                yield from self._groups(place.at(choice))
        elif isinstance(node, ast.Call) and last_name(node.func) in ("dict", "OrderedDict", "defaultdict"):
            for argument in node.args if last_name(node.func) != "defaultdict" else node.args[1:]:
                yield from self._groups(place.at(argument))
            for keyword in node.keywords:
                inner = place.at(keyword.value)
                yield from self._entries(keyword.arg, inner) if keyword.arg is not None else self._groups(inner)
        elif isinstance(node, ast.Call) and last_name(node.func) in ("read", "read_text"):
            yield from self._in_files(place)
        else:
            yield from self._in_texts(ANY_GROUP, place)

    def _groups_of_variable(self, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        assert isinstance(place.node, ast.Name)
        for value in self._values(place):
            yield from self._groups(value) if value is not None else [UNTOLD_POINT]
        for name in place.file.names.get(place.node.id, ()):
            held = place.file.parents.get(name)
            if isinstance(held, ast.Subscript) and held.value is name:  # groups["lab.nets"] = [...]
                yield from self._added(place, held, [held.slice])
            elif isinstance(held, ast.Attribute) and isinstance(call := place.file.parents.get(held), ast.Call):
                if held.attr == "setdefault" and call.args:  # groups.setdefault("lab.nets", []).append(...)
                    yield from self._added(place, call, call.args)
                elif held.attr == "update":
                    for argument in call.args:
                        yield from self._groups(place.at(argument))
                    for keyword in call.keywords:
                        yield from self._entries(keyword.arg or ANY_GROUP, place.at(keyword.value))

    def _added(self, place: _SetupPlace, held: ast.expr, asked: list[ast.expr]) -> Iterator[DeclaredPoint]:
        """Yield what is assigned or added to the list of a group: `asked` is its name, and what it is at first."""
        parent = place.file.parents.get(held)
        outer = place.file.parents.get(parent) if isinstance(parent, ast.Attribute) else None
        given = asked[1:]
        if isinstance(parent, (ast.Assign, ast.AugAssign)) and parent.value is not held:
            given = [parent.value]
        elif isinstance(parent, ast.Attribute) and parent.attr in _ADDS and isinstance(outer, ast.Call):
            given = [*given, *outer.args[-1:]]
        for group in self._texts(place.file, place.names, asked[0]):
            for value in given:
                yield from self._entries(ANY_GROUP if HOLE in group else group, place.at(value))

    def _in_files(self, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield what a file lists that an expression reads."""
        named = [text for part in nodes_in(place.node) if (text := string_value(part))]
        texts = [text for text in map(self._read, named) if text]
        for text in texts:
            yield from points_in_text(text)
        if not texts:
            yield UNTOLD_POINT

    # --- the entries of a group ---

    def _entries(self, group: str, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield the entry points of an expression that lists those of a group."""
        node = place.node
        if self._is_spent(place):
            yield DeclaredPoint(group, "", "")
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for part in node.elts:
                inner = place.at(part.value if isinstance(part, ast.Starred) else part)
                yield from self._entries(group, inner) if isinstance(part, ast.Starred) else self._entry(group, inner)
        elif isinstance(node, ast.Constant):
            yield from points_in_lines(group, (string_value(node) or "").split("\n"))
        elif isinstance(node, ast.Name):
            for value in self._values(place):
                yield from self._entries(group, value) if value is not None else [DeclaredPoint(group, "", "")]
            for name in place.file.names.get(node.id, ()):
                yield from self._added_to_list(group, place, name)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for side in (node.left, node.right):
                yield from self._entries(group, place.at(side))
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            for choice in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                yield from self._entries(group, place.at(choice))
        elif isinstance(node, ast.Call) and last_name(node.func) in ("list", "tuple", "sorted", "set") and node.args:
            yield from self._entries(group, place.at(node.args[0]))
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            yield from self._comprehended(group, place.at(node.elt), node.generators)
        else:
            yield from self._in_texts(group, place)

    def _comprehended(
        self, group: str, place: _SetupPlace, generators: Sequence[ast.comprehension]
    ) -> Iterator[DeclaredPoint]:
        """Yield the entry points of a comprehension: `f"{name} = lab.nets:{name}"` has one name in both places."""
        target = generators[0].target if len(generators) == 1 else None
        if not isinstance(place.node, ast.JoinedStr) or not isinstance(target, ast.Name):
            yield from self._entry(group, place)
            return
        inside = [part.value for part in place.node.values if isinstance(part, ast.FormattedValue)]
        own = [value for value in inside if isinstance(value, ast.Name) and value.id == target.id]
        for item in self._texts(place.file, place.names, own[0]) if own else (HOLE,):
            parts = []
            for part in place.node.values:
                value = part.value if isinstance(part, ast.FormattedValue) else part
                texts = (item,) if value in own else self._texts(place.file, place.names, value)
                parts.append(texts[0] if len(texts) == 1 else HOLE)
            yield from self._of_text(group, "".join(parts))

    def _entry(self, group: str, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield the entry points of an expression that is one line, or several."""
        for text in self._texts(place.file, place.names, place.node):
            yield from self._of_text(group, text)

    @staticmethod
    def _of_text(group: str, text: str) -> Iterator[DeclaredPoint]:
        if HOLE in text:
            yield DeclaredPoint(group, "", "")
        else:
            yield from points_in_lines(group, text.split("\n"))

    def _added_to_list(self, group: str, place: _SetupPlace, name: ast.Name) -> Iterator[DeclaredPoint]:
        held = place.file.parents.get(name)
        call = place.file.parents.get(held) if isinstance(held, ast.Attribute) and held.attr in _ADDS else None
        if isinstance(held, ast.AugAssign) and held.target is name:
            yield from self._entries(group, place.at(held.value))
        elif isinstance(call, ast.Call) and call.args:
            added = place.at(call.args[-1])
            is_list = isinstance(held, ast.Attribute) and held.attr == "extend"
            yield from self._entries(group, added) if is_list else self._entry(group, added)

    def _in_texts(self, group: str, place: _SetupPlace) -> Iterator[DeclaredPoint]:
        """Yield the entry points in the texts of an expression that is not understood; there may be more."""
        yield DeclaredPoint(group, "", "")
        for part in nodes_in(place.node):
            yield from points_in_lines(group, (string_value(part) or "").split("\n"))

    # --- variables ---

    def _values(self, place: _SetupPlace) -> Iterator[_SetupPlace | None]:
        """Yield what a variable is assigned, in another file of the project too; None for what cannot be told."""
        assert isinstance(place.node, ast.Name)
        bindings = place.names.bindings(place.node)
        if not bindings:
            yield None
        for binding in bindings:
            parent = place.file.parents.get(binding)
            if isinstance(binding, ast.alias):
                yield from self._imported(place)
            elif not (isinstance(parent, ast.AugAssign) and parent.target is binding):
                value = assigned_value(place.file, binding)
                yield place.at(value) if value is not None else None

    def _imported(self, place: _SetupPlace) -> Iterator[_SetupPlace | None]:
        module, _, member = (place.names.qualified(place.node) or "").rpartition(".")
        path = self._project.module_path(module, place.file.path) if module.strip(".") else None
        loaded = self._project.file(path) if path is not None else None
        bindings = loaded[1].module_bindings(member) if loaded is not None else []
        values = [assigned_value(loaded[0], binding) for binding in bindings] if loaded is not None else []
        for value in values or [None]:
            yield _SetupPlace(*loaded, value, place.depth + 1) if value is not None and loaded is not None else None
