"""Which lines of a log can hold a literal of some entry, found in one pass.

A log says the same things over and over, with other numbers in them. So each line is looked up without its digits: one
that was met before, and in which no literal can stand, costs a look into a set and no more. A new one is searched once
for all literals, without their digits, too, by one expression that is a tree of their letters: a letter decides between
all of them at once. The line itself, with its digits, is asked for those literals alone that this found.

Removing digits from both sides keeps this right: what holds a literal still holds it then. Of a literal that is a
number nothing remains; such a number only counts behind a word that says what it is (`CODE_WORDS`), which entries ask
for in their expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.record import NamedTuple

CODE_WORDS = (b"code", b"errno", b"result", b"ret", b"failed", b"reason", b"Error")
"""Words of which one precedes a number that is the code of an error."""

MOST_FORMS = 200_000
"""Forms of lines that are remembered; a log with more is forgotten and learned anew, so that memory stays bounded."""

DIGITS = b"0123456789"
"""What the form of a line leaves out."""


class LiteralSearch:
    """Finds lines that hold literals, and which."""

    def __init__(self, literals: Iterable[str]) -> None:
        words = {literal.encode("utf-8"): literal for literal in literals}
        self._codes = {word: literal for word, literal in words.items() if _CODE.fullmatch(word)}
        self._signs = {*CODE_WORDS, *(word.translate(None, DIGITS) for word in self._codes)} - {b""}
        self._by_form: dict[bytes, list[tuple[bytes, str]]] = {}
        for word, literal in words.items():
            if word not in self._codes:
                self._by_form.setdefault(word.translate(None, DIGITS), []).append((word, literal))
        self._roots, self._by_root = _roots(sorted({*self._by_form, *self._signs}, key=len))
        tree = _tree(self._roots)
        self._any = re.compile(tree)
        self._each = re.compile(b"(?=(" + tree + b"))")
        self._plain: set[bytes] = set()
        self._telling: dict[bytes, _FormContent] = {}

    def lines(self, block: bytes) -> Iterator[tuple[int, set[str]]]:
        """Yield the numbers of lines that hold literals, from 0, with these literals.

        Args:
            block: Whole lines.
        """
        plain, telling, lines = self._plain, self._telling, block.split(b"\n")
        forms = block.translate(None, DIGITS).split(b"\n")
        for number in [number for number, form in enumerate(forms) if form not in plain]:
            form = forms[number]
            known = telling.get(form)
            if known is None:
                if form in plain:
                    continue
                known = self._learned(form)
                if known is None:
                    continue
            line = lines[number]
            literals = {literal for word, literal in known.words if word in line}
            if known.has_code:
                literals |= {self._codes[code] for code in _CODE.findall(line) if code in self._codes}
            if literals:
                yield number, literals

    def _learned(self, form: bytes) -> _FormContent | None:
        """Remember what a form of line can hold; None where that is nothing."""
        if len(self._plain) + len(self._telling) > MOST_FORMS:
            self._plain.clear()
            self._telling.clear()
        if self._any.search(form) is None:
            self._plain.add(form)
            return None
        held = {word for root in set(self._each.findall(form)) for word in self._by_root[root] if word in form}
        words = tuple(pair for word in sorted(held) for pair in self._by_form.get(word, ()))
        has_code = not held.isdisjoint(self._signs)
        if not words and not has_code:
            self._plain.add(form)
            return None
        self._telling[form] = _FormContent(words, has_code)
        return self._telling[form]


class _FormContent(NamedTuple):
    """What a form of line can hold: literals, as bytes and as text, and codes of errors."""

    words: tuple[tuple[bytes, str], ...]
    has_code: bool


_CODE = re.compile(rb"[A-Z]{0,4}[0-9]{4,9}")
"""Codes, such as EI0006, ERR00100 and 507015: a line is searched for all of them at once."""


def _roots(words: Sequence[bytes]) -> tuple[list[bytes], dict[bytes, list[bytes]]]:
    """Return those words that hold no shorter one, and for each of them the words that hold it."""
    roots: list[bytes] = []
    by_root: dict[bytes, list[bytes]] = {}
    for word in words:
        held = [root for root in roots if root in word]
        if not held:
            roots.append(word)
        for root in held or [word]:
            by_root.setdefault(root, []).append(word)
    return roots, by_root


def _tree(words: Iterable[bytes]) -> bytes:
    """Return an expression for any of some words, of which none begins with another: common beginnings stand once."""
    by_letter: dict[int, list[bytes]] = {}
    for word in words:
        by_letter.setdefault(word[0], []).append(word[1:])
    arms = [re.escape(bytes([letter])) + (_tree(rests) if all(rests) else b"") for letter, rests in by_letter.items()]
    return arms[0] if len(arms) == 1 else b"(?:" + b"|".join(arms) + b")"
