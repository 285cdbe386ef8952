"""Write a file with only the portable names that a project uses, from the modules that the installed form runs.

The definitions that these names need are taken as they are, with what those need in turn. Of the tables only the parts
stay that the definitions read, tests that no used name passes go, and texts are in English alone (`english.py`).
The same names always give the same file.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections import namedtuple
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from torchferry import __version__
from torchferry.backends import cuda
from torchferry.core.messages import Bilingual
from torchferry.core.vendored import FIRST, NAMES, SMALL
from torchferry.device.facts import DeviceFacts, DtypeFact, Name
from torchferry.device.one_file import _defines, _import_lines, _literal, _note_import, sealed
from torchferry.device.provider import vendors

_HERE = Path(__file__).parent
_MODULES = (
    "english",
    "../core/ranges",
    "../core/importable",
    "facts",
    "names",
    "presence",
    "dtypes",
    "randomness",
    "weights",
    "precision",
    "profiling",
    "ranks",
    "memory",
    "status",
    "portable",
)
"""The modules that definitions are taken from, in the order in which they are in the file."""

_SWITCHED = {
    "ACCELERATOR_TYPE", "amp", "channels_last", "channels_last_3d", "profile", "schedule", "tensorboard_trace_handler",
}  # fmt: skip
"""Portable names that `__getattr__` knows beside those of the table."""

_NOT_TAKEN = frozenset({"_refuse_redirect"})
"""Functions whose calls are left out: the file knows nothing of an installed torchferry."""

_ANNOTATIONS = (
    (re.compile(r"\bvendors\(\)"), "_DEVICES"),
    (re.compile(r"\bportable_names\(\)"), "_WITHOUT"),
    (re.compile(r"\b_paths\(\)"), "_PATHS"),
    (re.compile(r"\bBilingual\(\"\"\)"), '""'),
    (re.compile(r"\b(?:Bilingual|Message)\b"), "str"),
    (re.compile(r"\bplain\(((?:[^()]|\([^()]*\))*)\)"), r"\1"),
    (re.compile(r"\b(install|note|profiler_note|title)\.en\b"), r"\1"),
    (re.compile(r"\bstr\((say\((?:[^()]|\([^()]*\))*\))\)"), r"\1"),
    (re.compile(r"  # noqa: UP[^\n]*"), ""),
)
"""What becomes of texts in two languages."""

_HEADER = (
    FIRST
    + """ {version}{small}: `torchferry migrate --style portable` adds what more code uses.
# Copyright The torchferry authors. SPDX-License-Identifier: Apache-2.0 (http://www.apache.org/licenses/LICENSE-2.0)
{names}
# torchferry: ignore-file it serves every device, CUDA included, and a migration leaves it as it is
"""
)

_DOCUMENTATION = '''\
"""The device of this program, whichever vendor's it is.

