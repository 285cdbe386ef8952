"""What the files of one distribution hold: evidence of CUDA, and the imports by which one module runs others.

Files are read without links, each up to a limit, and only Python that speaks of CUDA in its code is parsed. What could
not be read is counted and named, never passed over.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchferry.core import system
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.installed.distributions import Distribution
from torchferry.installed.elf import NotElfError, open_library, read_library
from torchferry.installed.model import Evidence, PlaceNeed, module_of
from torchferry.installed.places import places
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import UndecodableError, decode_python

_LARGEST_FILE = 5_000_000
"""Bytes of a Python file that is read."""

_MOST_BYTES = 1 << 29
"""Bytes of Python of one distribution that are read."""

_MOST_OF_A_KIND = 200
"""Places of one kind that are kept of a distribution; all are counted."""

_MOST_UNREAD = 20

_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|_?testing_?utils|benchmarks?|docs?|examples?|scripts|conftest)(?:/|\.py\Z)"
    r"|(?:^|/)(?:test_[^/]*|[^/]*_tests?|setup)\.py\Z"
)
"""Files that a program does not run by using the package."""

_KERNEL_SOURCE = (".cu", ".cuh", ".cubin", ".fatbin", ".ptx")
_LIBRARY = re.compile(r"\.so(?:\.[\d.]+)?\Z")
_FOREIGN = (".pyd", ".dll", ".dylib")

_TORCH = re.compile(rb"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_IMPORT = re.compile(
    rb"^(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+(?:\((?P<many>[^()]*)\)|(?P<names>[^\r\n#;]+))"
    rb"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_IMPORTED = re.compile(rb"(?:^|,)\s*([\w.*]+)")
_COMMENT = re.compile(rb"#[^\r\n]*")
_BLOCK = re.compile(rb"^[^\s#)\]}]", re.MULTILINE)
"""How a statement of the module begins, or goes on behind what is in brackets or quotes."""

_QUOTES = (b'"""', b"'''")


class ModuleImport(NamedTuple):
    """An import that runs whenever its module does: what is imported, and on which line."""

    module: str
    line: int


@dataclass
class DistributionFacts:
    """The known facts about a distribution.

    Attributes:
        evidence: The places, the first of each kind.
        counts: How many places of each kind there are.
        python: Python files that were read.
        torch: Modules that import torch.
        unread: What could not be read and why, with its path; the first.
        unread_count: How many files could not be read.
        imports: The imports of modules that were looked at so far, which is done when a question needs them.
    """

    evidence: list[Evidence] = field(default_factory=list)
    counts: dict[PlaceNeed, int] = field(default_factory=dict)
    python: int = 0
    torch: list[str] = field(default_factory=list)
    unread: list[tuple[str, Message]] = field(default_factory=list)
    unread_count: int = 0
    imports: dict[str, list[ModuleImport]] = field(default_factory=dict)


