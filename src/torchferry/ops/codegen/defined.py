"""Which kernels the files of a folder define already, found in their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.messages import say

_SUFFIXES = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".mu", ".muh", ".scpp", ".asc", ".tops"}
)

_LARGEST = 1 << 23
"""Bytes of one file; kernels are written by people."""

_MOST_FILES = 20_000

_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)"""
    r"""|"(?:\\.|[^"\\\n])*(?:"|\\?)|'(?:\\.|[^'\\\n]){1,16}'""",
    re.DOTALL,
)
_IMPLEMENTED = re.compile(r"\bTORCH_IMPL_FUNC\s*\(\s*(\w+)\s*\)|\bstructured_(\w+)\s*::\s*impl\s*\(")
_PREPARED = re.compile(
    r"\bTORCH_(?:PRECOMPUTE_)?META_FUNC2?\s*\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)\s*\(|\bstructured_(\w+)\s*::\s*meta\s*\("
)
_CALLED = re.compile(r"(?<!\w)[^\Wa-zA-Z_]*(?P<name>[A-Za-z_]\w*)\s*\(")
_BODY = re.compile(r"(?:const\b|noexcept\b|override\b|\s)*\{")


class Definitions:
    """What some files define: functions, calculations and preparations of structured kernels."""

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self.implementations: set[str] = set()
        self.preparations: set[str] = set()

    def add(self, text: str) -> None:
        """Add what a C++ text defines."""
        code = _NO_CODE.sub(" ", text)
        for match in _IMPLEMENTED.finditer(code):
            self.implementations.add(match[1] or match[2])
        for match in _PREPARED.finditer(code):
            self.preparations.add(match[3] or "_".join(filter(None, (match[1], match[2]))))
        ends = _closing(code)
        for match in _CALLED.finditer(code):
            end = ends.get(match.end() - 1)
            if end is not None and _BODY.match(code, end + 1):
                self.functions.add(match["name"])


def _closing(code: str) -> dict[int, int]:
    """Return where each round bracket is closed."""
    begun: list[int] = []
    ends = {}
    for match in re.finditer(r"[()]", code):
        if match[0] == "(":
            begun.append(match.start())
        elif begun:
            ends[begun.pop()] = match.start()
    return ends


def definitions_in(folders: Iterable[Path], is_generated: Callable[[Path], bool]) -> Definitions:
    """Return what the files of some folders define; links are not followed.

    Args:
        folders: Folders or files.
        is_generated: Whether a file is left out, because a skeleton in it is no kernel.

    Raises:
        TorchferryError: a file cannot be read, or there are too many.
    """
    definitions = Definitions()
    for count, path in enumerate(_files(folders)):
        if count >= _MOST_FILES:
            raise TorchferryError(
                say("kernel folders hold too many files: at most {most} are read", most=_MOST_FILES),
                say("name only the folder of the kernels with --kernels"),
            )
        if is_generated(path):
            continue
        try:
            definitions.add(read_regular(path, _LARGEST).decode("utf-8", "replace"))
        except OSError as error:
            raise TorchferryError(
                say("cannot read {path}: {error}", path=path, error=error.strerror or error)
            ) from None
    return definitions


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_file():
            yield folder
            continue
        pending = [folder]
        while pending:
            for path in sorted(pending.pop().iterdir()):
                if path.is_symlink() or path.name.startswith("."):
                    continue
                if path.is_dir():
                    pending.append(path)
                elif path.suffix in _SUFFIXES:
                    yield path
