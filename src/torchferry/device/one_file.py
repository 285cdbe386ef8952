"""Write the device manager as one file without dependencies, from the modules that the installed one runs.

The bodies of the modules are taken as they are, with their comments; what they import from each other is already there,
and the facts of the backends and the Chinese texts are at the end as tables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.core.messages import catalogue
from torchferry.core.vendored import CHECKSUM, FIRST, digest
from torchferry.device.facts import DeviceFacts
from torchferry.device.provider import portable_names, vendors

MODULES = (
    "failures",
    "facts",
    "torch_import",
    "names",
    "presence",
    "detect",
    "dtypes",
    "randomness",
    "memory",
    "status",
    "weights",
    "precision",
    "profiling",
    "ranks",
    "manager",
    "portable",
)
"""The modules of this package that go into the file, in an order that reads from small to large."""

FROM_CORE = {
    "messages": ("language", "Bilingual", "Message", "Value", "say", "say_plural"),
    "errors": ("TorchferryError",),
    "ranges": ("Ranges",),
    "importable": ("is_importable",),
}
"""What they use of `core`."""

_REPLACED = ("_in_chinese",)
"""Functions of `core` that read a catalogue; the file has a table in place of it."""

PUBLIC = (
    "DeviceError",
    "DeviceManager",
    "DeviceNotAvailableError",
    "DeviceWarning",
    "DtypeVerdict",
    "MemoryStatistics",
    "NotOnThisDeviceError",
)

_HERE = Path(__file__).parent
_CORE = _HERE.parent / "core"
_WIDTH = 110
_LONGEST_FIELD = 24

_STANDS_FOR = {"torchferry.core.record": "typing"}
"""Modules of ours in place of Python's, whose names they have: the single file takes Python's."""

_NEWER_SPELLING = re.compile(r"  # noqa: UP\d+.*$", re.MULTILINE)
"""Remarks for the linter on what newer versions of Python can spell shorter: the file is for an older one."""

_HEADER = (
    FIRST
    + """ {version}: `torchferry device vendor DIR` writes it anew. Edited, it is not overwritten.
# Copyright The torchferry authors. Licensed under the Apache License, Version 2.0: you may not use this file except in
# compliance with it. The licence is at http://www.apache.org/licenses/LICENSE-2.0; the file comes WITHOUT WARRANTIES OR
# CONDITIONS OF ANY KIND. SPDX-License-Identifier: Apache-2.0
# torchferry: ignore-file it serves every device, CUDA included, and a migration leaves it as it is
"""
)

_DOCUMENTATION = '''\
"""The device of a program, whichever vendor's it is.

It knows {vendors}, and the CPU.

    from {module} import DeviceManager

    manager = DeviceManager()
    model.to(manager.device, manager.dtype)

PREFERRED_DEVICE=NAME[:INDEX] in the environment chooses the device; `python {name}` shows what was
found, and why. It needs Python 3.8 and torch 1.10 or later, and nothing else.
"""
'''

_TAIL = """\
if __name__ == "__main__":
    print("\\n".join(DeviceManager().describe()))
"""


def one_file(name: str) -> str:
    """Return the text of the file that is to be called `name`.

    Raises:
        ValueError: a module has what cannot go into it: an import that the file would lack, or a name that two have.
    """
    imports: dict[str, set[str]] = {}
    bodies = []
    for module, wanted in FROM_CORE.items():
        bodies.append(_body(_CORE / f"{module}.py", wanted, imports))
    bodies = [_section("Texts in English and Chinese, and the error that carries them", "\n\n\n".join(bodies))]
    for module in MODULES:
        path = _HERE / f"{module}.py"
        bodies.append(_section(_title(path), _body(path, (), imports)))
    kinds = vendors()
    documentation = _DOCUMENTATION.format(
        vendors=", ".join(facts.title.en for facts in kinds[:-1]),
        module=name.rpartition(".")[0],
        name=name,
    )
    text = "\n".join(
        [
            documentation,
            "from __future__ import annotations\n",
            "\n".join(_import_lines(imports, _names_in("\n".join(bodies)))) + "\n",
            "__all__ = [\n" + "".join(f'    "{public}",\n' for public in PUBLIC) + "]\n\n",
            "\n\n".join(bodies),
            "\n" + _tables(kinds, _chinese_of("\n".join(bodies))),
            "\n" + _TAIL,
        ]
    )
    _check(text)
    return sealed(_HEADER.format(version=__version__) + text)


def sealed(text: str) -> str:
    """Put the checksum into the line below the header's first one."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{CHECKSUM}{digest(first, rest)}\n{rest}"


