"""Two versions of a text side by side: which lines belong together, and which words of them differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

LARGEST = 20_000
"""Lines above which two versions are not compared; comparing takes time that grows with their product."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class Part(NamedTuple):
    """A piece of a line, and whether it differs from the other version."""

    text: str
    changed: bool


class Row(NamedTuple):
    """One row: line numbers (0 where there is no line) and the parts of each side; `folded` unchanged lines instead."""

    left: int
    right: int
    before: tuple[Part, ...] = ()
    after: tuple[Part, ...] = ()
    changed: bool = False
    folded: int = 0


def rows(before: str, after: str) -> Iterator[Row]:
    """Yield the rows of a comparison; nothing when both have more than `LARGEST` lines."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > LARGEST:
        return
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for index, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            yield from _changed(old[i1:i2], new[j1:j2], i1 + 1, j1 + 1)
            continue
        head = CONTEXT if index else 0
        tail = CONTEXT if index < len(codes) - 1 else 0
        count = i2 - i1
        if count <= head + tail + 1:
            head, tail = count, 0
        for offset in (*range(head), -1, *range(count - tail, count)):
            if offset >= 0:
                part = (Part(old[i1 + offset], False),)
                yield Row(i1 + offset + 1, j1 + offset + 1, part, part)
            elif count > head + tail:
                yield Row(0, 0, folded=count - head - tail)


def _changed(old: list[str], new: list[str], left: int, right: int) -> Iterator[Row]:
    for offset, (one, other) in enumerate(zip_longest(old, new)):
        if one is None:
            yield Row(0, right + offset, (), (Part(other, False),), True)
        elif other is None:
            yield Row(left + offset, 0, (Part(one, False),), (), True)
        else:
            before, after = _words(one, other)
            yield Row(left + offset, right + offset, before, after, True)


def _words(one: str, other: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Mark the words in which two lines differ."""
    old, new = _WORDS.findall(one), _WORDS.findall(other)
    if len(old) + len(new) > 400:
        return (Part(one, False),), (Part(other, False),)
    before, after = [], []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if i2 > i1:
            before.append(Part("".join(old[i1:i2]), tag != "equal"))
        if j2 > j1:
            after.append(Part("".join(new[j1:j2]), tag != "equal"))
    return tuple(before), tuple(after)
