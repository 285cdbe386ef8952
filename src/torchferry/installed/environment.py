"""Where the packages of an interpreter, a virtual environment or another machine's folder lie.

Nothing is run where the layout of the folders says it. An interpreter that must be asked runs one small program of
ours, without its own start-up files.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.files import read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say
from torchferry.core.own_python import bare_command
from torchferry.core.subprocesses import run

_LARGEST_SETTING = 1 << 16
"""Bytes of a pyvenv.cfg or a .pth file."""

_MOST_PATHS = 64
"""Lines of .pth files that are followed."""

_TIME = 20.0
"""Seconds for an interpreter to say where its packages lie."""

_ASK = (
    "import json, site, sys, sysconfig\n"
    "paths = sysconfig.get_paths()\n"
    "folders = list(getattr(site, 'getsitepackages', list)()) + [paths['purelib'], paths['platlib']]\n"
    "print(json.dumps({'folders': folders, 'version': '%d.%d' % sys.version_info[:2],"
    " 'platform': sysconfig.get_platform()}))\n"
)
"""Runs in the interpreter that is asked, with -I and -S; Python 3.2 and later understand it."""

_VERSIONED = re.compile(r"python3\.(\d+)t?\Z")
_FINDER = re.compile(r"__editable___\w+_finder\.py")
_MAPPING = re.compile(r"^MAPPING[^=\n]*= (\{[^\n]*\})", re.MULTILINE)
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Environment:
    """Where packages lie.

    Attributes:
        named: What the user named.
        folders: Folders that hold packages, in the order in which they are searched.
        version: Version of its Python, as `3.11`; empty where it is not known.
        platform: Its platform, as `linux-x86_64`; empty where nothing says it.
        mapped: Where modules of editable installations lie, by their top-level name.
        remarks: What could not be followed, with its place.
    """

    named: Path
    folders: tuple[Path, ...]
    version: str = ""
    platform: str = ""
    mapped: tuple[tuple[str, Path], ...] = ()
    remarks: tuple[Message, ...] = ()


def environment_of(python: Path) -> Environment:
    """Return the environment of an interpreter, a virtual environment, or a folder of packages.

    Raises:
        UsageError: there is nothing of the kind, or the interpreter does not answer.
    """
    named = python
    python = Path(os.path.abspath(python.expanduser()))
    try:
        if python.is_dir():
            return _of_folder(named, python)
        if not python.is_file():
            raise UsageError(
                say("there is no interpreter or environment at {path}", path=named),
                say("name a Python, the folder of a virtual environment, or a site-packages folder"),
            )
        return _of_interpreter(named, python)
    except OSError as error:
        raise UsageError(say("{path} cannot be read: {error}", path=named, error=error.strerror)) from None


def _of_folder(named: Path, folder: Path) -> Environment:
    if (folder / "pyvenv.cfg").is_file():
        return _of_virtual(named, folder)
    layout = _layout(folder)
    if layout is not None:
        return _with_paths(named, *layout)
    if folder.name in _PACKAGES or _holds_packages(folder):
        version = _version_of(folder.parent)
        # Of another machine it may be: what its .pth files name is not this machine's.
        return Environment(named, (folder,), version)
    raise UsageError(
        say("{path} is not an environment: it has no pyvenv.cfg and no site-packages", path=named),
        say("name a Python, the folder of a virtual environment, or a site-packages folder"),
    )


def _of_interpreter(named: Path, python: Path) -> Environment:
    prefix = python.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        return _of_virtual(named, prefix)
    if (python.parent / "pyvenv.cfg").is_file():  # as on Windows, and where someone named a copy
        return _of_virtual(named, python.parent)
    layout = _layout(prefix)
    if layout is not None and layout[0] and not _is_system(prefix):
        return _with_paths(named, *layout)
    return _asked(named, python)


def _is_system(prefix: Path) -> bool:
    """Whether packages of a prefix may lie elsewhere too, as those of Debian's Python do."""
    return str(prefix) in ("/", "/usr", "/usr/local")


def _of_virtual(named: Path, folder: Path) -> Environment:
    settings = _settings(folder / "pyvenv.cfg")
    layout = _layout(folder)
    if layout is None:
        raise UsageError(
            say("{path} is a virtual environment without a site-packages folder: it is broken", path=named),
            say("create it again, or name another one"),
        )
    folders, version = layout
    version = version or ".".join(settings.get("version", settings.get("version_info", "")).split(".")[:2])
    remarks: list[Message] = []
    if settings.get("include-system-site-packages", "").lower() == "true":
        base = Path(settings.get("home", "")).parent if settings.get("home") else None
        shared = _layout(base, version) if base is not None and base.is_absolute() else None
        if shared is None:
            remarks.append(
                say(
                    "{path} shares the packages of another Python, which does not exist here: they were not read",
                    path=named,
                )
            )
        else:
            folders = [*folders, *shared[0]]
    environment = _with_paths(named, folders, version)
    return replace(environment, remarks=(*remarks, *environment.remarks))