class Reader:
    """Reads the files of one package, and the compiled ones of its distribution, which may lie beside it."""

    def __init__(self, distribution: Distribution, package: str, words: tuple[str, ...]) -> None:
        self.distribution = distribution
        self.package = package.replace(".", "/")
        self.words = words
        self.facts = DistributionFacts()
        self._speaks = _patterns(words)
        self._speaking: list[tuple[str, bytes, list[int]]] = []
        self._paths = frozenset(distribution.files)
        self._below: dict[str, bool] = {}
        self._counts: Counter[PlaceNeed] = Counter()
        self._bytes = 0

    def read(self) -> DistributionFacts:
        """Look at every file and return what they hold."""
        paths, complete = self.distribution.listed
        if not complete:
            self._unread(
                "",
                say_plural(
                    "it has more than {count} file; the rest was not read",
                    "it has more than {count} files; the rest was not read",
                    count=len(paths),
                ),
            )
        for path in paths:
            self._file(path)
        if self.facts.torch:  # else its words of CUDA are about something else, or about what it imports
            for path, data, offsets in self._speaking:
                self._parse(path, data, offsets)
        self.facts.counts = dict(self._counts)
        return self.facts

    def _file(self, path: str) -> None:
        if path.endswith(".py"):
            if path.startswith(f"{self.package}/") or path == f"{self.package}.py":
                self._python(path)
        elif _LIBRARY.search(path):
            self._library(path)
        elif path.endswith(_KERNEL_SOURCE):
            if not _ASIDE.search(path):
                self._keep(Evidence(PlaceNeed.SOURCE, path, 0, "", path.rpartition("/")[2]))
        elif path.endswith(_FOREIGN):
            self._unread(path, say("it is compiled for another platform"))

    def _python(self, path: str) -> None:
        try:
            data = self.data(path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._unread(path, say("cannot be read: {e}", e=error.strerror))
            return
        self.facts.python += 1
        module = module_of(path)
        if b"torch" in data and module and _TORCH.search(data):
            self.facts.torch.append(module)
        if module and not _ASIDE.search(path) and not self._has_counterpart(path) and (offsets := self._lines(data)):
            self._speaking.append((path, data, offsets))

    def _parse(self, path: str, data: bytes, offsets: list[int]) -> None:
        try:
            for evidence in places(self._parsed(path, data, offsets), self.words):
                self._keep(evidence)
        except (UndecodableError, UnparsableError) as error:
            self._unread(path, error.message)
        except RecursionError:
            self._unread(path, say("nested too deeply for Python's parser"))

    def _parsed(self, path: str, data: bytes, offsets: list[int]) -> PythonFile:
        """Parse a file, without the functions and classes that speak of nothing where it can be cut along them.

        Raises:
            UndecodableError: its bytes are no text.
            UnparsableError: it is no Python that can be parsed.
        """
        short = without_silent(data, offsets)
        if len(short) < len(data):
            try:
                return PythonFile(path, decode_python(short))
            except (UndecodableError, UnparsableError):  # a text goes over the cut
                pass
        return PythonFile(path, decode_python(data))

    def data(self, path: str) -> bytes:
        """Return the content of a file of the distribution.

        Raises:
            OSError: it cannot be read, is too large, or lies behind a link.
        """
        folder, _, _ = path.rpartition("/")
        if not self._is_below(folder):
            raise OSError(errno.ELOOP, "it lies behind a link", path)
        place = os.path.join(self.distribution.folder, path)
        descriptor = system.open_file(place, system.READ)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", path)
            if status.st_size > _LARGEST_FILE or self._bytes > _MOST_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            data = os.read(descriptor, status.st_size + 1)
            while len(data) <= status.st_size and (more := os.read(descriptor, 1 << 20)):
                data += more
                if len(data) > _LARGEST_FILE:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        finally:
            os.close(descriptor)
        self._bytes += len(data)
        return data

    def _is_below(self, folder: str) -> bool:
        """Whether a folder is reached from the folder of packages without a link."""
        if not folder:
            return True
        is_below = self._below.get(folder)
        if is_below is None:
            parent = folder.rpartition("/")[0]
            is_below = self._below[folder] = self._is_below(parent) and not os.path.islink(
                os.path.join(self.distribution.folder, folder)
            )
        return is_below

    def _library(self, path: str) -> None:
        if not self._is_below(path.rpartition("/")[0]):
            self._unread(path, say("cannot be read: {e}", e="it lies behind a link"))
            return
        try:
            descriptor = open_library(os.path.join(self.distribution.folder, path))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):  # a link beside its file is how versions are named
                self._unread(path, say("cannot be read: {e}", e=error.strerror))
            return
        try:
            library = read_library(descriptor)
        except NotElfError:
            self._unread(path, say("it is compiled for another platform"))
            return
        except OSError as error:
            self._unread(path, say("cannot be read: {e}", e=error.strerror))
            return
        finally:
            os.close(descriptor)
        if library.cuda_libraries:
            self._keep(Evidence(PlaceNeed.COMPILED, path, 0, module_of(path), ", ".join(library.cuda_libraries)[:200]))
        elif library.fat_binary:
            self._keep(Evidence(PlaceNeed.COMPILED, path, 0, "", ".nv_fatbin"))
        elif library.cuda_symbol:
            self._keep(Evidence(PlaceNeed.COMPILED, path, 0, "", library.cuda_symbol[:200]))

    def _keep(self, evidence: Evidence) -> None:
        self._counts[evidence.need] += 1
        if self._counts[evidence.need] <= _MOST_OF_A_KIND:
            self.facts.evidence.append(evidence)

    def _unread(self, path: str, why: Message) -> None:
        self.facts.unread_count += 1
        if len(self.facts.unread) < _MOST_UNREAD:
            self.facts.unread.append((path, why))

    def _has_counterpart(self, path: str) -> bool:
        """Whether a file is CUDA's part of something that has one for the target: `cuda_accelerator.py`."""
        return "cuda" in path and any(path.replace("cuda", word) in self._paths for word in self.words)

    def _lines(self, data: bytes) -> list[int]:
        """Return offsets at which a line of code, no comment and no example in a text, speaks of what is looked for."""
        starts = []
        for literal, pattern in self._speaks:
            if literal not in data:
                continue
            for match in pattern.finditer(data):
                line = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()].lstrip()
                if not line.startswith((b"#", b">>>", b"... ")):
                    starts.append(match.start())
        return starts

    # --- imports ---

    def imports(self, module: str) -> list[ModuleImport]:
        """Return the imports that run whenever a module of the distribution does; nothing for a compiled one."""
        module_imports = self.facts.imports.get(module)
        if module_imports is None:
            path = self.distribution.modules.get(module, "")
            try:
                data = self.data(path) if path.endswith(".py") else b""
            except OSError:
                data = b""
            package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
            module_imports = self.facts.imports[module] = list(self._imported(data, package))
        return module_imports

    def _imported(self, data: bytes, package: str) -> Iterator[ModuleImport]:
        modules = self.distribution.modules
        seen: set[str] = set()
        position, line, quoted = 0, 1, [0, 0]
        for match in _IMPORT.finditer(data):
            line += data.count(b"\n", position, match.start())
            for index, quotes in enumerate(_QUOTES):
                quoted[index] += data.count(quotes, position, match.start())
            position = match.start()
            if quoted[0] % 2 or quoted[1] % 2:
                continue  # in a text that goes over lines
            for name in _named(match, package, modules):
                if name not in seen:
                    seen.add(name)
                    yield ModuleImport(name, line)


