"""Requirements of Python distributions, as they are in requirements files, build files and install commands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchferry.backends.tables import normalised
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.shell import Command

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_REQUIREMENT = lazy_regex(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:[ \t]*\[[^\]]*\])?"
    r"(?:[ \t]*(?P<rest>@[ \t]*\S+|(?:\([ \t]*)?(?:[=~!]=|[<>=])[^;#\s]*(?:[ \t]+(?!-)[^;#\s]+)*))?"
    r"[ \t]*(?:;|#|(?<=[ \t])--?\w|\Z)"
)
_URL = lazy_regex(r"(?:git\+)?(?:https?|ssh|git)://[^/\s]*/(?P<path>[^\s@#?]+)[^\s#]*(?:#(?P<fragment>\S*))?")
_WHEEL = lazy_regex(r"(?P<name>[A-Za-z0-9_.]+?)-\d[\w.+]*-[\w.]+-[\w.]+-[\w.]+\.whl\Z")
_EGG = lazy_regex(r"egg=([\w.-]+)")
_EDITABLE = lazy_regex(r"(?:-e|--editable)(?:[ \t]+|=)(?=\S)")
_INCLUDE = lazy_regex(r"[ \t]*(?P<option>-r|-c|--requirement|--constraint)[ \t=]*(?P<path>[^\s;#]+)")
_WILDCARD = lazy_regex(r"v?\d+(?:\.\d+)*\.?\*\Z")
_COMMENT = lazy_regex(r"(?:(?<=\s)|\A)#")
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_INSTALLERS = _CONDA | {"uv", "pipx", "poetry", "pdm"}
_PIP = lazy_regex(r"pip(?:\d+(?:\.\d+)?)?\Z")


class Requirement(NamedTuple):
    """One requirement.

    Attributes:
        name: The distribution's name, normalised (PEP 503).
        specifier: What follows the name: a version specifier or a URL; may be empty.
        start: Offset of the name.
        end: Offset after the name.
        line_end: Offset behind the whole requirement.
    """

    name: str
    specifier: str
    start: int
    end: int
    line_end: int


def requirement(text: str, start: int, end: int) -> Requirement | None:
    """Read one requirement from a part of a text; None where none is there."""
    raw = text[start:end]
    body = raw.strip()
    start += len(raw) - len(raw.lstrip())
    end = start + len(body)
    wheel = _WHEEL.match(body.rpartition("/")[2]) if "://" not in body and "@" not in body else None
    if wheel is not None:
        return Requirement(normalised(wheel["name"]), body, start, end, end)
    if not body or body.startswith(("#", "-", ".", "/")):
        return None
    url = _URL.match(body)
    if url is not None:
        last = url["path"].rstrip("/").rpartition("/")[2]
        wheel = _WHEEL.match(re.sub("%2B", "+", last, flags=re.IGNORECASE))
        egg = _EGG.search(url["fragment"] or "")
        name = egg.group(1) if egg is not None else wheel["name"] if wheel is not None else last.removesuffix(".git")
        return Requirement(normalised(name), body, start, end, end) if name else None
    match = _REQUIREMENT.match(body)
    if match is None:
        return None
    name_end = start + match.end("name")
    specifier = (match["rest"] or "").strip()
    return Requirement(normalised(match["name"]), specifier, start, name_end, end)


def in_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[Requirement]:
    """Yield the requirements of a requirements file, one a line; options, comments and blank lines left out."""
    at = start
    end = len(text) if end is None else end
    continued = False
    while at < end:
        line_end = text.find("\n", at, end)
        line_end = end if line_end < 0 else line_end
        line = text[at:line_end].rstrip()
        comment = _COMMENT.search(line)
        if not continued:
            code = line.removesuffix("\\") if comment is None else line[: comment.start()]
            editable = _EDITABLE.match(code.lstrip())
            skipped = len(code) - len(code.lstrip()) + editable.end() if editable is not None else 0
            listed = requirement(text, at + skipped, at + len(code))
            if listed is not None:
                yield listed
        continued = line.endswith("\\") and comment is None
        at = line_end + 1


def included(path: str, text: str, constraints: bool = True) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the files that a requirements file includes, relative to the project's folder, and where their names stand.

    A name that begins with `/` or `../` is outside of the project. Addresses are as they are written.

    Args:
        path: The requirements file.
        text: Its text.
        constraints: Whether files count that bound versions and install nothing.
    """
    folder = path.rpartition("/")[0]
    at = 0
    for line in text.splitlines(keepends=True):
        match = _INCLUDE.match(line)
        if match is not None and (constraints or match["option"] in ("-r", "--requirement")):
            name = match["path"].strip("\"'")
            if "://" not in name:
                name = posixpath.normpath(posixpath.join(folder, name))
            yield name, (at + match.start("path"), at + match.end("path"))
        at += len(line)


def specifier_set(text: str) -> SpecifierSet | None:
    """Return what a requirement asks of a version, without local builds such as `+cu121`; None if it cannot be read."""
    from packaging.specifiers import SpecifierSet  # imported late: few files ask for a version that matters

    text = text.strip("() ")
    if text == "*":
        return SpecifierSet()
    if _WILDCARD.match(text):
        text = f"=={text}"
    try:
        return SpecifierSet(",".join(part.partition("+")[0] for part in text.split(",")))
    except ValueError:  # also a number of more digits than Python reads
        return None


_WITH_VALUE = frozenset({
    "-r", "-c", "-f", "-i", "-n", "-t", "-p", "--index-url", "--extra-index-url", "--find-links", "--requirement",
    "--constraint", "--target", "--name", "--prefix", "--channel", "--file", "--python", "--group", "--index",
})  # fmt: skip
"""Options of the installers whose value is the next word and no requirement; that of `-e` is one."""


def in_command(command: Command) -> Iterator[Requirement]:
    """Yield the requirements that `pip install`, `conda create` and the like name."""
    words = [word for word in command.words if word.text]
    names = [word.value.rpartition("/")[2] for word in words]
    for index, name in enumerate(names):
        if name in ("install", "add") and any(map(_installs, names[:index])):
            break
        if name in ("install", "create") and not _CONDA.isdisjoint(names[:index]):
            break
    else:
        return
    skip = False
    for word in words[index + 1 :]:
        if skip or word.text.startswith("-"):
            skip = not skip and word.text in _WITH_VALUE
            continue
        inner = word.text.strip("\"'")
        start = word.start + len(word.text) - len(word.text.lstrip("\"'"))
        listed = requirement(inner, 0, len(inner))
        if listed is not None:
            yield listed._replace(start=start + listed.start, end=start + listed.end, line_end=start + listed.line_end)


def _installs(name: str) -> bool:
    return name in _INSTALLERS or _PIP.match(name) is not None
