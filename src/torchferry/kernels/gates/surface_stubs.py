"""The namespaces of a plugin, as stubs of the names that it declares and of nothing else.

`at::musa` is not `at::cuda` by another name: it holds what the index of the plugin has, each by what torch's CUDA side
calls it. So a name that a port invents is an error of the compiler::

    namespace at { namespace musa { using ::at::cuda::warp_size; } }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.backends.kernel_surface import KernelSurface
from torchferry.backends.kernel_table import KernelTable
from torchferry.core.lazy_regex import lazy_regex
from torchferry.kernels.gates.declared_names import declared_names
from torchferry.kernels.tokens import SourceTokens, decode

_OUTER = ("at", "c10")
_INCLUDED = lazy_regex(r"^[ \t]*#[ \t]*include[ \t]*[<\"]((?:ATen|c10)/(?:\w+/)*[\w.]+)[>\"]", 8)
_MOST = 400
"""Headers of torch that are read for one stub."""


class SurfaceStubs:
    """Writes the stubs of one plugin for one installed torch.

    Args:
        table: What the port renamed by.
        surface: The names that the plugin declares.
        torch: The folder of torch's headers.
    """

    def __init__(self, table: KernelTable, surface: KernelSurface, torch: Path) -> None:
        self._table = table
        self._surface = surface
        self._torch = torch
        row = table.contexts.get(("namespace", "cuda"))
        self.namespace = row.use if row is not None else ""
        self._headers: dict[str, tuple[list[str], list[tuple[str, str]]]] = {}

    def text(self, originals: Iterable[str]) -> str:
        """Return what follows the headers of torch that a header of the plugin is read by."""
        lines = [f"namespace {outer} {{ namespace cuda {{}} }}" for outer in _OUTER]
        lines += [f"namespace {outer} {{ namespace {self.namespace} {{}} }}" for outer in _OUTER]
        lines.append(f"namespace at {{ namespace {self.namespace} {{ using namespace ::c10::{self.namespace}; }} }}")
        seen: dict[tuple[str, str], None] = {}
        for header in self._reached(originals):
            for scope, name in self._read(header)[1]:
                seen[scope, name] = None
        lines += (self._using(scope, name) for scope, name in seen)
        return "\n".join(line for line in lines if line) + "\n"

    def _using(self, scope: str, name: str) -> str:
        """Return the declaration that gives a name of torch's to the plugin; empty where the plugin has it not."""
        path = scope.split("::")
        renamed = [self.namespace if each == "cuda" else self._table.use_of(each) or each for each in path]
        if not self._surface.has((*renamed, self._table.use_of(name) or name)):
            return ""
        inner = " ".join(f"namespace {each} {{" for each in (path[0], self.namespace, *path[2:]))
        return f"{inner} using ::{scope}::{name}; {'}' * len(path)}"

    def _reached(self, originals: Iterable[str]) -> Iterator[str]:
        """Yield the headers of torch's CUDA side that some headers include, themselves or by others."""
        left, met = list(originals), set[str]()
        while left and len(met) < _MOST:
            header = left.pop()
            if header in met:
                continue
            met.add(header)
            yield header
            left += self._read(header)[0]

    def _read(self, header: str) -> tuple[list[str], list[tuple[str, str]]]:
        if header not in self._headers:
            try:
                source = SourceTokens(decode((self._torch / header).read_bytes()))
            except OSError:
                self._headers[header] = [], []
                return [], []
            included = [name for name in _INCLUDED.findall(source.text) if "cuda" in name.lower()]
            names = [
                (scope, name)
                for scope, name in declared_names(source.code)
                if scope.split("::")[0] in _OUTER and scope.split("::")[1:2] == ["cuda"]
            ]
            self._headers[header] = included, names
        return self._headers[header]