def _named(match: re.Match[bytes], package: str, modules: dict[str, str]) -> Iterator[str]:
    """Yield the modules that an import statement means; names from a package are modules where it has such ones."""
    if match["module"] is None:
        yield from (name.decode("ascii", "replace") for name in _IMPORTED.findall(match["modules"]))
        return
    written = match["module"].decode("ascii", "replace")
    level = len(written) - len(written.lstrip("."))
    base = written
    if level:
        parts = package.split(".")
        if level > len(parts):
            return
        base = ".".join([*parts[: len(parts) - level + 1], *filter(None, [written[level:]])])
    if base:
        yield base
    names = match["many"] if match["many"] is not None else match["names"]
    for name in _IMPORTED.findall(_COMMENT.sub(b"", names)):
        inner = f"{base}.{name.decode('ascii', 'replace')}"
        if inner in modules or (not level and "." not in base and base not in modules):
            yield inner


def _patterns(words: tuple[str, ...]) -> list[tuple[bytes, re.Pattern[bytes]]]:
    """Return what makes a file worth parsing: for each a part that is found fast, and the pattern."""
    spelled = sorted({spelling.encode() for word in words for spelling in (word, word.upper())})
    named = [  # the word first, since that is what the search for a pattern is fast by: "input" holds one
        (word, re.compile(re.escape(word) + rb"(?<![A-Za-z]" + re.escape(word) + rb")(?![A-Za-z])")) for word in spelled
    ]
    return [
        (b"cuda", re.compile(rb"cuda(?:(?<=[\"'.]cuda)|(?<=is_cuda)|(?<=import[ \t]cuda))(?=\W)")),
        (b"nccl", re.compile(rb"nccl(?<=[\"']nccl)[\"']")),
        (b"triton", re.compile(rb"triton\b")),
        (b"cpp_extension", re.compile(rb"cpp_extension\b")),
        (b"torch.accelerator", re.compile(rb"torch\.accelerator\b")),
        *named,
    ]


def without_silent(data: bytes, offsets: list[int]) -> bytes:
    """Return a file with empty lines in place of the functions and classes of its module that hold no offset.

    A package's files are long, and most of them speak of CUDA in one function of many.
    """
    starts = [match.start() for match in _BLOCK.finditer(data)]
    if not starts:
        return data
    parts = [data[: starts[0]]]
    wanted = sorted(offsets)
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        part = data[start:end]
        index = bisect_left(wanted, start)
        speaks = index < len(wanted) and wanted[index] < end
        defines = part.startswith((b"def ", b"class ", b"async def "))
        decorated = parts[-1].startswith(b"@")
        parts.append(part if speaks or not defines or decorated else b"\n" * part.count(b"\n"))
    return b"".join(parts)
