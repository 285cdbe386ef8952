"""The literals of all entries, found in one pass over a block of a log.

Two steps keep the pass linear and quick. First the block is searched for a few signals, short texts of which every
literal holds one: `bytes.find` looks at a gigabyte in a second. Only lines with a signal are searched for the literals,
by one expression that is a tree of their letters, so that a letter decides between all of them at once. Expressions of
entries see the lines alone that hold one of their literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SIGNALS = (
    *(b"rror:", b"ERR0", b"rror code", b"ailed", b"xception", b"imeout", b"imed out", b"of memory", b"No module"),
    *(
        b"not found",
        b"Traceback",
        b"signal",
        b"Signal",
        b"Kill",
        b"killed",
        b"exitcode",
        b"shared object",
        b"EZ",
        b"EI0",
    ),
    *(b"EJ0", b"EL0", b"EE", b"EH", b"atchdog", b"onnection", b"already in use", b"cannot ", b"expected", b"terminate"),
)
"""Texts that literals have in common, and that healthy logs seldom hold; a literal without one is its own signal."""


class LiteralSearch:
    """Finds literals in blocks of lines.

    Attributes:
        signals: What a block is searched for first.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        words = sorted({literal.encode("utf-8") for literal in literals}, key=len)
        roots: list[bytes] = []
        self._by_root: dict[bytes, list[bytes]] = {}
        for word in words:  # what holds a shorter literal is looked for by that one
            root = next((root for root in roots if root in word), word)
            if root is word:
                roots.append(word)
            self._by_root.setdefault(root, []).append(word)
        self.signals = tuple(dict.fromkeys(next((part for part in SIGNALS if part in root), root) for root in roots))
        self._roots = re.compile(b"(?=(" + _tree(roots) + b"))") if roots else re.compile(b"(?!)()")

    def lines(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield where the lines of a block begin and end that may hold a literal, in order."""
        spans: dict[int, int] = {}
        for signal in self.signals:
            at = block.find(signal)
            while at >= 0:
                end = block.find(b"\n", at)
                end = len(block) if end < 0 else end
                spans[block.rfind(b"\n", 0, at) + 1] = end
                at = block.find(signal, end)
        yield from sorted(spans.items())

    def literals(self, line: bytes) -> set[str]:
        """Return the literals that a line holds."""
        roots = set(self._roots.findall(line))
        if not roots:
            return set()
        return {word.decode("utf-8") for root in roots for word in self._by_root[root] if word in line}


def _tree(words: Iterable[bytes]) -> bytes:
    """Return an expression for any of some words, of which none begins with another: common beginnings stand once."""
    by_letter: dict[int, list[bytes]] = {}
    for word in words:
        by_letter.setdefault(word[0], []).append(word[1:])
    arms = []
    for letter, rests in by_letter.items():
        ends = not all(rests)
        arms.append(re.escape(bytes([letter])) + (b"" if ends else _tree(rests)))
    return arms[0] if len(arms) == 1 else b"(?:" + b"|".join(arms) + b")"
