"""The report of a run (`torchferry run --report FILE`): read whole, and believed in nothing that it does not prove.

It says where the program went through the redirect. It comes from another machine as often as not, so its folder need
not exist here; the hash of each file tells whether a line is still the line that ran.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.json_text import parsed_json
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple

LARGEST = 64 * 1024 * 1024
"""Bytes of a report; a run over a large project writes some thousand lines of a hundred bytes."""

_MAJOR = "1"
_HASH = lazy_regex(r"[0-9a-f]{64}\Z")
_NAME = lazy_regex(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)
_LONGEST_NAME = 200
_MOST_TIMES = 10**15


class RuntimeUse(NamedTuple):
    """A name of torch that went through the redirect at a line, and how often; a bare `cuda` is a device."""

    line: int
    name: str
    times: int


class RuntimeReport(NamedTuple):
    """What a run saw of the project.

    Attributes:
        source: The file that says so.
        hashes: SHA-256 of each file below the project's folder in which something was seen, as it ran.
        lines: What was seen in each of these files, by line and name.
        elsewhere: How many uses lie outside the project's folder.
    """

    source: Path
    hashes: dict[str, str]
    lines: dict[str, tuple[RuntimeUse, ...]]
    elsewhere: int = 0


def read_runtime_report(file: Path, root: Path, only: tuple[str, ...] = ()) -> RuntimeReport:
    """Return what a run saw below `root`.

    Where the folder that the run was started in contains `root`, or lies in it, paths are counted from there; else (the
    run was on another machine) they are taken to count from `root`.

    Args:
        file: The report.
        root: The project's folder.
        only: Paths of the files and folders to hear of; empty for all.

    Raises:
        TorchferryError: it cannot be read, or is not such a report.
    """
    document = _parsed(file)
    hashes = _hashes(file, document)
    below = _below(file, document, root)
    counts: dict[str, dict[tuple[int, str], int]] = {}
    elsewhere = 0
    for number, site in enumerate(document["sites"]):
        path, line, name, times = _site(file, number, site)
        if path not in hashes:
            raise _wrong(file, say("`{path}` has lines but no hash", path=path))
        inside = below(path)
        if inside is None:
            elsewhere += 1
        elif not only or any(inside == path or inside.startswith(f"{path}/") for path in only):
            of_file = counts.setdefault(inside, {})
            of_file[line, name] = of_file.get((line, name), 0) + times
    return RuntimeReport(
        file,
        {inside: value for path, value in hashes.items() if (inside := below(path)) in counts},
        {
            path: tuple(RuntimeUse(line, name, times) for (line, name), times in sorted(of_file.items()))
            for path, of_file in sorted(counts.items())
        },
        elsewhere,
    )


def _parsed(file: Path) -> dict[str, Any]:
    try:
        data = read_regular(file, LARGEST)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _wrong(
                file, say_plural("it has more than {count} byte", "it has more than {count} bytes", count=LARGEST)
            ) from None
        raise TorchferryError(say("{path} cannot be read: {error}", path=file, error=error.strerror)) from None
    try:
        document = parsed_json(data)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise _wrong(file, say("it is not JSON: {error}", error=reason)) from None
    if not isinstance(document, dict):
        raise _wrong(file, say("it is not a JSON object"))
    schema = document.get("schema")
    if not isinstance(schema, str):
        raise _wrong(file, say("it has no `{key}` of the expected type", key="schema"))
    if schema.partition(".")[0] != _MAJOR:
        raise _wrong(
            file, say("its schema is {schema}, but this torchferry reads {known}", schema=schema, known=_MAJOR)
        )
    for key, kind in (("root", str), ("files", dict), ("sites", list)):
        if not isinstance(document.get(key), kind):
            raise _wrong(file, say("it has no `{key}` of the expected type", key=key))
    return document


def _hashes(file: Path, document: dict[str, Any]) -> dict[str, str]:
    for path, value in document["files"].items():
        _checked_path(file, path)
        if not isinstance(value, str) or not _HASH.match(value):
            raise _wrong(file, say("the hash of `{path}` is not valid", path=path))
    return dict(document["files"])


def _site(file: Path, number: int, site: object) -> tuple[str, int, str, int]:
    if not isinstance(site, dict):
        raise _wrong(file, say("site {number} is not a JSON object", number=number))
    path, line, name, times = (site.get(key) for key in ("path", "line", "name", "times"))
    if not isinstance(path, str):
        raise _wrong(file, say("site {number} has no `{key}` of the expected type", number=number, key="path"))
    if not _is_count(line):
        raise _wrong(file, say("site {number} has no `{key}` of the expected type", number=number, key="line"))
    if not _is_count(times):
        raise _wrong(file, say("site {number} has no `{key}` of the expected type", number=number, key="times"))
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.match(name):
        raise _wrong(file, say("site {number} has no `{key}` of the expected type", number=number, key="name"))
    return path, line, name, times  # type: ignore[return-value]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_TIMES


def _checked_path(file: Path, path: str) -> None:
    parts = path.split("/")
    if "\\" in path or "\0" in path or ":" in parts[0] or any(part in {"", ".", ".."} for part in parts):
        raise _wrong(file, say("`{path}` is not a path below the folder of the run", path=path))


class _Below:
    """From paths of the run to paths of the project."""

    def __init__(self, prefix: tuple[str, ...], cut: tuple[str, ...]) -> None:
        self._prefix = prefix
        self._cut = cut

    def __call__(self, path: str) -> str | None:
        parts = tuple(path.split("/"))
        if parts[: len(self._cut)] != self._cut:
            return None
        return "/".join((*self._prefix, *parts[len(self._cut) :])) or None


def _below(file: Path, document: dict[str, Any], root: Path) -> _Below:
    try:
        started, project = Path(document["root"]).resolve(), root.resolve()
    except (OSError, ValueError, RuntimeError):
        raise _wrong(file, say("`{path}` is not a folder", path=document["root"])) from None
    if project.is_relative_to(started):
        return _Below((), project.relative_to(started).parts)
    if started.is_relative_to(project):
        return _Below(started.relative_to(project).parts, ())
    return _Below((), ())


def _wrong(file: Path, why: Message) -> TorchferryError:
    return TorchferryError(
        say("{path} is not a report of a run: {why}", path=file, why=why),
        say("write it again: `torchferry run --report FILE -- COMMAND`"),
    )
