"""The lists of requirements of a project, of whatever form, and which of them a user installs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.backends import cuda
from torchferry.backends.tables import normalised
from torchferry.core import toml
from torchferry.core.files import read_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.kinds import Kind
from torchferry.source.requirements import in_lines, included, requirement
from torchferry.source.settings import settings
from torchferry.source.tree import Listing

_CLONED = lazy_regex(r"(?:-e|--editable)[ \t=]+(?P<url>git\+[^\s#]+)#(?:[^\s&]+&)*egg=(?P<name>[\w.-]+)")
_ASIDE = lazy_regex(
    r"(?:^|[/._-])(?:dev|develop|test|tests|testing|docs?|lint|ci|build|style|format|constraints?|mypy|type|optional|extra|extras)(?=[/._-]|$)"
)
"""Words in the name of a list that nobody needs in order to run the program."""


class ListedRequirement(NamedTuple):
    """One requirement of the project.

    Attributes:
        name: The distribution, normalised.
        text: The requirement as pip reads it: name, specifier, marker.
        specifier: What follows the name: versions, or an address.
        path: The list that it stands in.
        line: Its line, counted from 1.
    """

    name: str
    text: str
    specifier: str
    path: str
    line: int

    @property
    def place(self) -> str:
        """Where it stands, as `file:line`."""
        return f"{self.path}:{self.line}"


class Lists(NamedTuple):
    """The lists of a project.

    Attributes:
        main: Files in pip's form that a user installs, included ones behind those that include them.
        others: Further files in pip's form: for developers, for documents, constraints.
        declared: Requirements that are elsewhere: `pyproject.toml`, `setup.cfg`, `setup.py`, a conda environment.
        texts: The text of each file in pip's form.
    """

    main: tuple[str, ...]
    others: tuple[str, ...]
    declared: tuple[ListedRequirement, ...]
    texts: dict[str, str]

    @property
    def listed(self) -> tuple[ListedRequirement, ...]:
        """What a user installs, each requirement once."""
        found = [item for path in self.main for item in in_file(path, self.texts[path])] or list(self.declared)
        return tuple(dict.fromkeys(found))


def lists_of(root: Path, listing: Listing, leave_out: Iterable[str] = ()) -> Lists:
    """Read the lists of a project; files that cannot be read are left out.

    Args:
        root: The project's folder.
        listing: Its files.
        leave_out: Files that a migration wrote.
    """
    ours = frozenset(leave_out)
    texts: dict[str, str] = {}
    for entry in listing.entries:
        if entry.kind is Kind.REQUIREMENTS and entry.path not in ours:
            try:
                texts[entry.path] = read_text(root / entry.path)
            except (OSError, UnicodeDecodeError):
                continue
    declared = tuple(_declared(root, listing, ours))
    first = _first(texts, bool(declared))
    main: list[str] = []
    while first:
        path = first.pop(0)
        if path not in main:
            main.append(path)
            first = [other for other, _ in included(path, texts[path]) if other in texts] + first
    return Lists(tuple(main), tuple(sorted(texts.keys() - set(main))), declared, texts)


def _first(texts: dict[str, str], declares: bool) -> list[str]:
    """Return the lists that a user begins with."""
    if "requirements.txt" in texts:
        return ["requirements.txt"]
    wanted = [path for path in sorted(texts) if _ASIDE.search(path.removesuffix(".txt").removesuffix(".in")) is None]
    in_root = [path for path in wanted if "/" not in path]
    if in_root or declares:
        return in_root
    return [path for path in wanted if path.startswith("requirements/")]


def in_file(path: str, text: str) -> Iterator[ListedRequirement]:
    """Yield the requirements of a list in pip's form."""
    for found in in_lines(text):
        body = text[found.start : found.line_end]
        option = body.find(" --")
        body = (body if option < 0 else body[:option]).rstrip("\\ \t")
        if body.startswith(("git+", "http", "ssh:")) or body.endswith(".whl"):
            body = found.name
        yield ListedRequirement(found.name, body, found.specifier, path, text.count("\n", 0, found.start) + 1)


def _declared(root: Path, listing: Listing, ours: frozenset[str]) -> Iterator[ListedRequirement]:
    """Yield what is declared in files of other forms in the root, those that install the project first."""
    by_path = {entry.path: entry.kind for entry in listing.entries if "/" not in entry.path and entry.path not in ours}
    for path in ("pyproject.toml", "setup.cfg", "setup.py"):
        if path in by_path:
            try:
                text = read_text(root / path)
            except (OSError, UnicodeDecodeError):
                continue
            yield from _OF_FILE[path](path, text)
    for path, kind in sorted(by_path.items()):
        if kind is Kind.CONDA:
            try:
                yield from _in_conda(path, read_text(root / path))
            except (OSError, UnicodeDecodeError):
                continue