def _section(title: str, body: str) -> str:
    return f"# --- {title} ---\n\n\n{body}\n"


def _title(path: Path) -> str:
    """Return the first line of a module's documentation."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0].rstrip(".")


def _body(path: Path, wanted: Collection[str], imports: dict[str, set[str]]) -> str:
    """Return a module without its documentation and imports, which are added to `imports`.

    Args:
        path: The module.
        wanted: The definitions to take, with the texts below them and what they use of the module; empty for all.
        imports: For each module, the names that are imported from it; an empty name for the module itself.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    tree = ast.parse(source, feature_version=(3, 8))
    wanted = _with_what_they_use(tree, wanted)
    taken: list[str] = []
    follows = False
    end = 0
    for position, statement in enumerate(tree.body):
        start, end_before = end, statement.end_lineno or 0
        end = end_before
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            _note_import(statement, imports, path)
            continue
        if position == 0 or _defines(statement) == "__all__":
            continue
        if wanted:
            follows = _defines(statement) in wanted or (follows and isinstance(statement, ast.Expr))
            if not follows:
                continue
            first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
            gap = "" if isinstance(statement, ast.Expr) else "\n\n"
            taken.append(gap + "\n".join(lines[first - 1 : end]))
        else:
            taken.append("\n".join(lines[start:end]))
    return _NEWER_SPELLING.sub("", "\n".join(taken).strip("\n"))


def _with_what_they_use(tree: ast.Module, wanted: Collection[str]) -> set[str]:
    """Return the definitions that some need, with what these need of their module in turn."""
    defined = {_defines(statement): statement for statement in tree.body if _defines(statement)}
    needed = set(wanted)
    todo = list(wanted)
    while todo:
        used = {node.id for node in ast.walk(defined[todo.pop()]) if isinstance(node, ast.Name)}
        used_here = (used & defined.keys()) - needed - set(_REPLACED)
        todo += used_here
        needed |= used_here
    return needed


def _defines(statement: ast.stmt) -> str:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return ""


def _note_import(statement: ast.Import | ast.ImportFrom, imports: dict[str, set[str]], path: Path) -> None:
    module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
    if module == "__future__":
        return
    module = _STANDS_FOR.get(module, module)
    if module.startswith("torchferry."):
        room, _, name = module.removeprefix("torchferry.").partition(".")
        there = name in (*MODULES, "provider") if room == "device" else room == "core" and name in FROM_CORE
        for alias in statement.names:
            is_there = there and (room == "device" or alias.name in FROM_CORE[name])
            if not is_there or alias.asname:
                raise ValueError(f"{path}: `{alias.name}` of {module} is not in the single file")
        return
    for alias in statement.names:
        if alias.asname or alias.name.partition(".")[0] == "torchferry":
            raise ValueError(f"{path}:{statement.lineno}: the single file takes no such import")
        imports.setdefault(module or alias.name, set()).add(alias.name if module else "")


def _names_in(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def _import_lines(imports: Mapping[str, set[str]], used: set[str]) -> Iterator[str]:
    for module in sorted(imports):
        if "" in imports[module] and module.partition(".")[0] in used:
            yield f"import {module}"
    for module in sorted(imports):
        names = sorted(imports[module] & used)
        if names:
            yield f"from {module} import {', '.join(names)}"


def _check(text: str) -> None:
    """Refuse a file in which one definition would replace another."""
    seen: set[str] = set()
    for statement in ast.parse(text, feature_version=(3, 8)).body:
        name = _defines(statement)
        if name and name in seen:
            raise ValueError(f"two modules define `{name}`")
        seen.add(name)


def _chinese_of(source: str) -> dict[str, str]:
    """Return the Chinese of the messages that `source` says; of one that counts, by its form for several things."""
    chinese = catalogue("torchferry")
    table: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "say_plural"):
            texts = [str(text.value) for text in node.args if isinstance(text, ast.Constant)]
            if node.func.id == "say_plural":
                table[texts[1]] = chinese.ngettext(texts[0], texts[1], 2)
            elif texts:
                table[texts[0]] = chinese.gettext(texts[0])
    return dict(sorted(table.items()))


