"""Entry points that packaging files declare: commands, and objects that programs load by the name of a group."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from torchferry.core import toml
from torchferry.core.files import read_regular
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.setup_scripts import (
    ANY_GROUP,
    UNTOLD_POINT,
    DeclaredPoint,
    TextsOf,
    points_in_lines,
    points_in_text,
    setup_points,
)
from torchferry.source.project import Project
from torchferry.source.roles import is_set_aside

LARGEST_DOCUMENT = 1_000_000
"""Bytes of a document that commands are looked for in, and of a file that says what an installation makes."""


INSTALLERS = ("pyproject.toml", "setup.cfg", "setup.py")
"""Files that say what an installation makes."""

_SECTIONS = frozenset({"options.entry_points", "entry_points"})
"""Sections of a setup.cfg with entry points: those of setuptools, and of pbr."""

_WORDS = ("scripts", "entry-points", "plugins", "entrypoints")
"""What a pyproject.toml with entry points says."""

_SECTION = re.compile(r"\[([^\]\n]+)\][ \t]*(?:[#;].*)?")
_FILE = re.compile(r"file:(.*)", re.DOTALL)


class DeclaredPoints(NamedTuple):
    """What a packaging file declares.

    Attributes:
        path: The file.
        text: Its text.
        points: Its entry points, as far as they can be told.
        open_groups: Groups of which it may have more; `ANY_GROUP` where it may have any.
    """

    path: str
    text: str = ""
    points: tuple[DeclaredPoint, ...] = ()
    open_groups: frozenset[str] = frozenset()


class Packaging:
    """The packaging files of a project, each read once.

    Args:
        project: Its files.
        texts: Returns the texts that an expression may have.
    """

    def __init__(self, project: Project, texts: TextsOf) -> None:
        self._project = project
        self._texts = texts
        self._by_path: dict[str, DeclaredPoints] = {}

    def of_project(self) -> Iterator[DeclaredPoints]:
        """Yield what the packaging files of the project declare; those of tests and of copies of others say nothing."""
        paths = self._project.files_called(INSTALLERS)
        return (self.of(path) for path in paths if not is_set_aside(path))

    def of(self, path: str) -> DeclaredPoints:
        """Return what a packaging file declares."""
        if path not in self._by_path:
            read = self._read(path)
            text = read or ""
            points = list(dict.fromkeys([UNTOLD_POINT] if read is None else self._points(path, text)))
            complete = tuple(point for point in points if point.value)
            open_groups = frozenset(point.group for point in points if not point.value or point.group == ANY_GROUP)
            self._by_path[path] = DeclaredPoints(path, text, complete, open_groups)
        return self._by_path[path]

    def _read(self, path: str) -> str | None:
        """Return the text of a file; None where it cannot be read, or is larger than any that somebody wrote."""
        try:
            data = read_regular(self._project.root / path)
        except OSError:
            return None
        return data.decode("utf-8", "replace").replace("\r\n", "\n") if len(data) <= LARGEST_DOCUMENT else None

    def _points(self, path: str, text: str) -> Iterator[DeclaredPoint]:
        name = path.rpartition("/")[2]
        if name == "pyproject.toml":
            yield from self._of_pyproject(path, text)
        elif name == "setup.cfg":
            yield from self._of_setup_cfg(path, text)
        else:
            yield from setup_points(self._project, path, text, self._texts, lambda named: self._beside(path, named))

    def _of_pyproject(self, path: str, text: str) -> Iterator[DeclaredPoint]:
        if not any(word in text for word in _WORDS):
            return
        try:
            document = toml.loads(text)
        except ValueError:
            yield UNTOLD_POINT
            return
        for keys, group in (
            (("project", "scripts"), "console_scripts"),
            (("project", "gui-scripts"), "gui_scripts"),
            (("tool", "poetry", "scripts"), "console_scripts"),
            (("tool", "poetry", "gui-scripts"), "gui_scripts"),
            (("tool", "flit", "scripts"), "console_scripts"),
        ):
            yield from _of_table(group, _inner(document, *keys))
        for keys in (
            ("project", "entry-points"),
            ("tool", "poetry", "plugins"),
            ("tool", "flit", "entrypoints"),
            ("tool", "pdm", "entry-points"),
        ):
            groups = _inner(document, *keys)
            for group, table in groups.items() if isinstance(groups, dict) else ():
                yield from _of_table(group, table)
        listed = _inner(document, "tool", "setuptools", "dynamic", "entry-points", "file")
        for named in [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else ():
            yield from self._of_file(path, str(named))

    def _of_setup_cfg(self, path: str, text: str) -> Iterator[DeclaredPoint]:
        if "entry_points" not in text:
            return
        section = ""
        options: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in text.split("\n"):
            begun = _SECTION.fullmatch(line)
            if begun is not None:
                section, lines = begun[1].strip(), []
            elif line[:1] in (" ", "\t"):
                lines.append(line)
            elif line[:1] not in ("", "#", ";"):
                option, _, value = line.partition("=")
                lines = [value]
                if section in _SECTIONS:
                    options[option.strip()] = lines
                elif section == "options" and option.strip() == "entry_points":
                    options[""] = lines
        for group, values in options.items():
            if group:
                yield from points_in_lines(group, values)
                continue
            written = "\n".join(values)
            named = _FILE.fullmatch(written.strip())
            for each in named[1].replace("\n", ",").split(",") if named is not None else ():
                if each.strip():
                    yield from self._of_file(path, each.strip())
            yield from points_in_text(written) if named is None else ()

    def _of_file(self, path: str, named: str) -> Iterator[DeclaredPoint]:
        """Yield what a file declares that a packaging file names."""
        text = self._beside(path, named)
        yield from points_in_text(text) if text else [UNTOLD_POINT]

    def _beside(self, path: str, named: str) -> str:
        """Return the text of a file that is named in a packaging file; empty where it is none of the project."""
        inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), named))
        is_inside = not inner.startswith(("../", "/")) and "\0" not in inner and named
        return (self._read(inner) or "") if is_inside else ""


def _inner(document: object, *keys: str) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _of_table(group: str, table: object) -> Iterator[DeclaredPoint]:
    for name, value in table.items() if isinstance(table, dict) else ():
        reference = value.get("reference", value.get("callable")) if isinstance(value, dict) else value
        if isinstance(reference, str):
            yield DeclaredPoint(group, str(name), reference)