def _layout(prefix: Path, version: str = "") -> tuple[list[Path], str] | None:
    """Return the folders of packages below a prefix and the version of Python that they are for, or None.

    Where there are several versions and none is asked for, it is unknown which is meant: None, too.
    """
    by_version: dict[str, list[Path]] = {}
    for library in ("lib", "lib64", "Lib"):
        base = prefix / library
        for place in [base, *_subfolders(base)]:
            of_place = _version_of(place)
            if place is not base and not of_place and place.name != "python3":
                continue
            for name in _PACKAGES:
                folder = place / name
                if folder.is_dir():
                    by_version.setdefault(of_place, []).append(folder)
    shared = by_version.pop("", [])
    if version:
        chosen = by_version.get(version, [])
    elif len(by_version) > 1:
        return None
    else:
        version, chosen = next(iter(by_version.items()), ("", []))
    folders = list(_distinct([*chosen, *shared]))
    return (folders, version) if folders else None


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(folder / name for name in os.listdir(folder) if name.startswith("python3"))
    except OSError:
        return []


def _version_of(folder: Path) -> str:
    match = _VERSIONED.fullmatch(folder.name)
    return f"3.{match[1]}" if match else ""


def _distinct(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield folders that are not the same as one before: lib64 is a link to lib in most environments."""
    seen: set[str] = set()
    for folder in folders:
        real = os.path.realpath(folder)
        if real not in seen:
            seen.add(real)
            yield folder


def _holds_packages(folder: Path) -> bool:
    return any(name.endswith((".dist-info", ".egg-info", ".egg")) for name in os.listdir(folder))


def _settings(path: Path) -> dict[str, str]:
    """Return the lines of a pyvenv.cfg; what is no line of settings is left out."""
    try:
        text = read_text(path, _LARGEST_SETTING, errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _asked(named: Path, python: Path) -> Environment:
    """Ask an interpreter; it runs a program of ours alone, without its site and without variables of Python's."""
    if not os.access(python, os.X_OK):
        raise UsageError(
            say("{path} is not an executable program", path=named),
            say("name a Python, the folder of a virtual environment, or a site-packages folder"),
        )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    ran = run(tuple(bare_command("-c", _ASK, python=str(python))), _TIME, environment)
    answer = _answer(ran.out)
    if not ran.ok or answer is None:
        first = next(iter(ran.first_lines(1)), ran.problem or str(ran.status))
        raise UsageError(
            say("{path} does not report where its packages are: {error}", path=named, error=first),
            say("name its site-packages folder instead"),
        )
    folders, version, platform = answer
    places = [folder for folder in map(Path, folders) if folder.is_absolute() and folder.is_dir()]
    answered = _with_paths(named, list(_distinct(places)), version)
    return replace(answered, platform=platform)


def _answer(text: str) -> tuple[list[str], str, str] | None:
    """Return what an interpreter said: folders, version, platform; None for anything else."""
    try:
        document = parsed_json(text.strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    folders, version, platform = document.get("folders"), document.get("version"), document.get("platform")
    if not (isinstance(folders, list) and isinstance(version, str) and isinstance(platform, str)):
        return None
    return [folder for folder in folders if isinstance(folder, str)][:_MOST_PATHS], version[:16], platform[:64]


def _with_paths(named: Path, folders: Iterable[Path], version: str) -> Environment:
    """Return an environment with the folders that its .pth files add, as editable installations do."""
    folders = list(folders)
    added: list[Path] = []
    mapped: dict[str, Path] = {}
    remarks: list[Message] = []
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if not (name.endswith(".pth") or _FINDER.fullmatch(name)):
                continue
            try:
                text = read_text(folder / name, _LARGEST_SETTING, errors="replace")
            except OSError as error:
                remarks.append(
                    say("{path} cannot be read: {error}", path=folder / name, error=error.strerror or str(error))
                )
                continue
            if name.endswith(".pth"):
                added += _added(folder, text)
            else:
                mapped |= _mapped(text)
    if len(added) > _MOST_PATHS or len(mapped) > _MOST_PATHS:
        remarks.append(
            say(
                "the .pth files of {path} add more than {limit} folders or packages: the rest was not read",
                path=named,
                limit=_MOST_PATHS,
            )
        )
    return Environment(
        named,
        tuple(_distinct([*folders, *added[:_MOST_PATHS]])),
        version,
        mapped=tuple(sorted(mapped.items())[:_MOST_PATHS]),
        remarks=tuple(remarks),
    )


def _added(folder: Path, text: str) -> Iterator[Path]:
    """Yield the folders that a .pth file adds to the path; its lines of code are not run."""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line:
            place = Path(os.path.normpath(folder / line))
            if place.is_dir():
                yield place


def _mapped(text: str) -> dict[str, Path]:
    """Return what setuptools' finder of an editable installation says: packages and their folders."""
    match = _MAPPING.search(text)
    try:
        table = ast.literal_eval(match[1]) if match is not None else {}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {
        module: Path(place)
        for module, place in table.items()
        if isinstance(module, str) and isinstance(place, str) and module.isidentifier() and os.path.isabs(place)
    }
