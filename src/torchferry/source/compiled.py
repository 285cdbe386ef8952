"""What a project's own C, C++ and CUDA becomes: libraries, modules, programs, and the operators that it registers.

The names are taken from CMake, Makefiles and the sources by their text: nothing is built. A target of CMake whose
sources cannot be told counts as built from CUDA where its file speaks of CUDA.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from torchferry.core.files import read_regular
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.cmake import CMakeFile
from torchferry.source.kinds import Kind, kind_of

NATIVE = frozenset({Kind.CMAKE, Kind.MAKEFILE, Kind.CPP, Kind.KERNEL})
"""Kinds of files that are built, or that build."""

_LARGEST = 1 << 20
"""Bytes of a source or build file that is searched."""

_SAYING = (".md", ".rst", ".sh", ".py", ".toml", ".yml", ".yaml", ".json", ".txt")
"""Ends of the names of files that may have CMake set its options."""

_MOST_FOLDERS = 2_000
"""Folders that are searched for such files."""

_HEADERS = ("cuda_runtime", "<cuda.h>", "cuda_fp16", "cublas", "ATen/cuda")
_REGISTERED = lazy_regex(r"\bTORCH_LIBRARY(?:_FRAGMENT|_IMPL)?[ \t]*\([ \t\n]*(?P<name>\w+)")


class BuiltForm(Enum):
    """What sources are built to."""

    LIBRARY = "library"
    MODULE = "module of Python"
    PROGRAM = "program"


class BuiltCode(NamedTuple):
    """Something that is built from the project's sources.

    Attributes:
        path: The file that says so: a source, or what builds it.
        from_cuda: Whether CUDA is among its sources, as far as their text tells.
        form: What it is.
    """

    path: str
    from_cuda: bool
    form: BuiltForm = BuiltForm.LIBRARY


class CompiledCode:
    """Answers what the project's own sources are built to.

    Args:
        root: Folder that the paths are relative to.
        paths: Sources and build files, of the kinds in `NATIVE`, relative, with `/`.
    """

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._root = root
        self._paths = sorted(paths)
        self._built: dict[str, BuiltCode] | None = None
        self._operators: dict[str, BuiltCode] = {}
        self._saying: str | None = None

    @property
    def is_any(self) -> bool:
        """Whether there are any sources or build files."""
        return bool(self._paths)

    def built(self, name: str) -> BuiltCode | None:
        """Return what is built by a name: `fast` for `libfast.so`, a compiled module or a program."""
        return self._read().get(name)

    def from_cuda(self, form: BuiltForm) -> Iterator[tuple[str, BuiltCode]]:
        """Yield the names of what of a form is built from CUDA, with where that is said."""
        return ((name, code) for name, code in self._read().items() if code.from_cuda and code.form is form)

    def has_cuda_in_cmake(self) -> bool:
        """Whether a CMake file speaks of CUDA."""
        return any(kind_of(path) is Kind.CMAKE and "cuda" in self._text(path).lower() for path in self._paths)

    def _text(self, path: str) -> str:
        try:
            return read_regular(self._root / path, _LARGEST).decode("utf-8", "replace")
        except OSError:
            return ""

    def operators(self, namespace: str) -> BuiltCode | None:
        """Return the source that registers operators of `torch.ops.<namespace>`, or None."""
        self._read()
        return self._operators.get(namespace)

    def _read(self) -> dict[str, BuiltCode]:
        if self._built is None:
            self._built = {}
            for path in self._paths:
                self._look(path, kind_of(path))
        return self._built

    def _look_at_cmake(self, path: str, text: str) -> None:
        assert self._built is not None
        file = CMakeFile(path, text, self._paths, self._is_option_said)
        for target in file.targets.values():
            is_cuda = file.is_from_cuda(target)
            form = BuiltForm.MODULE if target.is_module else BuiltForm.LIBRARY
            form = BuiltForm.PROGRAM if target.command.endswith("executable") else form
            for name in target.names:
                self._built.setdefault(name, BuiltCode(path, is_cuda, form))

    def _is_option_said(self, name: str) -> bool:
        """Whether a document or script of the project has CMake set an option: `cmake -DUSE_CUDA=ON`."""
        if self._saying is None:
            self._saying = "\n".join(_options_said(self._root))
        return (
            re.search(rf"-D[ \t]?{re.escape(name)}(?::\w{{1,20}})?=[\"']?(?:ON|1|TRUE|YES)\b", self._saying, re.I)
            is not None
        )

    def _look(self, path: str, kind: Kind | None) -> None:
        assert self._built is not None
        try:
            text = read_regular(self._root / path, _LARGEST).decode("utf-8", "replace")
        except OSError:
            if kind is not Kind.KERNEL:
                return  # nobody knows what it builds: what loads that stays unexplained
            text = ""
        if kind is Kind.CMAKE:
            self._look_at_cmake(path, text)
        elif kind is Kind.MAKEFILE:
            for name in filter(None, map(_made_from_cuda, text.split("\n"))):
                form = BuiltForm.LIBRARY if "." in name.rpartition("/")[2] else BuiltForm.PROGRAM
                self._built.setdefault(library_name(name), BuiltCode(path, True, form))
        else:
            from_cuda = kind is Kind.KERNEL
            if from_cuda:
                self._built[library_name(path)] = BuiltCode(path, True)
            else:
                self._built.setdefault(library_name(path), BuiltCode(path, any(name in text for name in _HEADERS)))
            for registered in _REGISTERED.finditer(text):
                earlier = self._operators.get(registered["name"])
                if earlier is None or not earlier.from_cuda:
                    self._operators[registered["name"]] = BuiltCode(path, from_cuda or "cuda" in text.lower())


def _options_said(root: Path) -> Iterator[str]:
    """Yield the lines of the documents and scripts of a project that set options of CMake."""
    for number, (folder, folders, files) in enumerate(os.walk(root)):
        if number > _MOST_FOLDERS:
            return
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(files):
            if name.endswith(_SAYING) or name.startswith(("Dockerfile", "Makefile")):
                try:
                    text = read_regular(Path(folder, name), _LARGEST).decode("utf-8", "replace")
                except OSError:
                    continue
                yield from (line for line in text.split("\n") if "-D" in line)


def _made_from_cuda(line: str) -> str:
    """Return what a line of a Makefile makes from CUDA: `nvcc -o NAME ...`, `NAME: kernels.cu`; else nothing."""
    words = line.split()
    if any(word.rpartition("/")[2] == "nvcc" for word in words) and "-o" in words[:-1]:
        name = words[words.index("-o") + 1]
    elif words and words[0].endswith(":") and any(word.endswith(".cu") for word in words[1:]):
        name = words[0].rstrip(":")
    else:
        return ""
    return "" if name.endswith(".o") or "$" in name else name


def library_name(path: str) -> str:
    """Return what a source and its library are both called: `fast` for `libfast.so` and `cuda/fast.cu`."""
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[0].removeprefix("lib").rstrip("*")


def is_cmake(path: str) -> bool:
    """Whether a file is one of CMake."""
    return kind_of(path) is Kind.CMAKE
