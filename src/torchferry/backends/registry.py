"""Find backends: folders in `vendors/` that have a `vendor.toml`, then entry points of other distributions.

An entry point names a subclass of `Backend`, or a package with a `vendor.toml` in its folder. No description is read
before it is requested.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from torchferry.backends.base import Backend
from torchferry.backends.datafile import VENDORS, data_file
from torchferry.backends.described import DESCRIPTION, describe
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "torchferry.backends"
"""Entry-point group in which other distributions register a `Backend` subclass, or a package, under a target's name."""

_REQUIRED = ("NAME", "TITLE", "PLUGIN", "DEVICE_TYPE", "COLLECTIVE")
"""Attributes of `Backend` without a default."""


class TargetChoice(NamedTuple):
    """A target as the user named it: a backend and the plugin version the code is for (empty: newest)."""

    backend: type[Backend]
    version: str


def built_in() -> list[str]:
    """Return the names of the targets that torchferry itself describes."""
    return sorted(path.parent.name for path in VENDORS.glob(f"*/{DESCRIPTION}"))


def names() -> list[str]:
    """Return the names of all targets, built-in ones first."""
    described = built_in()
    return described + sorted(set(_entry_points()) - set(described))


def data_files(name: str) -> list[Path]:
    """Return the files of this name of all targets; one that several inherit stands once."""
    paths = (data_file(load(target), name) for target in names())
    return list(dict.fromkeys(path for path in paths if path is not None))


def load(name: str) -> type[Backend]:
    """Return the backend called `name`, or of which `name` is an alias.

    Raises:
        UsageError: no backend has this name, and the nearest known name is suggested; or its class cannot be loaded.
    """
    wanted = name.lower()
    if wanted.isidentifier() and _is_built_in(wanted):
        return _described(VENDORS / wanted, wanted)
    targets = names()
    if wanted in targets:
        return _described(VENDORS / wanted, wanted) if wanted in built_in() else _entry_point_class(wanted)
    for candidate in targets:
        try:
            backend = load(candidate)
        except UsageError:  # another name is asked for, and `backend list` reports this one
            continue
        if wanted in backend.ALIASES:
            return backend
    # translators: the accelerator that a project is ported to, or the run on it that is compared with a reference
    raise unknown_name("target", name, targets)


def choose(text: str) -> TargetChoice:
    """Return the target for `NAME` or `NAME@VERSION`, such as `npu@2.9.0`.

    Raises:
        UsageError: the name is unknown, or the version is not a version.
    """
    name, _, version = text.partition("@")
    backend = load(name.strip())
    version = version.strip()
    if version:
        from packaging.version import InvalidVersion, Version

        try:
            Version(version)
        except InvalidVersion:
            raise UsageError(
                say("`{version}` in target `{text}` is not a version", version=version, text=text),
                say("write the plugin's version, such as {example}", example=f"{backend.NAME}@{_example(backend)}"),
            ) from None
    elif "@" in text:
        raise UsageError(say("target `{text}` has no version after `@`", text=text))
    return TargetChoice(backend, version)


def _example(backend: type[Backend]) -> str:
    """Return a version for an error."""
    from torchferry.backends.plugin_versions import known_versions  # imported late: most targets are named right

    return next(reversed(known_versions(backend)), "2.9.0")


def _is_built_in(name: str) -> bool:
    return (VENDORS / name / DESCRIPTION).is_file()


def _described(folder: Path, name: str) -> type[Backend]:
    """Return the class that is made from a vendor's folder."""
    path = folder / DESCRIPTION
    try:
        backend = describe(folder, name)
    except (OSError, ValueError) as error:
        raise _not_loadable(name, str(path), f"{type(error).__name__}: {error}") from error
    return _complete(backend, name, str(path))


def _entry_point_class(name: str) -> type[Backend]:
    """Return the class that another distribution registers, or that the folder of its package describes."""
    point = _entry_points()[name]
    try:
        loaded = point.load()
    except Exception as error:  # the code of somebody else's distribution, which may do anything
        where = f"{point.value} ({point.dist.name})" if point.dist else point.value
        raise _not_loadable(name, where, f"{type(error).__name__}: {error}") from error
    for folder in map(Path, getattr(loaded, "__path__", ()) if isinstance(loaded, ModuleType) else ()):
        if (folder / DESCRIPTION).is_file():
            return _described(folder, name)
    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise UsageError(
            say("entry point `{name}` in group `{group}` is not a Backend subclass", name=name, group=ENTRY_POINTS),
            say("name a subclass of Backend, or a package with a file {file}", file=DESCRIPTION),
        )
    return _complete(loaded, name, point.value)


def _complete(backend: type[Backend], name: str, where: str) -> type[Backend]:
    """Return the class, after a look at the attributes that have no default, on which everything else rests."""
    lacking = [attribute for attribute in _REQUIRED if not isinstance(getattr(backend, attribute, None), str)]
    if lacking:
        raise _not_loadable(name, where, say("it does not set {attributes}", attributes=", ".join(lacking)))
    return backend


def _not_loadable(name: str, where: str, error: str | Message) -> UsageError:
    return UsageError(
        say("the target `{name}` cannot be loaded from {where}: {error}", name=name, where=where, error=error),
        say("fix or uninstall the package that describes it; the other targets work without it"),
    )


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import distributions, entry_points  # imported late: most runs name a built-in target

    # To parse every distribution's entry points, for a group that hardly any has, takes twice as long as to read them.
    if not any(ENTRY_POINTS in (distribution.read_text("entry_points.txt") or "") for distribution in distributions()):
        return {}
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