It knows {vendors}, and the CPU.
The functions have the names and arguments of `torch.cuda`. The first device that is there is used;
PREFERRED_DEVICE=NAME[:INDEX] in the environment names another. It needs Python 3.8 and torch 1.10 or later.
"""
'''


_DEVICES_TEXT = '"""What is known of each device, in the order in which they are looked for; the CPU is the last."""\n'
_PATHS_TEXT = '"""The names of `torch.cuda` that are used, and what they are called below it."""\n'
_WITHOUT_TEXT = '"""What happens where a plugin lacks one."""\n'


class _Definition(NamedTuple):
    """One statement at the top of a module, without what no used name needs."""

    module: str
    names: tuple[str, ...]
    node: ast.stmt
    text: str


def offered() -> frozenset[str]:
    """Return the names that such a file can offer."""
    own = {
        name
        for definition in _definitions("portable")
        for name in definition.names
        if not name.startswith("_") and name not in ("chosen_kind", "forwarded")
    }
    return frozenset(own | _SWITCHED | {_last(path) for path in cuda.portable() if not path.startswith("nvtx.")})


def small_file(used: Collection[str]) -> str:
    """Return the text of a file with some portable names, and nothing that these do not need.

    Args:
        used: The names, each one of `offered()`.

    Raises:
        ValueError: a name is no portable one, or a definition needs what the file lacks.
    """
    unknown = sorted(set(used) - offered())
    if unknown:
        raise ValueError(f"no portable names: {', '.join(unknown)}")
    shaken = _Shaken(frozenset(used))
    imports: dict[str, set[str]] = {}
    for module in _MODULES:
        for statement in ast.parse((_HERE / f"{module}.py").read_text(encoding="utf-8")).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                _note_import(statement, imports, _HERE / f"{module}.py")
    body = shaken.body()
    tables = shaken.tables(body)
    names = {node.id for node in ast.walk(ast.parse(body + tables)) if isinstance(node, ast.Name)}
    kinds = vendors()
    gap = "\n" if body.startswith(("@", "class ", "def ")) else ""
    text = "\n".join(
        [
            _DOCUMENTATION.format(vendors=", ".join(facts.title.en for facts in kinds[:-1])),
            "from __future__ import annotations\n",
            "\n".join(_import_lines(imports, names)) + "\n",
            ("import torch\n\n" if "torch" in names else "") + gap + body + tables,
        ]
    )
    ast.parse(text, feature_version=(3, 8))
    listed = "\n".join(f"{NAMES}{line}" for line in textwrap.wrap(" ".join(sorted(used)), _WIDTH - len(NAMES)))
    return sealed(_HEADER.format(version=__version__, small=SMALL, names=listed) + text)


_WIDTH = 120


def _last(path: str) -> str:
    return path.rpartition(".")[2]


@lru_cache(maxsize=len(_MODULES))
def _definitions(module: str) -> tuple[_Definition, ...]:
    """Return the statements of a module that define something; a text below one belongs to it."""
    source = (_HERE / f"{module}.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    definitions: list[_Definition] = []
    for position, statement in enumerate(ast.parse(source, feature_version=(3, 8)).body):
        if position == 0 or isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.Expr):
            text = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
            definitions[-1] = definitions[-1]._replace(text=f"{definitions[-1].text}\n{text}")
            continue
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        text = "\n".join(lines[first - 1 : statement.end_lineno])
        definitions.append(_Definition(module, tuple(names) or (_defines(statement),), statement, text))
    return tuple(definitions)


class _Shaken:
    """The definitions that some names need."""

    def __init__(self, used: frozenset[str]) -> None:
        self.paths = {path: without for path, without in cuda.portable().items() if self._is_used(path, used)}
        self.used = used
        self.forwarded = {
            _last(path): path
            for path in self.paths
            if not path.startswith("nvtx.") and cuda.portable()[path] != "served"
        }
        self.definitions = {
            name: self._specialised(definition)
            for module in _MODULES
            for definition in _definitions(module)
            for name in definition.names
            if name != "_paths"  # a table here
        }
        own = {name for definition in _definitions("portable") for name in definition.names}
        roots = (used & own) | ({"__getattr__"} if used - own else set())
        self.taken, self.attributes = self._closure(roots)

    @staticmethod
    def _is_used(path: str, used: frozenset[str]) -> bool:
        return _last(path) in used or path.partition(".")[0] in used & {"nvtx", "amp"}

    # --- what a definition keeps ---

    def _specialised(self, definition: _Definition) -> _Definition:
        """Leave out the tests and entries that no used name, and no vendor, reaches."""
        node = definition.node
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and definition.names[0] in (
            "_IDLE_WITHOUT_CARD",
            "_WITHOUT_CARD",
        ):
            return self._table(definition)
        dropped: set[ast.stmt] = set()
        if isinstance(node, ast.FunctionDef):
            dropped = {inner for inner in ast.walk(node) if isinstance(inner, ast.If) and _never(inner.test)}
            if definition.module == "portable":
                dropped |= set(self._dropped(node))
        return self._plain(definition, dropped)

    def _dropped(self, function: ast.FunctionDef) -> Iterator[ast.stmt]:
        by_name = any(argument.arg == "name" for argument in function.args.args)
        for statement in function.body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _NOT_TAKEN:
                yield statement
            if by_name and isinstance(statement, ast.If) and not statement.orelse:
                if not any(self._passes(statement.test, name) for name in self.used | set(self.forwarded)):
                    yield statement

    def _passes(self, test: ast.expr, name: str) -> bool:
        """Whether a name passes a test; yes if it is unknown."""
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "endswith":
            return name.endswith(str(ast.literal_eval(test.args[0])))
        if not isinstance(test, ast.Compare):
            return True
        tested, right = ast.unparse(test.left), test.comparators[0]
        if tested == "portable_names()[path]":
            return self.paths.get(self.forwarded.get(name, "")) == str(ast.literal_eval(right))
        if tested != "name" or not isinstance(test.ops[0], (ast.In, ast.Eq)):
            return True
        if isinstance(test.ops[0], ast.Eq):
            return name == str(ast.literal_eval(right))
        if isinstance(right, ast.Call):  # of `_paths`
            return name in self.forwarded
        return name in (_value(right.id) if isinstance(right, ast.Name) else ast.literal_eval(right))

    def _table(self, definition: _Definition) -> _Definition:
        """Return a table of names with those that are used."""
        whole = _value(definition.names[0])
        name = definition.text.partition(" = ")[0]
        opening, closing, step = ("{\n", "}", "    ")
        if isinstance(whole, dict):
            items = [f'"{key}": {_literal(value, 0)}' for key, value in whole.items() if key in self.forwarded]
        else:
            items = [f'"{key}"' for key in whole if key in self.forwarded]
            opening, closing, step = ("frozenset(\n    {\n", "    }\n)", "        ")
        whole_line = f"{name} = " + (
            "{" + ", ".join(items) + "}" if closing == "}" else f"frozenset({{{', '.join(items)}}})"
        )
        text = f"{name} = {opening}" + "".join(f"{step}{item},\n" for item in items) + closing
        if items and len(whole_line) <= _WIDTH:
            text = whole_line
        below = definition.text.splitlines()[(definition.node.end_lineno or 0) - definition.node.lineno + 1 :]
        text = "\n".join([text, *below])
        return definition._replace(node=ast.parse(text).body[0], text=text)

    def _plain(self, definition: _Definition, dropped: set[ast.stmt]) -> _Definition:
        text = definition.text
        if dropped:
            first = min([definition.node.lineno, *(d.lineno for d in getattr(definition.node, "decorator_list", ()))])
            lines: list[str | None] = list(text.splitlines())
            for statement in dropped:
                for line in range(statement.lineno, (statement.end_lineno or 0) + 1):
                    lines[line - first] = None
            text = "\n".join(line for line in lines if line is not None)
        text = _first_paragraphs(text)
        if definition.module != "english":
            for pattern, replacement in _ANNOTATIONS:
                text = pattern.sub(replacement, text)
        return definition._replace(node=ast.parse(text).body[0], text=text)

    # --- what is needed ---

    def _closure(self, roots: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return the definitions that some names need, and the attributes that are read there."""
        taken, attributes = set(roots), set[str]()
        while True:
            before = len(taken), len(attributes)
            for name in sorted(taken):
                definition = self.definitions[name]
                for node in self._needed(definition, attributes):
                    if isinstance(node, ast.Name) and node.id == "_DEVICES":
                        taken.add("DeviceFacts")
                    elif isinstance(node, ast.Name) and self._means(definition.module, node.id):
                        taken.add(node.id)
                    elif isinstance(node, ast.Attribute) and _root(node) not in _FOREIGN:
                        attributes.add(node.attr)
            if before == (len(taken), len(attributes)):
                return taken, attributes

    def _means(self, module: str, name: str) -> bool:
        """Whether a name that a module uses is defined in one of the modules, rather than a variable of a function."""
        if name not in self.definitions:
            return False
        home = self.definitions[name].module
        return home in (module, "english") or name in _imported(module)

    def _needed(self, definition: _Definition, attributes: set[str]) -> Iterator[ast.AST]:
        if not _is_record(definition):
            yield from ast.walk(definition.node)
            return
        assert isinstance(definition.node, ast.ClassDef)
        for statement in definition.node.body:
            if not _field(statement) or _field(statement) in attributes:
                yield from ast.walk(statement)
        for base in definition.node.bases:
            yield from ast.walk(base)

    # --- what is written ---

    def body(self) -> str:
        """Return the definitions, in the order of their modules."""
        written: list[tuple[bool, str]] = []
        seen: set[str] = set()
        for module in _MODULES:
            for definition in _definitions(module):
                name = definition.names[0]
                if name in seen or not self.taken & set(definition.names):
                    continue
                seen.add(name)
                wanted = self.definitions[name]
                text = self._record(wanted) if _is_record(wanted) else wanted.text
                written.append((isinstance(wanted.node, (ast.FunctionDef, ast.ClassDef)), text))
        text = ""
        before = None
        for is_block, part in written:
            text += ("" if before is None else "\n\n" if is_block or before else "\n") + part + "\n"
            before = is_block
        return text

    def _record(self, definition: _Definition) -> str:
        """Return a record with the fields that are read."""
        assert isinstance(definition.node, ast.ClassDef)
        fields = {_field(statement) for statement in definition.node.body} - {""}
        going = fields - self.attributes
        lines = definition.text.splitlines()
        for statement in definition.node.body:
            if _field(statement) in going:
                for line in range(statement.lineno, (statement.end_lineno or 0) + 1):
                    lines[line - 1] = "\0"
        return "\n".join(line for line in lines if line != "\0").rstrip()

    def tables(self, body: str) -> str:
        """Return the tables that the definitions read."""
        read = self._names(body)
        tables = []
        if "_DEVICES" in read:
            facts = tuple(self._facts(item, body) for item in vendors())
            tables.append(f"_DEVICES: tuple[DeviceFacts, ...] = {_compact(facts, 0, 30)}\n" + _DEVICES_TEXT)
        if "_PATHS" in read:
            tables.append(f"_PATHS = {_compact(self.forwarded, 0, 9)}\n" + _PATHS_TEXT)
        if "_WITHOUT" in read:
            tables.append(f"_WITHOUT = {_compact(self.paths, 0, 11)}\n" + _WITHOUT_TEXT)
        return "\n\n# fmt: off\n" + "\n".join(tables) + "# fmt: on\n" if tables else ""

    @staticmethod
    def _names(body: str) -> set[str]:
        return {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}

    def _facts(self, facts: DeviceFacts, body: str) -> Any:
        """Return the known facts about one device, as far as the definitions read it."""
        asked = {
            node.args[1].value
            for node in ast.walk(ast.parse(body))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("find", "required")
            and isinstance(node.args[1], ast.Constant)
        }
        asked_for_any = "accelerator_namespace" in self.used  # the names are chosen while the program runs
        names = {}
        for name, entry in facts.names.items():
            shortened = entry._replace(note=Bilingual(""), verified=True)
            if not entry.path and cuda.portable().get(name) == "raises" and facts.plugin:
                shortened = entry
            reduced = self._reduced(shortened, Name)
            is_other = reduced != self._reduced(_default_name(facts, name), Name)
            if is_other and (asked_for_any or name in self.paths or name in asked):
                names[name] = reduced
        dtypes = {dtype: self._reduced(fact, DtypeFact) for dtype, fact in facts.dtypes.items()}
        return self._reduced(facts._replace(names=names, dtypes=dtypes), DeviceFacts)

    def _reduced(self, record: Any, kind: Any) -> Any:
        fields = [field for field in record._fields if field in self.attributes]
        defaults = [_english(kind._field_defaults[field]) for field in fields if field in kind._field_defaults]
        reduced = namedtuple(kind.__name__, fields, defaults=defaults)  # type: ignore[misc]
        return reduced(*(_english(getattr(record, field)) for field in fields))


