"""Which package brings a library or a function: `[[owner]]` and `[[library]]` of a target's `doctor.toml`.

Loaders name a library (`libatb.so`) or a function (`PVRSRVGetDevInfo`) that is missing, and not the package that should
have brought it. Beginnings of names tell the package::

    [[owner]]
    kind = "part"                       # of KINDS: what states its version
    package = "Ascend-cann-nnal"
    package_zh = "Ascend-cann-nnal"
    libraries = ["libatb", "libmki"]    # names begin so, up to `.so`, a dot, or a letter that is no part of a word
    functions = ["atb::"]               # names of functions begin so, with their namespaces
    advice = "source its own set_env.sh"
    advice_zh = "..."
    source = "DOC"
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends import registry
from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.backends.machine import bilingual, facts
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

DRIVER, TOOLKIT, PART, PLUGIN = KINDS = ("driver", "toolkit", "part", "plugin")
"""What a package is: the driver, the toolkit, a part beside the toolkit with its own version, the plugin."""

_OF_ROLES = {"driver": DRIVER}
_NO_ADVICE = Bilingual("", "")


class LibraryOwner(NamedTuple):
    """A package, and the libraries and functions that it brings.

    Attributes:
        target: Whose it is.
        kind: One of `KINDS`.
        package: Its name, with a word where it is to be had.
        libraries: How the names of its libraries begin.
        functions: How the names of its functions begin.
        advice: What to do where one is missing; empty where the package's name says all.
        source: Where the facts come from.
    """

    target: str
    kind: str
    package: Bilingual
    libraries: tuple[str, ...]
    functions: tuple[str, ...]
    advice: Bilingual
    source: str

    def match_library(self, name: str) -> int:
        """Return how much of a library's name says that it is this package's; 0 where it is not.

        `libatb.so.1` and `libatb_mixops.so` begin with `libatb`.
        """
        stem = name.partition(".so")[0]
        return max((len(each) for each in self.libraries if stem == each or stem.startswith(f"{each}_")), default=0)

    def match_function(self, name: str) -> int:
        """Return how much of a function's name, with namespaces, says that it is this package's; 0 where it is not.

        A beginning that ends in a letter is followed by a capital: `acl` begins `aclInit`, and not `aclose`.
        """
        return max(
            (
                len(each)
                for each in self.functions
                if name.startswith(each) and (not each[-1].isalpha() or name[len(each) : len(each) + 1].isupper())
            ),
            default=0,
        )


def owners_of(backend: type[DataOwner]) -> tuple[LibraryOwner, ...]:
    """Return the packages of a target.

    Raises:
        ValueError: a table is wrong.
    """
    path = data_file(backend, "doctor.toml")
    return () if path is None else _read(path, backend.NAME)


def owner_of_library(name: str, backends: Iterable[type[DataOwner]] | None = None) -> LibraryOwner | None:
    """Return the package that brings a library; None where no table knows it.

    Args:
        name: As the loader prints it, such as `libmusa.so.4`.
        backends: Whose tables are asked; those of all targets where it is left out.
    """
    owner = max(_asked(backends), key=lambda owner: owner.match_library(name), default=None)
    return owner if owner is not None and owner.match_library(name) else None


def owner_of_function(name: str, backends: Iterable[type[DataOwner]] | None = None) -> LibraryOwner | None:
    """Return the package that brings a function, by its name with namespaces; as `owner_of_library`."""
    owner = max(_asked(backends), key=lambda owner: owner.match_function(name), default=None)
    return owner if owner is not None and owner.match_function(name) else None


def _asked(backends: Iterable[type[DataOwner]] | None) -> Iterable[LibraryOwner]:
    asked = [registry.load(name) for name in registry.names()] if backends is None else backends
    return (owner for backend in asked for owner in owners_of(backend))


@lru_cache(maxsize=16)
def _read(path: Path, target: str) -> tuple[LibraryOwner, ...]:
    file = DataFile(path)
    owners = [_owner(file, table, target) for table in file.tables("owner")]
    for library in facts(registry.load(target)).libraries:
        kind, stem = _OF_ROLES.get(library.role, TOOLKIT), library.name.partition(".so")[0]
        owners.append(LibraryOwner(target, kind, library.package, (stem,), (), _NO_ADVICE, library.source))
    return tuple(owners)


def _owner(file: DataFile, table: dict[str, Any], target: str) -> LibraryOwner:
    place = f"[[owner]] {table.get('package', '')}"
    keys = {"kind", "package", "package_zh", "libraries", "functions", "advice", "advice_zh", "source"}
    file.check_keys(table, frozenset(keys), place)
    package = bilingual(file, table, "package", place)
    owner = LibraryOwner(
        target,
        file.text(table, "kind", place),
        package or _NO_ADVICE,
        file.texts(table, "libraries", place),
        file.texts(table, "functions", place),
        bilingual(file, table, "advice", place) or _NO_ADVICE,
        file.cited(table, place),
    )
    if owner.kind not in KINDS or package is None or not (owner.libraries or owner.functions):
        raise file.wrong(f"{place}: needs `package`, `libraries` or `functions`, and a `kind` of {', '.join(KINDS)}")
    return owner
