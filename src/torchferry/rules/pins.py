"""Which version of a package the files in a project's root ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from torchferry.core.files import read_text
from torchferry.core.lazy_regex import lazy_regex

_PINS = (".txt", ".in", ".md", ".rst", ".yml", ".yaml", ".toml", ".cfg", "Dockerfile")
_DOCUMENTS = (".md", ".rst")
"""Files that tell people what to install; they count where no file that a program reads names the package."""
_LARGEST = 300_000
"""Bytes of a file in the root that is read for the version that the project pins."""

_BOUND = lazy_regex(r"([=<>~!]=?=?)[ \t]*v?(\d[\w.]*)")


@lru_cache(maxsize=64)
def pinned(root: Path, package: str) -> str:
    """Return the version that a file in the project's root pins; empty for none."""
    pin = lazy_regex(rf"(?<![\w-]){re.escape(package)}[ \t]*={{1,2}}[ \t]*v?(\d[\w.]*)", re.IGNORECASE)
    for text in _texts_on(root, package):
        match = pin.search(text)
        if match is not None:
            return match[1].rstrip(".")
    return ""


def is_older(version: str, than: str) -> bool:
    """Whether a version is older than another; a version that cannot be read is."""
    from packaging.version import Version  # imported late: few projects use such a call

    try:
        return Version(version.rstrip("*.")) < Version(than)
    except ValueError:  # also a number of more digits than Python reads
        return True


@lru_cache(maxsize=256)
def keeps_below(root: Path, package: str, version: str) -> str:
    """Return the version by which a file in the project's root keeps a package older than `version`; empty for none."""
    asks = lazy_regex(
        rf"(?<![\w-]){re.escape(package)}(?P<bounds>(?:[ \t]*,?[ \t]*[=<>~!]=?=?[ \t]*v?\d[\w.*]*)+)", re.IGNORECASE
    )
    for text in _texts_on(root, package):
        for match in asks.finditer(text):
            for operator, number in _BOUND.findall(match["bounds"]):
                if operator in ("=", "==", "===", "~=", "<=") and is_older(number, version):
                    return str(number)
                if operator == "<" and (number == version or is_older(number, version)):
                    return str(number)
    return ""


def _texts_on(root: Path, package: str) -> tuple[str, ...]:
    """Return the texts that say which version of a package is asked for: documents only where nothing else names it."""
    named = lazy_regex(rf"(?<![\w-]){re.escape(package)}(?![\w-])", re.IGNORECASE)
    lists = tuple(text for name, text in _texts(root) if not name.endswith(_DOCUMENTS))
    if any(named.search(text) for text in lists):
        return lists
    return tuple(text for _, text in _texts(root))


@lru_cache(maxsize=8)
def _texts(root: Path) -> tuple[tuple[str, str], ...]:
    return tuple(_read(root))


def _read(root: Path) -> Iterator[tuple[str, str]]:
    try:
        files = sorted(root.iterdir())
    except OSError:
        return
    for file in files:
        try:
            if not (file.name.endswith(_PINS) or file.name == "setup.py") or file.is_symlink():
                continue
            if file.stat().st_size > _LARGEST:
                continue
            yield file.name, read_text(file, _LARGEST, errors="replace")
        except OSError:
            continue
