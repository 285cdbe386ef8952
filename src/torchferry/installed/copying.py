"""Which modules of an installed package a program may come to, and under which licence the package is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.installed.distributions import Distribution
from torchferry.installed.facts import Reader
from torchferry.installed.model import module_of

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<module>[.\w]+)[ \t]+import[ \t]*(?P<names>\([^()]*\)|[^\n(]*)"
    rb"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_LAZY = re.compile(rb"_LazyModule|_import_structure|lazy_loader|^def __getattr__\(", re.MULTILINE)
"""How a package imports its modules when a name of them is first asked for."""

_NAME = re.compile(rb"\w+")
_LICENCE_FILE = re.compile(
    r"(?:^|/)[^/]+\.dist-info/(?:licenses/(?:.*/)?[^/]+|(?:licen[cs]e|copying|notice|copyright|authors)[^/]*)\Z",
    re.IGNORECASE,
)
_FIELD = re.compile(
    rb"^(?P<name>License-Expression|License|Classifier):[ \t]*(?P<value>[^\r\n]*)", re.MULTILINE | re.IGNORECASE
)
_CLASS = "License ::"
_LONGEST = 200
_MOST_FILES = 20


def reached_modules(reader: Reader, package: str, run: Iterable[str]) -> frozenset[str]:
    """Return the modules of a package that may be imported where some of them run: also by imports in functions.

    Of a package that imports its modules when a name is first asked for, that is all of them.

    Args:
        reader: Reads the package's files.
        package: The package.
        run: The modules that run.
    """
    modules = reader.distribution.modules
    own = {module for module in modules if module == package or module.startswith(f"{package}.")}
    reached: set[str] = set()
    todo = [module for module in run if module in own]
    while todo:
        module = todo.pop()
        if module in reached:
            continue
        reached.add(module)
        data = content(reader, modules[module])
        if modules[module].endswith("/__init__.py") and _LAZY.search(data):
            return frozenset(own)
        around = module if modules[module].endswith("/__init__.py") else module.rpartition(".")[0]
        for name in _imported(data, around):
            while name:  # a module runs behind the packages around it
                if name in own and name not in reached:
                    todo.append(name)
                name = name.rpartition(".")[0]
    return frozenset(reached)


def _imported(data: bytes, package: str) -> set[str]:
    """Return the names that the import statements of a module may mean, wherever they stand."""
    names: set[str] = set()
    for match in _IMPORT.finditer(data):
        if match["modules"] is not None:
            names |= {
                part.split()[0] for part in match["modules"].decode("ascii", "replace").split(",") if part.split()
            }
            continue
        written = match["module"].decode("ascii", "replace")
        level = len(written) - len(written.lstrip("."))
        around = package.split(".") if level else []
        base = ".".join([*around[: len(around) - level + 1], *filter(None, [written[level:]])])
        names.add(base)
        names |= {f"{base}.{name.decode('ascii', 'replace')}" for name in _NAME.findall(match["names"])}
    return names


def content(reader: Reader, path: str) -> bytes:
    """Return the content of a Python file of a distribution; nothing for one that is compiled or cannot be read."""
    if not path.endswith(".py"):
        return b""
    try:
        return reader.data(path)
    except OSError:
        return b""


def licence_of(distribution: Distribution, reader: Reader) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    """Return what the metadata of a distribution say of its licence, and the texts of it by name."""
    metadata = next((path for path in distribution.files if path.endswith(".dist-info/METADATA")), "")
    fields: dict[str, list[str]] = {}
    for match in _FIELD.finditer(_read(reader, metadata).partition(b"\n\n")[0]):
        value = match["value"].decode("utf-8", "replace").strip()
        fields.setdefault(match["name"].decode().lower(), []).append(value)
    classes = [value.rpartition("::")[2].strip() for value in fields.get("classifier", ()) if value.startswith(_CLASS)]
    named = fields.get("license-expression", []) or classes or [value for value in fields.get("license", ()) if value]
    texts = {}
    for path in [path for path in distribution.files if _LICENCE_FILE.search(path)][:_MOST_FILES]:
        text = _read(reader, path)
        if text:
            texts[re.sub(r"[^\w.-]", "_", path.partition(".dist-info/")[2])] = text
    return ", ".join(named)[:_LONGEST], tuple(sorted(texts.items()))


def _read(reader: Reader, path: str) -> bytes:
    if not path:
        return b""
    try:
        return reader.data(path)
    except OSError:
        return b""


def python_files(distribution: Distribution) -> list[str]:
    """Return the Python files of a distribution that are modules."""
    return [path for path in distribution.files if path.endswith(".py") and module_of(path)]
