"""Which names a plugin's C++ has, as its public headers declare them (`kernel_surface.toml`).

A name that a port writes has to be one of them: what merely sounds right cannot be compiled::

    [sources]
    ACME = "where"

    [[scope]]                              # a namespace, with what it declares
    name = "at::acme"
    names = "getCurrentAcmeStream warp_size"
    source = "ACME"

    [macros]
    names = "C10_ACME_CHECK"
    source = "ACME"

    [words]                                # of CUDA's device language, as the vendor's own kernels use them
    names = "__ldg __syncwarp"
    source = "ACME"

    [pairs]                                # CUDA's name and the one that is declared
    names = "CUDAAllocator AcmeAllocator"
    source = "ACME"

A tool writes the file, since the headers change with each version.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file

_TOP = frozenset({"sources", "scope", "macros", "words", "pairs"})
_ROW = frozenset({"names", "source"})


class KernelSurface:
    """The names of one plugin.

    Attributes:
        scopes: By namespace, the names that it declares.
        macros: The macros that its headers define.
        words: Words of CUDA's device language that the vendor's own kernels use.
        pairs: By CUDA's name, the one that is declared.
    """

    def __init__(self, file: DataFile) -> None:
        file.check_keys(file.document, _TOP, "top")
        self.scopes: dict[str, frozenset[str]] = {}
        for entry in file.tables("scope"):
            name = file.text(entry, "name", "[[scope]]")
            where = f"[[scope]] {name}"
            file.check_keys(entry, _ROW | {"name"}, where)
            file.cited(entry, where)
            self.scopes[name] = frozenset(file.text(entry, "names", where).split())
        self.macros = frozenset(_names(file, "macros"))
        self.words = frozenset(_names(file, "words"))
        words = _names(file, "pairs")
        self.pairs = dict(zip(words[::2], words[1::2], strict=True))
        self._outer = {scope.rpartition("::")[0] for scope in self.scopes}

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether a name is declared.

        Args:
            path: Its namespaces and the name; a member of what is declared need not be, nor an inner namespace. What
                `c10` declares is seen in `at`, too.
        """
        return any(self._in((outer, *path[1:])) for outer in ((path[0], "c10") if path[0] == "at" else (path[0],)))

    def _in(self, path: tuple[str, ...]) -> bool:
        scope = "::".join(path[:2])
        for name in path[2:]:
            if name in self.scopes.get(scope, ()):
                return True
            scope = f"{scope}::{name}"
            if scope not in self.scopes and scope not in self._outer:
                return False
        return scope in self.scopes


def kernel_surface(backend: type[Backend]) -> KernelSurface | None:
    """Return the names of a plugin; None where no file has them.

    Raises:
        ValueError: the file is wrong; says where.
    """
    path = data_file(backend, "kernel_surface.toml")
    return None if path is None else surface_of(path)


@lru_cache(maxsize=8)
def surface_of(path: Path) -> KernelSurface:
    """Return the names that a file has; raises as `kernel_surface` does."""
    return KernelSurface(DataFile(path))


def _names(file: DataFile, key: str) -> list[str]:
    table = file.document.get(key, {})
    if not isinstance(table, dict):
        raise file.wrong(f"[{key}]: not a table")
    if not table:
        return []
    file.check_keys(table, _ROW, f"[{key}]")
    file.cited(table, f"[{key}]")
    return file.text(table, "names", f"[{key}]").split()
