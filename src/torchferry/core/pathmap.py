"""Path prefixes and what stands in their place, from the user's table.

A text is mapped once: where it has the new path already, it stays, so that a second run changes nothing, also where the
new path begins with the old one (`/data/` to `/data/new/`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from torchferry.core.record import NamedTuple


class PathReplacement(NamedTuple):
    """A prefix in a text and what is to stand in its place."""

    start: int
    end: int
    old: str
    new: str


class PathMap:
    """A table of path prefixes; of two that fit at one place the longer one counts."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = table
        keys = sorted(table, key=len, reverse=True)
        self._pattern = re.compile(r"(?<![\w./-])(?:" + "|".join(map(_whole, keys)) + ")") if keys else None
        self._around = {
            old: [
                (match.start(), re.compile(_whole(new.rstrip("/\\") or new)))
                for match in re.finditer(re.escape(old), new)
            ]
            for old, new in table.items()
        }

    def replacements(self, text: str, start: int = 0, end: int | None = None) -> Iterator[PathReplacement]:
        """Yield what is to be replaced in a part of a text."""
        if self._pattern is None:
            return
        for match in self._pattern.finditer(text, start, len(text) if end is None else end):
            old = match.group()
            if not self._is_mapped(old, text, match.start()):
                yield PathReplacement(match.start(), match.end(), old, self.table[old])

    def _is_mapped(self, old: str, text: str, at: int) -> bool:
        """Whether the old path at a place is a part of the new one, which stands there already."""
        return any(at >= before and new.match(text, at - before) for before, new in self._around[old])

    def unstable(self) -> PathReplacement | None:
        """Return a prefix, and the new path from which a second run would make yet another; None for a sound table."""
        for old, new in self.table.items():
            for again in self.replacements(new):
                return PathReplacement(again.start, again.end, old, again.new)
        return None


def _whole(path: str) -> str:
    """Return a pattern for a path: `/data` is not found in `/database`."""
    return re.escape(path) + ("" if path.endswith(("/", "\\")) else r"(?![\w.-])")
