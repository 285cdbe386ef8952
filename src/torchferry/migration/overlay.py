"""Migrated copies of modules of installed packages, in a folder of the project that is imported first.

The folder holds the copies (`modules/`), a file for each package under the package's name, which leads to where it is
installed, the program that serves the copies (`overlay_runtime.py`), the licences, and a manifest with the origin of
each copy. Nothing of the installed packages is changed, and what has no copy is imported from there as ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from torchferry import __version__
from torchferry.core.record import NamedTuple
from torchferry.migration.transaction import Write

MANIFEST = "torchferry-overlay.json"
RUNTIME = "torchferry_overlay"
"""The module that serves the copies."""

_LEADS = '''"""Leads to the installed `{name}`, some of whose modules are served from the copies beside this file.

torchferry wrote this; `torchferry undo` takes it away.
"""

import {runtime}

{runtime}.serve(__name__)
'''


class Copied(NamedTuple):
    """A module of an installed package that is copied.

    Attributes:
        module: Its dotted name.
        path: Its file below the folder of packages, with `/`.
        before: The content of that.
        after: The migrated content.
        fixes: How many places were changed.
    """

    module: str
    path: str
    before: bytes
    after: bytes
    fixes: int


class CopiedPackage(NamedTuple):
    """A package of which modules are copied.

    Attributes:
        package: What is imported.
        distribution: What it belongs to.
        version: Its version; empty where nothing says it.
        is_folder: Whether it is a package and not a single module.
        licence: What its metadata say of its licence; empty where they say nothing.
        licences: The texts of its licence, by their names.
        modules: The copies.
        places_left: How many places of what is reached need a person.
    """

    package: str
    distribution: str
    version: str
    is_folder: bool
    licence: str
    licences: tuple[tuple[str, bytes], ...]
    modules: tuple[Copied, ...]
    places_left: int = 0

    @property
    def is_licensed(self) -> bool:
        """Whether anything says under which licence it is."""
        return bool(self.licence or self.licences)


def plan_overlay(folder: str, target: str, packages: Sequence[CopiedPackage]) -> list[Write]:
    """Return what to write for copies of modules of packages.

    Args:
        folder: The folder of the overlay, below the root of the project, with `/`.
        target: The target, as `NAME` or `NAME@VERSION`.
        packages: What is copied.
    """
    files: dict[str, bytes] = {
        ".gitignore": b"*\n",  # copies of other people's work are for this machine
        f"{RUNTIME}.py": Path(__file__).with_name("overlay_runtime.py").read_bytes(),
        MANIFEST: _manifest(target, packages),
    }
    for package in packages:
        lead = package.package.replace(".", "/") + ("/__init__.py" if package.is_folder else ".py")
        files[lead] = _LEADS.format(name=package.package, runtime=RUNTIME).encode()
        for copied in package.modules:
            files[_place(copied)] = copied.after
        for name, text in package.licences:
            files[f"{_licences(package)}/{name}"] = text
    return [Write(f"{folder}/{path}", None, content) for path, content in sorted(files.items())]


def _manifest(target: str, packages: Sequence[CopiedPackage]) -> bytes:
    document = {
        "schema": 1,
        "torchferry": __version__,
        "target": target,
        "packages": [
            {
                "package": package.package,
                "distribution": package.distribution,
                "version": package.version,
                "licence": package.licence or None,
                "licences": [f"{_licences(package)}/{name}" for name, _ in package.licences],
                "modules": [
                    {
                        "module": copied.module,
                        "path": copied.path,
                        "sha256": hashlib.sha256(copied.before).hexdigest(),
                        "copy": _place(copied),
                        "fixes": copied.fixes,
                    }
                    for copied in package.modules
                ],
            }
            for package in packages
        ],
    }
    return (json.dumps(document, ensure_ascii=True, indent=1) + "\n").encode()


def _place(copied: Copied) -> str:
    return f"modules/{copied.path}"


def _licences(package: CopiedPackage) -> str:
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in package.distribution)
    version = "".join(letter if letter.isalnum() or letter in "-_.+" else "_" for letter in package.version)
    return f"licences/{name}-{version}".rstrip("-.")
