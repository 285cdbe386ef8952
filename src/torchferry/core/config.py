"""The user's settings: `[tool.torchferry]` in pyproject.toml, or torchferry.toml; the nearest file wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchferry.core import toml
from torchferry.core.enclosing_folders import enclosing_folders, is_planted, is_work_tree
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.messages import Message, say
from torchferry.core.pathmap import LONGEST_NAME, PathMap, path_entry
from torchferry.core.record import NamedTuple


class Config(NamedTuple):
    """Settings of one project.

    Attributes:
        source: The file they were read from; None when there is none.
        target: Target, as `NAME` or `NAME@VERSION`.
        select: Codes or families of rules to apply; empty for all.
        ignore: Codes or families of rules to leave out.
        exclude: Patterns of paths to leave out, added to `.gitignore`.
        unsafe_fixes: Whether unsafe fixes are applied too.
        rewrite_documents: Whether commands in README files are rewritten.
        entry_points: Files that are started as programs, beside those that can be told by their text.
        max_file_size: Larger files (bytes) are reported, not read.
        paths: Path prefixes, which may end in a pattern of file names, and what replaces them on the target's
            machine.
        path_profile: The name of a shipped table of paths, which `paths` is added to.
        per_file_ignores: For each pattern of paths, codes or families of rules to leave out there.
    """

    source: Path | None = None
    target: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    rewrite_documents: bool = False
    entry_points: tuple[str, ...] = ()
    max_file_size: int = 5_000_000
    paths: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple default, never mutated
    path_profile: str = ""
    per_file_ignores: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - the same


_SLASHES = ("/", "\\")
_QUOTES = frozenset("\"'`")

_LONGEST_PATH = 4096
"""Characters: no system opens a longer one."""

_KINDS = {
    "target": str,
    "select": list,
    "ignore": list,
    "exclude": list,
    "unsafe-fixes": bool,
    "rewrite-documents": bool,
    "entry-points": list,
    "max-file-size": int,
    "paths": dict,
    "path-profile": str,
    "per-file-ignores": dict,
}
assert len(_KINDS) == len(Config._fields) - 1


def find(folder: Path) -> Path | None:
    """Return the nearest settings file: torchferry.toml, or a pyproject.toml with `[tool.torchferry]`.

    Raises:
        UsageError: a folder on the way, or a pyproject.toml, cannot be read; it may hold settings.
    """
    for place in enclosing_folders(folder):
        settings = _settings_in(place)
        if settings is not None and not is_planted(settings, folder):
            return settings
    return None


def project_root(folder: Path) -> Path | None:
    """Return the top of the project that a folder belongs to: the nearest work tree of git or folder with settings.

    None where no folder around it is one. Raises what `find` does.
    """
    for place in enclosing_folders(folder):
        if is_work_tree(place):
            return place
        settings = _settings_in(place)
        if settings is not None and not is_planted(settings, folder):
            return place
    return None


def _settings_in(place: Path) -> Path | None:
    try:
        own = place / "torchferry.toml"
        if own.is_file():
            return own
        shared = place / "pyproject.toml"
        if shared.is_file() and "[tool.torchferry" in read_text(shared, LARGEST_SETTINGS, errors="replace"):
            return shared
    except OSError as error:
        advice = say("run the command in a folder that you may read") if isinstance(error, PermissionError) else None
        raise UsageError(
            say("{path} cannot be read: {error}", path=error.filename, error=error.strerror), advice
        ) from None
    return None


def load(folder: Path) -> Config:
    """Return the settings for the project in `folder`.

    Raises:
        UsageError: the file cannot be read, is not TOML, has a key that does not exist, or a value of the wrong kind.
    """
    path = find(folder)
    return Config() if path is None else read(path)


def read(path: Path) -> Config:
    """Return the settings in a file; see `load` for what is raised."""
    try:
        document = toml.load(path)
    except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(say("{path} is not TOML: {error}", path=path, error=error)) from None
    except OSError as error:
        raise UsageError(say("{path} cannot be read: {error}", path=path, error=error.strerror)) from None
    table: Any = document
    for name in ("tool", "torchferry") if path.name == "pyproject.toml" else ():
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise UsageError(
                say(
                    "{path}: `{key}` must be {kind}, not {value}",
                    path=path,
                    key=name,
                    kind=_named_kind(dict),
                    value=repr(table)[:80],
                )
            )
    values: dict[str, Any] = {"source": path}
    for key, value in table.items():
        kind = _KINDS.get(key)
        if kind is None:
            # translators: the kind of a name that is unknown, as in "unknown setting `x`"
            problem = unknown_name("setting", key, _KINDS)
            raise UsageError(say("{path}: {problem}", path=path, problem=problem.message), problem.advice)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UsageError(
                say(
                    "{path}: `{key}` must be {kind}, not {value}",
                    path=path,
                    key=key,
                    kind=_named_kind(kind),
                    value=repr(value)[:80],
                )
            )
        values[key.replace("-", "_")] = _checked(path, key, value)
    return Config(**values)


def _named_kind(kind: type) -> Message:
    """Return what a kind of value is called in TOML."""
    if kind is bool:
        return say("true or false")
    if kind is int:
        return say("a whole number")
    return say("a table") if kind is dict else say("a list") if kind is list else say("a string")


def _checked(path: Path, key: str, value: Any) -> Any:
    """Return a value with its lists made tuples and its items known to be strings."""
    if isinstance(value, list):
        return _strings(path, key, value)
    if key == "paths":
        check_paths(str(path), value)
    if key == "per-file-ignores":
        return {pattern: _strings(path, key, codes) for pattern, codes in value.items()}
    return value


def _strings(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(say("{path}: `{key}` must be a list of strings", path=path, key=key))
    return tuple(value)


def check_paths(path: str, table: dict[str, Any]) -> None:
    """Check a table of paths, of the settings in `path` or of that and a shipped one.

    Raises:
        UsageError: a line is not two paths, would break the files that it is applied to, or contradicts another.
    """
    for old, new in table.items():
        if not old or not isinstance(new, str):
            raise UsageError(
                say(
                    "{path}: `paths` must map a path to a path; it maps {old} to {new}",
                    path=path,
                    old=repr(old),
                    new=repr(new),
                )
            )
        if len(old) > _LONGEST_PATH or len(new) > _LONGEST_PATH:
            raise UsageError(
                say(
                    "{path}: `paths` contains a path of more than {limit} characters, {start}...",
                    path=path,
                    limit=_LONGEST_PATH,
                    start=repr(max(old, new, key=len)[:40]),
                )
            )
        line = path_entry(old, new)
        if (
            "*" in line.prefix
            or "*" in new
            or len(line.pattern) > LONGEST_NAME
            or (line.pattern and not line.prefix[:-1])
        ):
            raise UsageError(
                say(
                    "{path}: `paths` maps {old} to {new}, which is not a folder with a pattern of file names",
                    path=path,
                    old=repr(old),
                    new=repr(new),
                ),
                say(
                    "write a folder and a pattern of file names, such as `/results/*.pth`, "
                    "and the folder that these files go to"
                ),
            )
        if new and line.prefix.endswith(_SLASHES) and not new.endswith(_SLASHES):
            raise UsageError(
                say(
                    "{path}: `paths` maps {old} to {new}; without a slash it would join the next name",
                    path=path,
                    old=repr(old),
                    new=repr(new),
                ),
                say(
                    "end both paths with a slash, or neither; the folder that the files of a pattern go to must end "
                    "with one"
                ),
            )
        if not (old + new).isprintable() or set(old + new) & _QUOTES:
            raise UsageError(
                say(
                    "{path}: `paths` maps {old} to {new}: remove quotes and control characters, which would break the "
                    "files",
                    path=path,
                    old=repr(old),
                    new=repr(new),
                )
            )
    mapping = PathMap(table)
    conflict = mapping.conflict()
    if conflict is not None:
        raise UsageError(
            say(
                "{path}: `paths` maps some files by {first} and by {second}, to different folders",
                path=path,
                first=repr(conflict.first),
                second=repr(conflict.second),
            ),
            say("make one of the patterns narrower than the other; the narrower one then applies to its files"),
        )
    again = mapping.unstable()
    if again is not None:
        raise UsageError(
            say(
                "{path}: `paths` maps {old} to {new}, which it maps again to {again}",
                path=path,
                old=repr(again.old),
                new=repr(table[again.old]),
                again=repr(again.new),
            ),
            say("map each prefix to its final path; two prefixes that swap need two runs with two tables"),
        )