def _first_paragraphs(text: str) -> str:
    """Leave the first paragraph of each documentation string that ends on its own line."""
    lines, left, at = text.split("\n"), [], 0
    while at < len(lines):
        line = lines[at]
        left.append(line)
        at += 1
        opening = re.match(r' *r?"""(?=.)', line)
        if opening is None or line.endswith('"""'):
            continue
        end = next((number for number in range(at, len(lines)) if lines[number].lstrip(" ").startswith('"""')), at)
        indent = line[: len(line) - len(line.lstrip(" "))]
        if "" in lines[at:end] and lines[end] == f'{indent}"""':
            left += lines[at : lines.index("", at)]
            left[-1] += '"""'
            at = end + 1
    return "\n".join(left)


def _compact(value: Any, depth: int, before: int) -> str:
    """Return a value as source, on one line where it fits behind `before` columns."""
    whole = _on_one_line(value)
    if len(whole) + 4 * depth + before <= _WIDTH - 1 or not isinstance(value, (tuple, dict)):
        return whole if not isinstance(value, str) else _literal(value, depth)
    inner, parts = "    " * (depth + 1), []
    opening, closing = "(", ")"
    if isinstance(value, dict):
        opening, closing = "{", "}"
        parts = [f'"{key}": ' + _compact(part, depth + 1, len(key) + 4) for key, part in value.items()]
    elif hasattr(value, "_fields"):
        opening = f"{type(value).__name__}("
        parts = [f"{name}=" + _compact(part, depth + 1, len(name) + 1) for name, part in _given(value)]
        parts = _filled(parts, _WIDTH - 4 * (depth + 1))
    else:
        parts = [_compact(part, depth + 1, 0) for part in value]
    return opening + "\n" + "".join(f"{inner}{part},\n" for part in parts) + "    " * depth + closing


