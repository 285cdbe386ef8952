"""The stubs of torch that a backend can register kernels for, as the headers of the installed torch declare them."""

from __future__ import annotations

import difflib
import re
from functools import cached_property
from pathlib import Path

from torchferry.core.record import NamedTuple

_DECLARED = re.compile(r"DECLARE_DISPATCH\s*\((?P<type>(?:[^(),]|\([^()]*\))+),\s*(?P<name>\w+)\s*\)")
_FUNCTION_TYPE = re.compile(r"^(?P<returns>[\w:]+)\s*\(\s*\*\s*\)\s*\((?P<arguments>.*)\)$", re.DOTALL)


class DeclaredStub(NamedTuple):
    """A stub: its name, its header below `ATen/native`, what a kernel returns, and the types of its arguments."""

    name: str
    header: str
    returns: str
    arguments: str


class Stubs:
    """The stubs that the headers below a folder declare.

    Args:
        include: The folder with `ATen/`.
    """

    def __init__(self, include: Path) -> None:
        self.folder = include / "ATen" / "native"

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The headers that declare stubs, by name."""
        texts = {}
        for path in sorted(self.folder.glob("*.h")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if "DECLARE_DISPATCH" in text:
                texts[path.name] = text
        return texts

    @cached_property
    def _places(self) -> dict[str, tuple[str, str]]:
        """Header and written type of each stub."""
        return {
            match["name"]: (header, " ".join(match["type"].split()))
            for header, text in self._texts.items()
            for match in _DECLARED.finditer(text)
            if not text[max(match.start() - 40, 0) : match.start()].rstrip().endswith("#define")
        }

    def nearest(self, name: str) -> str:
        """Return the known name that is most like another; empty where none is."""
        return next(iter(difflib.get_close_matches(name, self._places, n=1)), "")

    def of(self, operator: str) -> list[str]:
        """Return the stubs whose names begin with that of an operator: `erfinv_stub` of `erfinv`."""
        return sorted(name for name in self._places if re.match(rf"{re.escape(operator)}(?:_|$)", name))

    def find(self, name: str) -> DeclaredStub | None:
        """Return a stub, None where torch has none of this name."""
        place = self._places.get(name)
        if place is None:
            return None
        header, written = place
        function = _FUNCTION_TYPE.match(self._resolved(self._texts[header], written))
        if function is None:
            return DeclaredStub(name, header, "", "")
        return DeclaredStub(name, header, function["returns"], " ".join(function["arguments"].split()))

    def _resolved(self, text: str, written: str) -> str:
        """Return a function type that may have a name in its header."""
        if not re.fullmatch(r"[\w:]+", written):
            return written
        stem = re.escape(written.rpartition("::")[2])
        named = re.search(rf"using\s+{stem}\s*=(?P<type>[^;]*)", text)
        if named is not None and named.end() < len(text):
            return " ".join(named["type"].split())
        typedef = re.search(rf"typedef\s+(?P<returns>[\w:]+)\s*\(\s*\*\s*{stem}\s*\)\s*(?P<arguments>\([^;]*)", text)
        return (
            f"{typedef['returns']}(*){typedef['arguments']}"
            if typedef is not None and typedef["arguments"].endswith(")")
            else ""
        )
