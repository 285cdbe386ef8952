"""Which package should have brought a library or a function that is missing, with the versions on both sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from torchferry.backends.library_owners import DRIVER, PLUGIN, TOOLKIT, LibraryOwner
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_MOST_FILES = 6


class TargetVersions(NamedTuple):
    """What is installed of a target's software; empty texts where nothing says it."""

    driver: str = ""
    toolkit: str = ""
    plugin: str = ""


Versions = Callable[[str], TargetVersions]
"""Returns what is installed of a target, by its name."""


def of_function(owner: LibraryOwner, versions: Versions) -> tuple[Message, Message]:
    """Return why a function of a package is missing, and what to do."""
    cause = say(
        "it is a function of {package}: what is here is missing, not loaded, or older than what calls it{versions}",
        package=owner.package,
        versions=_installed(owner, versions),
    )
    if owner.kind == PLUGIN:
        return cause, _advice(owner)
    if owner.kind == DRIVER:
        advice = say(
            "install the driver that belongs to the toolkit, in a container on the host; do not build the plugin "
            "again; `torchferry doctor -t {target}` shows the versions",
            target=owner.target,
        )
        return cause, advice
    return cause, say(
        "install {package} of the version that the plugin's release names, and build extensions again with it; "
        "`torchferry doctor -t {target}` shows the versions",
        package=owner.package,
        target=owner.target,
    )


_TORCHS = ("libtorch", "libc10", "libshm")


def of_library(
    name: str, needed_by: str, owner: LibraryOwner | None, versions: Versions, folders: Iterable[str]
) -> tuple[Message, Message]:
    """Return why a library is not found, and what to do; of other versions of it, which there are.

    Args:
        name: As the loader is asked for it.
        needed_by: The library that needs it; empty where it is not known.
        owner: The package that brings it; None where no table knows it.
        versions: What is installed.
        folders: Where libraries are.
    """
    others = _others(name, folders)
    cause = say("the loader does not find it")
    if needed_by:
        cause = say("the loader does not find it; {library} needs it", library=needed_by)
    if owner is not None:
        cause = say("{cause}; it is of {package}", cause=cause, package=owner.package)
    if others:
        cause = say("{cause}; here is another version: {files}", cause=cause, files=", ".join(others))
    if owner is None and name.startswith(_TORCHS):
        cause = say("{cause}; it is of torch, whose `import` loads it", cause=cause)
        return cause, say("import torch before, or add the folder `lib` of torch to LD_LIBRARY_PATH")
    if owner is None:
        return cause, say("install the package that brings it, or add its folder to LD_LIBRARY_PATH")
    return say("{cause}{versions}", cause=cause, versions=_installed(owner, versions)), _advice(owner)


def _advice(owner: LibraryOwner) -> Message:
    if owner.advice.en:
        return say("{advice}; `torchferry doctor -t {target}` shows the rest", advice=owner.advice, target=owner.target)
    return say(
        "install {package}, of the version that the plugin asks for; `torchferry doctor -t {target}` shows the rest",
        package=owner.package,
        target=owner.target,
    )


def _installed(owner: LibraryOwner, versions: Versions) -> Message | str:
    """Return the versions that are installed, as the end of a sentence; empty where nothing states any."""
    installed = versions(owner.target)
    parts = {DRIVER: installed.driver, TOOLKIT: installed.toolkit, PLUGIN: installed.plugin}
    stated = [f"{kind} {version}" for kind, version in parts.items() if version]
    return say("; installed: {versions}", versions=", ".join(stated)) if stated else ""


def _others(name: str, folders: Iterable[str]) -> list[str]:
    """Return files of the same library with another number, as they lie in the folders."""
    stem = name.partition(".so")[0]
    if not re.fullmatch(r"[\w+-]+", stem):
        return []
    files: list[str] = []
    for folder in dict.fromkeys(folders):
        try:
            found = sorted(Path(folder).glob(f"{stem}.so*"))
        except OSError:
            continue
        files += [str(path) for path in found if path.name != name]
    return files[:_MOST_FILES]