def _in_pyproject(path: str, text: str) -> Iterator[ListedRequirement]:
    try:
        document = toml.loads(text)
    except toml.TOMLDecodeError:
        return
    project = document.get("project")
    listed = project.get("dependencies") if isinstance(project, dict) else None
    for item in listed if isinstance(listed, list) else ():
        yield from _one(path, text, str(item))
    tool = document.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    wanted = poetry.get("dependencies") if isinstance(poetry, dict) else None
    for name, value in wanted.items() if isinstance(wanted, dict) else ():
        if name == "python" or (isinstance(value, dict) and value.get("optional")):
            continue
        version = value.get("version", "") if isinstance(value, dict) else value
        if isinstance(value, dict) and isinstance(value.get("git"), str):
            version = f"@ git+{value['git']}"
        yield from _one(path, text, f"{name}{_from_poetry(str(version))}")


def _from_poetry(version: str) -> str:
    """Return what Poetry's `^2.1` says, as pip reads it."""
    version = version.strip()
    if version.startswith("@"):
        return f" {version}"
    if version in ("", "*"):
        return ""
    if version[0] in "<>=!":
        return version
    if version[0] in "^~":
        numbers = version[1:].split(".")
        above = [*numbers[:1]] if version[0] == "^" and numbers[0] != "0" else numbers[:2]
        if all(part.isdecimal() and len(part) < 19 for part in above) and above:
            return f">={version[1:]},<{'.'.join([*above[:-1], str(int(above[-1]) + 1)])}"
        return f">={version[1:]}"
    return f"=={version}"


def _in_setup_cfg(path: str, text: str) -> Iterator[ListedRequirement]:
    listing = False
    at = 0
    for line in text.splitlines(keepends=True):
        if line[:1] not in " \t\r\n#;":
            key, equals, value = line.partition("=")
            listing = bool(equals) and key.strip() == "install_requires"
            inner = value if listing else ""
        else:
            inner = line if listing else ""
        for found in in_lines(inner):
            text_of = inner[found.start : found.line_end]
            yield ListedRequirement(found.name, text_of, found.specifier, path, text.count("\n", 0, at) + 1)
        at += len(line)


def _in_setup(path: str, text: str) -> Iterator[ListedRequirement]:
    """Yield what `setup(install_requires=[...])` says where it says it plainly, or by a list with a name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            value: ast.expr | None = node.value
            if isinstance(value, ast.Name):
                value = values.get(value.id)
            for item in value.elts if isinstance(value, (ast.List, ast.Tuple)) else ():
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield from _one(path, text, item.value, item.lineno)


_OF_FILE = {"pyproject.toml": _in_pyproject, "setup.cfg": _in_setup_cfg, "setup.py": _in_setup}

_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "opencv": "opencv-python"}
"""Distributions that have another name on PyPI."""


def _in_conda(path: str, text: str) -> Iterator[ListedRequirement]:
    """Yield the requirements of a conda environment that are Python distributions, as pip names them."""
    for setting in settings(Kind.CONDA, text):
        if setting.key not in ("dependencies", "pip"):
            continue
        value = setting.value.rpartition("::")[2].strip()
        line = text.count("\n", 0, setting.start) + 1
        if setting.key == "pip":
            cloned = _CLONED.match(setting.value.strip())
            if cloned is not None:  # a folder of the environment's own, such as `-e .`, has no name
                yield ListedRequirement(normalised(cloned["name"]), cloned[0], f"@ {cloned['url']}", path, line)
            else:
                yield from _one(path, text, value, line)
            continue
        name, _, rest = value.partition("=")
        found = requirement(value, 0, len(value))
        name = normalised(found.name if found is not None else name)
        name = _CONDA_NAMES.get(name, name)
        if name in ("python", "pip") or cuda.package_named(name) is None:
            continue  # a library of conda's, which pip does not know
        version = rest.lstrip("=").partition("=")[0]
        if found is not None and found.specifier[:1] in ("<", ">", "!", "~"):
            yield from _one(path, text, f"{name}{found.specifier}", line)
        elif version and version[0].isdigit():
            exact = "" if rest.startswith("=") or version.endswith("*") else ".*"
            yield from _one(path, text, f"{name}=={version}{exact}", line)
        else:
            yield from _one(path, text, name, line)


def _one(path: str, text: str, item: str, line: int = 0) -> Iterator[ListedRequirement]:
    found = requirement(item, 0, len(item))
    if found is None:
        return
    if not line:
        at = text.find(item)
        at = at if at >= 0 else text.find(item.partition("=")[0].rstrip("<>!~^"))
        line = text.count("\n", 0, max(at, 0)) + 1
    body = found.name if item.strip().startswith(("git+", "http", "ssh:")) else item.strip()
    yield ListedRequirement(found.name, body, found.specifier, path, line)
