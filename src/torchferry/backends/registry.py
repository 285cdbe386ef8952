"""Find backends: by module beside this one, then by entry point; none is imported before it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchferry.backends.base import Backend
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "torchferry.backends"
"""Entry-point group in which other distributions register a `Backend` subclass under its name."""

_NOT_TARGETS = frozenset(
    {"accelerator", "base", "cuda", "installed", "portable", "registry", "tables", "target", "unknown"}
)


class Choice(NamedTuple):
    """A target as the user named it: a backend and the plugin version the code is for (empty: newest)."""

    backend: type[Backend]
    version: str


def built_in() -> list[str]:
    """Return the names of the targets that torchferry itself describes."""
    return sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem not in _NOT_TARGETS and not path.stem.startswith("_")
    )


def names() -> list[str]:
    """Return the names of all targets, built-in ones first."""
    known = built_in()
    return known + sorted(set(_entry_points()) - set(known))


def load(name: str) -> type[Backend]:
    """Return the backend called `name`, or of which `name` is an alias.

    Raises:
        UsageError: no backend has this name; the nearest known name is suggested.
    """
    wanted = name.lower()
    if wanted.isidentifier() and wanted not in _NOT_TARGETS and _module(wanted).is_file():
        return _import(wanted)
    known = names()
    if wanted in known:
        return _import(wanted)
    for candidate in known:
        backend = _import(candidate)
        if wanted in backend.ALIASES:
            return backend
    raise unknown_name("target", name, known)


def choose(text: str) -> Choice:
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
                say("write the plugin's version, such as {example}", example=f"{backend.NAME}@2.9.0"),
            ) from None
    elif "@" in text:
        raise UsageError(say("target `{text}` has no version after `@`", text=text))
    return Choice(backend, version)


def _module(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.py")


def _import(name: str) -> type[Backend]:
    if _module(name).is_file():
        module = importlib.import_module(f"torchferry.backends.{name}")
        found = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Backend) and value.__module__ == module.__name__
        ]
        return next(backend for backend in found if getattr(backend, "NAME", "") == name)
    loaded = _entry_points()[name].load()
    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise UsageError(
            say(
                "entry point `{name}` in group `{group}` is not a Backend subclass",
                name=name,
                group=ENTRY_POINTS,
            )
        )
    return loaded


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import distributions, entry_points  # imported late: most runs name a built-in target

    # To parse every distribution's entry points, for a group that hardly any has, takes twice as long as to read them.
    if not any(ENTRY_POINTS in (one.read_text("entry_points.txt") or "") for one in distributions()):
        return {}
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