def _filled(parts: list[str], width: int) -> list[str]:
    """Put short parts behind each other."""
    lines: list[str] = []
    for part in parts:
        if lines and "\n" not in lines[-1] + part and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def _on_one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_on_one_line(part)}' for key, part in value.items()) + "}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{type(value).__name__}(" + ", ".join(f"{n}={_on_one_line(part)}" for n, part in _given(value)) + ")"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_on_one_line, value)) + ("," if len(value) == 1 else "") + ")"
    return _literal(value, 0) if not isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _given(record: Any) -> list[tuple[str, Any]]:
    """Return the fields of a record that are not its defaults."""
    return [
        (name, value)
        for name, value in zip(record._fields, record, strict=True)
        if name not in record._field_defaults or value != record._field_defaults[name]
    ]


_FOREIGN = frozenset({"torch", "os", "sys", "importlib", "contextlib", "warnings", "error"})
"""Names whose attributes are no fields of a record."""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _never(test: ast.expr) -> bool:
    """Whether a test asks for what is true of no device."""
    return (
        isinstance(test, ast.Attribute)
        and _root(test) == "facts"
        and test.attr in DeviceFacts._fields
        and not any(getattr(facts, test.attr) for facts in vendors())
    )


def _is_record(definition: _Definition) -> bool:
    return definition.module == "facts" and isinstance(definition.node, ast.ClassDef)


def _field(statement: ast.stmt) -> str:
    """Return the field or method of a record that a statement declares; empty for another statement."""
    return _defines(statement) if isinstance(statement, (ast.AnnAssign, ast.FunctionDef)) else ""


def _english(value: Any) -> Any:
    return value.en if isinstance(value, Bilingual) else value


def _default_name(facts: DeviceFacts, name: str) -> Name:
    return Name(f"{facts.namespace}.{name}" if facts.namespace else "")


@lru_cache(maxsize=len(_MODULES))
def _imported(module: str) -> frozenset[str]:
    """Return the names that a module takes from others of torchferry."""
    tree = ast.parse((_HERE / f"{module}.py").read_text(encoding="utf-8"))
    return frozenset(
        alias.name
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("torchferry.")
        for alias in statement.names
    )


def _value(name: str) -> Any:
    """Return the table of `portable.py` that has a name."""
    for definition in _definitions("portable"):
        if definition.names == (name,):
            assert isinstance(definition.node, (ast.Assign, ast.AnnAssign))
            value = definition.node.value
            assert value is not None
            return ast.literal_eval(value.args[0] if isinstance(value, ast.Call) else value)
    raise ValueError(f"portable.py has no table `{name}`")
