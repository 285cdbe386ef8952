"""What a compiled library needs, read from its ELF file by hand: bounded, and never loaded.

A library in an environment is untrusted. Only headers, names of sections and of what is needed, and a part of the
names of symbols are read, whatever the size of the file; numbers in it are offsets that may point anywhere.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from torchferry.backends import cuda
from torchferry.core import system

_MOST_HEADERS = 4096
"""Section or program headers that are read: real libraries have less than a hundred."""

_MOST_ENTRIES = 16384
"""Entries of the dynamic table that are read."""

_MOST_NEEDED = 512
_LONGEST_NAME = 512
"""Bytes of a name."""

_SYMBOLS = 4 << 20
"""Bytes of symbol names that are looked through."""

_SECTION_NAMES = 1 << 18

_SHT_STRTAB, _SHT_DYNAMIC = 3, 6
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ = 1, 5, 10

_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64", 21: "ppc64le"}

_FAT = frozenset({".nv_fatbin", ".nvFatBinSegment", "__nv_relfatbin", ".nv_relfatbin"})
"""Sections in which nvcc puts the code for cards."""

_CUDA_SYMBOL = re.compile(
    rb"(?:2at|3c10)4cuda|\b_?cudaLaunchKernel|\bcuLaunchKernel|__cudaRegisterFatBinary\b|\bcudaMalloc\b"
)


class NotElfError(Exception):
    """The file is no ELF file, or one that contradicts itself."""


@dataclass(frozen=True)
class CompiledLibrary:
    """A compiled library.

    Attributes:
        machine: What it was compiled for, as `uname -m` says it; a number where it is not known.
        needed: The libraries that the loader loads with it.
        fat_binary: Whether it carries code for NVIDIA's cards.
        cuda_symbol: A name of CUDA's that it uses or defines, or an empty text.
    """

    machine: str
    needed: tuple[str, ...]
    fat_binary: bool
    cuda_symbol: str

    @property
    def cuda_libraries(self) -> tuple[str, ...]:
        """The libraries of CUDA that are loaded with it: without them it cannot be loaded."""
        return tuple(name for name in self.needed if cuda.library(name))


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    offset: int
    size: int
    link: int


def read_library(descriptor: int) -> CompiledLibrary:
    """Read an open file.

    Raises:
        NotElfError: it is no ELF file, or one that cannot be.
        OSError: it cannot be read.
    """
    try:
        return _ElfReader(descriptor).library()
    except struct.error as error:
        raise NotElfError(str(error)) from None


def open_library(path: str) -> int:
    """Open a regular file for `read_library`; links are not followed.

    Raises:
        OSError: it cannot be opened, or is a link or no regular file.
    """
    descriptor = system.open_file(path, system.READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return descriptor


class _ElfReader:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        ident = self.read(0, 16)
        if ident[:4] != b"\x7fELF" or ident[4:5] not in (b"\x01", b"\x02") or ident[5:6] not in (b"\x01", b"\x02"):
            raise NotElfError("no ELF header")
        self.wide = ident[4] == 2
        self.order = "<" if ident[5] == 1 else ">"

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, fewer where it ends."""
        if offset < 0 or offset >= self.size or size <= 0:
            return b""
        return system.read_at(self.descriptor, min(size, self.size - offset), offset)

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        form = self.order + form
        return struct.unpack(form, self.read(offset, struct.calcsize(form)))

    def library(self) -> CompiledLibrary:
        form = "HHIQQQIHHHHHH" if self.wide else "HHIIIIIHHHHHH"
        header = self.unpack(form, 16)
        machine, program_offset, section_offset = header[1], header[4], header[5]
        program_size, programs, section_size, sections, names = header[8:13]
        machine_name = _MACHINES.get(machine, str(machine))
        table = list(self.sections(section_offset, section_size, sections))
        needed: tuple[str, ...] = ()
        strings: tuple[int, int] | None = None
        dynamic = next((section for section in table if section.kind == _SHT_DYNAMIC), None)
        if dynamic is not None and dynamic.link < len(table) and table[dynamic.link].kind == _SHT_STRTAB:
            linked = table[dynamic.link]
            strings = linked.offset, linked.size
            needed = self.needed(self.dynamic(dynamic.offset, dynamic.size), strings)
        else:  # a library whose sections were taken away is loaded by its segments, as all are
            needed, strings = self.from_segments(program_offset, program_size, programs)
        fat = any(name in _FAT for name in self.section_names(table, names))
        return CompiledLibrary(machine_name, needed, fat, self.symbol(strings))

    def sections(self, offset: int, size: int, count: int) -> Iterator[_Section]:
        form = "IIQQQQIIQQ" if self.wide else "IIIIIIIIII"
        if not offset or size < struct.calcsize(self.order + form):
            return
        if count == 0:  # more than fit into the header: the first section says how many
            count = self.unpack(form, offset)[5] if offset < self.size else 0
        for number in range(min(count, _MOST_HEADERS)):
            if offset + number * size >= self.size:
                return
            values = self.unpack(form, offset + number * size)
            yield _Section(values[0], values[1], values[4], values[5], values[6])

    def section_names(self, table: list[_Section], index: int) -> Iterator[str]:
        if index >= len(table):
            return
        names = self.read(table[index].offset, min(table[index].size, _SECTION_NAMES))
        for section in table:
            yield _text(names, section.name)

    def dynamic(self, offset: int, size: int) -> list[tuple[int, int]]:
        form = self.order + ("qQ" if self.wide else "iI")
        step = struct.calcsize(form)
        data = self.read(offset, min(size, _MOST_ENTRIES * step))
        entries = []
        for tag, value in struct.iter_unpack(form, data[: len(data) // step * step]):
            if tag == 0:
                break
            entries.append((tag, value))
        return entries

    def needed(self, entries: list[tuple[int, int]], strings: tuple[int, int]) -> tuple[str, ...]:
        offset, size = strings
        libraries: list[str] = []
        for tag, value in entries:
            if tag == _DT_NEEDED and value < size and len(libraries) < _MOST_NEEDED:
                libraries.append(_text(self.read(offset + value, min(_LONGEST_NAME, size - value)), 0))
        return tuple(name for name in libraries if name)

    def from_segments(self, offset: int, size: int, count: int) -> tuple[tuple[str, ...], tuple[int, int] | None]:
        form = "IIQQQQQQ" if self.wide else "IIIIIIII"
        if not offset or size < struct.calcsize(self.order + form):
            return (), None
        loads: list[tuple[int, int, int]] = []
        dynamic: tuple[int, int] | None = None
        for number in range(min(count, _MOST_HEADERS)):
            if offset + number * size >= self.size:
                break
            values = self.unpack(form, offset + number * size)
            place, address, length = (values[2], values[3], values[5]) if self.wide else values[1:3] + values[4:5]
            if values[0] == _PT_LOAD:
                loads.append((address, place, length))
            elif values[0] == _PT_DYNAMIC:
                dynamic = place, length
        if dynamic is None:
            return (), None
        entries = self.dynamic(*dynamic)
        values_by_tag = dict(reversed(entries))
        address, length = values_by_tag.get(_DT_STRTAB, 0), values_by_tag.get(_DT_STRSZ, 0)
        for start, place, extent in loads:
            if start <= address < start + extent:
                strings = place + address - start, length
                return self.needed(entries, strings), strings
        return (), None

    def symbol(self, strings: tuple[int, int] | None) -> str:
        if strings is None:
            return ""
        names = self.read(strings[0], min(strings[1], _SYMBOLS))
        match = _CUDA_SYMBOL.search(names)
        if match is None:
            return ""
        start = names.rfind(b"\0", 0, match.start()) + 1
        return _text(names[start : start + _LONGEST_NAME], 0)


def _text(data: bytes, start: int) -> str:
    """Return the text that begins at an offset of a table of names and ends with a zero."""
    if start >= len(data):
        return ""
    end = data.find(b"\0", start, start + _LONGEST_NAME)
    text = data[start : end if end >= 0 else start + _LONGEST_NAME].decode("utf-8", "replace")
    return text if text.isprintable() else ""
