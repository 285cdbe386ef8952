"""Requirements of Python distributions, as they stand in requirements files, build files and install commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from torchferry.source.shell import Command

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(?:\[[^\]]*\])?[ \t]*"
    r"(?P<rest>@[ \t]*\S+|\(?[ \t]*(?:===?|~=|!=|<=?|>=?|=)[^;#]*)?[ \t]*(?:;|#|\Z)"
)
_URL = re.compile(
    r"(?:git\+|https?://|git://|ssh://)\S*?/(?P<name>[\w.-]+?)(?:\.git)?(?:@[\w./-]+)?(?:#(?P<fragment>\S*))?\Z"
)
_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9_.]+?)-\d[\w.+]*-[\w.]+-[\w.]+-[\w.]+\.whl\Z")
_INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "uv", "pipx", "poetry", "pdm"})


class Requirement(NamedTuple):
    """One requirement.

    Attributes:
        name: The distribution's name, normalised (PEP 503).
        specifier: What stands behind the name: a version specifier or a URL; may be empty.
        start: Offset of the name.
        end: Offset behind the name.
        line_end: Offset behind the whole requirement.
    """

    name: str
    specifier: str
    start: int
    end: int
    line_end: int


def normalised(name: str) -> str:
    """Return a distribution's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(text: str, start: int, end: int) -> Requirement | None:
    """Read one requirement from a part of a text; None where none stands there."""
    raw = text[start:end]
    body = raw.strip()
    start += len(raw) - len(raw.lstrip())
    end = start + len(body)
    if not body or body.startswith(("#", "-", ".", "/")):
        return None
    url = _URL.match(body)
    if url is not None:
        wheel = _WHEEL.match(url["name"])
        name = wheel["name"] if wheel is not None else url["name"]
        egg = re.search(r"egg=([\w.-]+)", url["fragment"] or "")
        return Requirement(normalised(egg.group(1) if egg else name), body, start, end, end)
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
        if not continued:
            code_end = at + len(line.removesuffix("\\").split(" #")[0])
            found = requirement(text, at, code_end)
            if found is not None:
                yield found
        continued = line.endswith("\\")
        at = line_end + 1


def in_command(command: Command) -> Iterator[Requirement]:
    """Yield the requirements that `pip install`, `conda install` and the like name."""
    words = [word for word in command.words if word.text]
    names = [word.value.rpartition("/")[2] for word in words]
    if "install" not in names and "add" not in names:
        return
    verb = next(index for index, name in enumerate(names) if name in ("install", "add"))
    if not any(name in _INSTALLERS for name in names[:verb]):
        return
    skip = False
    for word in words[verb + 1 :]:
        if skip or word.text.startswith("-"):
            skip = not skip and word.text in ("-r", "-c", "-f", "-i", "-n", "--index-url", "--extra-index-url",
                                              "--find-links", "--requirement", "--constraint", "-t", "--target",
                                              "--name", "--prefix", "--channel", "-e", "--editable")  # fmt: skip
            continue
        quoted = word.text[:1] in "\"'"
        inner = word.text.strip("\"'")
        start = word.start + (len(word.text) - len(word.text.lstrip("\"'")) if quoted else 0)
        found = requirement(inner, 0, len(inner))
        if found is not None:
            yield found._replace(start=start + found.start, end=start + found.end, line_end=start + found.line_end)