def _tables(kinds: tuple[DeviceFacts, ...], chinese: Mapping[str, str]) -> str:
    return (
        "# --- What is known of each device, as torchferry had it when it wrote this file ---\n\n\n"
        "def vendors() -> tuple[DeviceFacts, ...]:\n"
        '    """Return what is known of every device, in the order in which they are tried; the CPU is the last."""\n'
        "    return _FACTS\n\n\n"
        "def portable_names() -> Mapping[str, str]:\n"
        '    """Return the names of `torch.cuda` that every device is asked for, and what happens without one."""\n'
        "    return _PORTABLE\n\n\n"
        "def _in_chinese(message: Message) -> str:\n"
        '    """Return the Chinese template of a message."""\n'
        "    return _CHINESE.get(message.template, message.template)\n\n\n"
        "# fmt: off\n"
        f"_FACTS: tuple[DeviceFacts, ...] = {_literal(kinds, 0)}\n\n"
        f"_PORTABLE: Mapping[str, str] = {_literal(portable_names(), 0)}\n\n"
        f"_CHINESE: Mapping[str, str] = {_literal(chinese, 0)}\n"
        "# fmt: on\n"
    )


def _literal(value: object, depth: int) -> str:
    """Return a value as source; what holds others has a line for each of them."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _brackets(f"{type(value).__name__}(", list(_arguments(value, depth + 1)), ")", depth)
    if isinstance(value, tuple):
        return _brackets("(", [_literal(part, depth + 1) for part in value], ")", depth)
    if isinstance(value, Mapping):
        return _brackets("{", list(_entries(value, depth + 1)), "}", depth)
    return _quoted(value, depth, _LONGEST_FIELD) if isinstance(value, str) else repr(value)


def _entries(value: Mapping[str, object], depth: int) -> Iterator[str]:
    for key, part in value.items():
        shown = _literal_text(key) + ": "
        yield shown + (_quoted(part, depth, _columns(shown)) if isinstance(part, str) else _literal(part, depth))


def _arguments(record: Any, depth: int) -> Iterator[str]:
    """Yield the arguments of a record that are not its defaults, by name."""
    for field, value in zip(record._fields, record, strict=True):
        default = record._field_defaults.get(field, ...)
        plain = dict(value) if isinstance(value, Mapping) else value
        if plain != default:
            yield f"{field}={_literal(value, depth)}"


def _brackets(opening: str, parts: list[str], closing: str, depth: int) -> str:
    if not parts:
        return opening + closing
    inner = "    " * (depth + 1)
    return opening + "\n" + "".join(f"{inner}{part},\n" for part in parts) + "    " * depth + closing


def _quoted(text: str, depth: int, before: int) -> str:
    """Return a text as source; one that is too long for `before` columns in front of it in pieces, a line each."""
    room = _WIDTH - 4 * depth
    if _columns(text) <= room - before:
        return _literal_text(text)
    pieces = [""]
    for word in re.findall(r"[\x21-\x7e]+ ?|.", text):
        if pieces[-1] and _columns(pieces[-1] + word) > room:
            pieces.append("")
        pieces[-1] += word
    inner = "    " * (depth + 1)
    return "(\n" + "".join(f"{inner}{_literal_text(piece)}\n" for piece in pieces) + "    " * depth + ")"


def _columns(text: str) -> int:
    """Return how wide a text is shown: a Chinese character takes two columns."""
    return sum(1 if character.isascii() else 2 for character in text)


def _literal_text(text: str) -> str:
    """Return a text in double quotes, or in single ones where it has double ones."""
    shown = repr(text)
    if shown[0] == "'" and '"' not in text:
        return '"' + shown[1:-1] + '"'
    return shown
