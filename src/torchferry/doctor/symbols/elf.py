"""Shared libraries of ELF, read as files: what they need, define, and leave undefined.

Sources: System V ABI, chapters 4 and 5; the names of machines are those of `uname -m`.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64", 21: "ppc64le"}
_DYNAMIC, _DYNAMIC_SYMBOLS = 6, 11
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_WEAK = 2
_MOST_SECTIONS = 65_536
_MOST_SYMBOLS = 20_000_000


class SharedLibrary(NamedTuple):
    """What a library says of itself.

    Attributes:
        path: Where it was read.
        machine: Its architecture, as `uname -m` has it.
        needed: Libraries that are loaded with it, by name.
        run_paths: Folders in which they are looked for, as written, `$ORIGIN` included.
        defined: Symbols that it offers.
        undefined: Symbols that others have to define, in its order.
        weak: Symbols that may be missing.
    """

    path: str
    machine: str
    needed: tuple[str, ...]
    run_paths: tuple[str, ...]
    defined: frozenset[str]
    undefined: tuple[str, ...]
    weak: frozenset[str]


def read_library(path: str | os.PathLike[str]) -> SharedLibrary:
    """Read a library.

    Raises:
        TorchferryError: it cannot be read, or is no shared library of ELF; says what it is.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _refused(name, say("it is not a regular file"))
            if os.fstat(stream.fileno()).st_size < 64:
                raise _refused(name, _what(stream.read(64)))
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _LibraryReader(name, data).read()
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=name, error=error.strerror or error)) from None
    except (struct.error, IndexError, OverflowError, ValueError):
        raise _refused(name, say("it is damaged or cut off: a table lies beyond its end")) from None


def _refused(path: str, what: Message) -> TorchferryError:
    return TorchferryError(
        say("{path} is not a readable shared library: {what}", path=path, what=what),
        say("give the .so file that the loader's message names"),
    )


def _what(begin: bytes) -> Message:
    """Say what a file is that is no ELF library, by its first bytes."""
    if begin[:8] == b"!<arch>\n":
        return say("it is a static archive (.a), whose symbols are resolved when something is linked with it")
    if begin[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"):
        return say("it is a macOS library")
    if begin[:2] == b"MZ":
        return say("it is a Windows library")
    if begin[:4] == b"PK\x03\x04":
        return say("it is a zip archive, such as a wheel: unpack it first")
    if b"INPUT" in begin or b"GROUP" in begin or begin.lstrip()[:2] == b"/*":
        return say("it is a linker script: give the library that it names")
    if not begin:
        return say("it is empty")
    return say("it is not an ELF file")


class _LibraryReader:
    def __init__(self, path: str, data: mmap.mmap) -> None:
        self.path = path
        self.data = data

    def read(self) -> SharedLibrary:
        data = self.data
        if data[:4] != b"\x7fELF":
            raise _refused(self.path, _what(data[:64]))
        if data[4] not in (1, 2) or data[5] not in (1, 2):
            raise _refused(self.path, say("it is damaged or cut off: a table lies beyond its end"))
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"
        kind, machine = self._at("HH", 16)
        if kind == 1:
            raise _refused(self.path, say("it is an object file (.o), which is not linked yet"))
        sections = list(self._sections())
        symbols = next((section for section in sections if section[0] == _DYNAMIC_SYMBOLS), None)
        if symbols is None:
            raise _refused(self.path, say("it has no dynamic symbol table: it was stripped, or is linked statically"))
        needed, run_paths = self._dynamic(sections)
        defined, undefined, weak = self._symbols(symbols, sections)
        return SharedLibrary(
            self.path,
            _MACHINES.get(machine, f"ELF {machine}"),
            needed,
            run_paths,
            frozenset(defined),
            tuple(undefined),
            frozenset(weak),
        )

    def _at(self, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(self.order + form, self.data, offset)

    def _sections(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield type, offset, size and link of each section."""
        offset = self._at("Q", 40)[0] if self.wide else self._at("I", 32)[0]
        entry, count = self._at("HH", 58 if self.wide else 46)
        for number in range(min(count, _MOST_SECTIONS)) if offset else ():
            at = offset + number * entry
            if self.wide:
                _, kind, _, _, start, size, link = self._at("IIQQQQI", at)
            else:
                _, kind, _, _, start, size, link = self._at("IIIIIII", at)
            yield kind, start, size, link

    def _table(self, section: tuple[int, int, int, int], sections: list[tuple[int, int, int, int]]) -> bytes:
        """Return the names that a section's entries refer to."""
        _, start, size, _ = sections[section[3]]
        return self._bytes(start, size)

    def _bytes(self, start: int, size: int) -> bytes:
        if start + size > len(self.data):
            raise ValueError(start)
        return self.data[start : start + size]

    def _dynamic(self, sections: list[tuple[int, int, int, int]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        section = next((each for each in sections if each[0] == _DYNAMIC), None)
        if section is None:
            return (), ()
        names = self._table(section, sections)
        needed, paths = [], []
        content = self._bytes(section[1], section[2])
        form = self.order + ("qQ" if self.wide else "iI")
        for tag, value in struct.iter_unpack(
            form, content[: len(content) // struct.calcsize(form) * struct.calcsize(form)]
        ):
            if tag == _NEEDED:
                needed.append(_name(names, value))
            elif tag in (_RPATH, _RUNPATH):
                paths += [part for part in _name(names, value).split(":") if part]
            elif tag == 0:
                break
        return tuple(needed), tuple(paths)

    def _symbols(
        self, section: tuple[int, int, int, int], sections: list[tuple[int, int, int, int]]
    ) -> tuple[set[str], list[str], set[str]]:
        names = self._table(section, sections)
        form = self.order + ("IBBHQQ" if self.wide else "IIIBBH")
        entry = struct.calcsize(form)
        count = min(section[2] // entry, _MOST_SYMBOLS)
        defined: set[str] = set()
        undefined: list[str] = []
        weak: set[str] = set()
        for fields in struct.iter_unpack(form, self._bytes(section[1], count * entry)):
            at, info, place = (fields[0], fields[1], fields[3]) if self.wide else (fields[0], fields[3], fields[5])
            if not at or info >> 4 == 0:  # local
                continue
            name = _name(names, at)
            if place:
                defined.add(name)
            elif info >> 4 == _WEAK:
                weak.add(name)
            else:
                undefined.append(name)
        return defined, undefined, weak


def _name(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")


def architecture_of(path: Path) -> str:
    """Return the architecture of a file that may be ELF; empty where it is none."""
    try:
        with path.open("rb") as stream:
            begin = stream.read(20)
    except OSError:
        return ""
    if begin[:4] != b"\x7fELF" or len(begin) < 20:
        return ""
    number = struct.unpack("<H" if begin[5] == 1 else ">H", begin[18:20])[0]
    return _MACHINES.get(number, f"ELF {number}")
