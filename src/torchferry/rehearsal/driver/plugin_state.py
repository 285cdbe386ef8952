"""What keeps an installed plugin from being loaded, seen without loading it: a library that is cut, another plugin."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
"""Of a 64-bit ELF file (System V ABI, figure 4-3), with the least significant byte first."""

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_MOST_HEADERS = 1 << 10


def cut_library(backend: type[Backend], folder: str) -> Message | None:
    """Return which library of a plugin is not whole, so that loading it would end the process; None where all are.

    Args:
        backend: The plugin's backend.
        folder: Where a wheel was unpacked; empty for a plugin that is installed.
    """
    for path in _libraries(backend.PLUGIN, folder):
        try:
            size, wanted = path.stat().st_size, _end_of_elf(path)
        except (OSError, ValueError):  # ValueError: a place in the file that no file has
            continue
        if size < wanted:
            return say(
                "{path} is cut: its size is {size}, not {wanted}; install {plugin} again",
                path=path,
                size=f"{size:,}",
                wanted=f"{wanted:,}",
                plugin=backend.PLUGIN,
            )
    return None


def _libraries(package: str, folder: str) -> Iterator[Path]:
    try:
        spec = None if folder else importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    found = Path(folder, package) if folder else Path(spec.origin).parent if spec is not None and spec.origin else None
    if found is not None:
        yield from (path for pattern in ("*.so", "lib/*.so*") for path in sorted(found.glob(pattern)))


def _end_of_elf(path: Path) -> int:
    """Return how many bytes a library must have by its own headers; 0 for a file that is none.

    Of a file that is too short for its header this is the header's length.
    """
    with path.open("rb") as file:
        first = file.read(_HEADER.size)
        if first[:4] != b"\x7fELF"[: len(first)] or len(first) < _HEADER.size:
            return _HEADER.size if path.suffix == ".so" else 0
        fields = _HEADER.unpack(first)
        programs, sections, size, count, section_size, section_count = map(int, (*fields[7:9], *fields[11:15]))
        if fields[:3] != (b"\x7fELF", 2, 1) or size != _PROGRAM_HEADER.size:
            return 0
        file.seek(programs)
        table = file.read(size * min(count, _MOST_HEADERS))
    if len(table) < size * min(count, _MOST_HEADERS):
        return programs + size * count
    ends = [int(fields[2]) + int(fields[5]) for fields in _PROGRAM_HEADER.iter_unpack(table)]
    return max([*ends, sections + section_size * section_count])


def refuse_others(backend: type[Backend], summary: str) -> None:
    """Refuse to rehearse where torch would load another vendor's plugin too: it takes one.

    Args:
        backend: What is rehearsed.
        summary: What the metadata say that a rehearsal writes: these are no plugins.

    Raises:
        UsageError: there is another one.
    """
    if os.environ.get(_AUTOLOAD) == "0":
        return
    for name in registry.names():
        try:
            other = registry.load(name)
        except UsageError:  # of somebody's own, which is told where it is used
            continue
        if other.PLUGIN == backend.PLUGIN or other.DISPATCH_KEY != "PrivateUse1":
            continue
        for distribution in importlib.metadata.distributions(name=other.PLUGIN):
            loads = any(point.group == "torch.backends" for point in distribution.entry_points)
            if loads and distribution.metadata["Summary"] != summary:
                raise UsageError(
                    say(
                        "{other} {version} is installed too, and torch loads both plugins but allows only one",
                        other=other.PLUGIN,
                        version=distribution.version,
                    ),
                    say(
                        "use an environment without it, or set {variable}=0 and let the program import {plugin}",
                        variable=_AUTOLOAD,
                        plugin=backend.PLUGIN,
                    ),
                )
