"""Two versions of a text side by side: which lines belong together, and which words of them differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

from torchferry.core.record import NamedTuple

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

LARGEST = 20_000
"""Pairs of equal lines above which a difference is not looked for line by line; that takes time for each pair."""

_PAIRS = 2_500
"""Pairs of changed lines above which lines of a block are paired in order and not by likeness."""

_WORDS_COMPARED = 400
"""Words of two lines above which only their common start and end are looked for."""

_CHARACTERS_COMPARED = 10_000
"""Characters of two lines above which their words are not counted."""

_BLOCK = 500
"""Lines of a changed block above which the words of its lines are not compared."""

_ALIKE = 0.3
"""How alike two lines must be for their differing words to be marked; below, the whole line is new."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_NEWLINE = re.compile(r"\r\n|\r|\n")

Opcode = tuple[str, int, int, int, int]


class LinePart(NamedTuple):
    """A piece of a line, and whether it differs from the other version."""

    text: str
    changed: bool


class DiffRow(NamedTuple):
    """One row: line numbers (0 where there is no line) and the parts of each side; `folded` unchanged lines instead."""

    left: int
    right: int
    before: tuple[LinePart, ...] = ()
    after: tuple[LinePart, ...] = ()
    changed: bool = False
    folded: int = 0


def rows(before: str, after: str) -> Iterator[DiffRow]:
    """Yield the rows of a comparison, in order; long unchanged stretches are one row."""
    old, new = lines_of(before), lines_of(after)
    codes = _opcodes(old, new)
    for index, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            yield from _changed(old[i1:i2], new[j1:j2], i1 + 1, j1 + 1)
            continue
        head = CONTEXT if index else 0
        tail = CONTEXT if index < len(codes) - 1 else 0
        count = i2 - i1
        if count <= head + tail + 1 and (head or tail):
            head, tail = count, 0
        for offset in (*range(head), -1, *range(count - tail, count)):
            if offset >= 0:
                part = (LinePart(old[i1 + offset], False),)
                yield DiffRow(i1 + offset + 1, j1 + offset + 1, part, part)
            elif count > head + tail:
                yield DiffRow(0, 0, folded=count - head - tail)


def lines_of(text: str) -> list[str]:
    """Split a text as editors count its lines: a form feed, say, ends none."""
    lines = _NEWLINE.split(text)
    return lines if lines[-1] else lines[:-1]


def _opcodes(old: list[str], new: list[str]) -> list[Opcode]:
    """Return how the lines of one version become the other's, as `SequenceMatcher.get_opcodes` does."""
    codes: list[Opcode] = []
    for tag, i1, i2, j1, j2 in _compared(old, new, _by_anchors):
        if codes and codes[-1][0] == tag == "equal":
            codes[-1] = (tag, codes[-1][1], i2, codes[-1][3], j2)
        else:
            codes.append((tag, i1, i2, j1, j2))
    return codes


_Compare = Callable[[list[str], list[str]], Iterable[Opcode]]


def _compared(old: list[str], new: list[str], many: _Compare) -> Iterator[Opcode]:
    """Yield how the lines become the other's; `many` compares what is too large to be looked at line by line."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head:
        yield "equal", 0, head, 0, head
    yield from _moved(_middle(old[head : len(old) - tail], new[head : len(new) - tail], many), head, head)
    if tail:
        yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _moved(codes: Iterable[Opcode], left: int, right: int) -> Iterator[Opcode]:
    yield from ((tag, i1 + left, i2 + left, j1 + right, j2 + right) for tag, i1, i2, j1, j2 in codes)


def _middle(old: list[str], new: list[str], many: _Compare) -> Iterable[Opcode]:
    counts = Counter(new)
    if sum(counts[line] for line in old) <= LARGEST:
        return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    if len(old) == len(new):  # most rewrites change words within their lines
        return _in_place(old, new)
    return many(old, new)


def _by_anchors(old: list[str], new: list[str]) -> Iterator[Opcode]:
    """Yield how the lines become the other's, piece by piece between the lines that both have once, in one order."""
    left = right = 0
    for at_left, at_right in (*_anchors(old, new), (len(old), len(new))):
        pieces = _compared(old[left:at_left], new[right:at_right], _replaced)
        yield from _moved(pieces, left, right)
        if at_left < len(old):
            yield "equal", at_left, at_left + 1, at_right, at_right + 1
        left, right = at_left + 1, at_right + 1


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return where lines stand that both versions have once: the longest row of them that is in order in both."""
    counts, others = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if others[line] == 1}
    ends: list[int] = []  # of the rows of each length the one that ends first in the new version
    last: list[tuple[int, int]] = []
    before: dict[int, tuple[int, int]] = {}
    for at, line in enumerate(old):
        if counts[line] == 1 and line in places:
            place = places[line]
            length = bisect_left(ends, place)
            ends[length : length + 1] = [place]
            last[length : length + 1] = [(at, place)]
            if length:
                before[at] = last[length - 1]
    row = [last[-1]] if last else []
    while row and row[-1][0] in before:
        row.append(before[row[-1][0]])
    return row[::-1]


def _replaced(old: list[str], new: list[str]) -> Iterator[Opcode]:
    yield "replace", 0, len(old), 0, len(new)


def _in_place(old: list[str], new: list[str]) -> Iterator[Opcode]:
    start = 0
    for index in range(1, len(old) + 1):
        same = old[start] == new[start]
        if index == len(old) or (old[index] == new[index]) != same:
            yield ("equal" if same else "replace", start, index, start, index)
            start = index


def _changed(old: list[str], new: list[str], left: int, right: int) -> Iterator[DiffRow]:
    mark = _words if len(old) + len(new) <= _BLOCK else _ends
    for old_line, new_line in _paired(old, new):
        if old_line is None and new_line is not None:
            yield DiffRow(0, right, (), (LinePart(new_line, True),), True)
            right += 1
        elif new_line is None and old_line is not None:
            yield DiffRow(left, 0, (LinePart(old_line, True),), (), True)
            left += 1
        elif old_line is not None and new_line is not None:
            before, after = mark(old_line, new_line)
            yield DiffRow(left, right, before, after, True)
            left, right = left + 1, right + 1


def _paired(old: list[str], new: list[str]) -> list[tuple[str | None, str | None]]:
    """Pair the lines of a changed block so that like is next to like, in order."""
    if (
        len(old) == len(new)
        or not old
        or not new
        or len(old) * len(new) > _PAIRS
        or max(map(len, (*old, *new))) > _CHARACTERS_COMPARED
    ):
        return list(zip_longest(old, new))
    bags = [Counter(_WORDS.findall(line)) for line in new]
    likeness = [[_likeness(Counter(_WORDS.findall(line)), bag) for bag in bags] for line in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + likeness[i][j])
    pairs: list[tuple[str | None, str | None]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if likeness[i][j] >= _ALIKE and best[i][j] == best[i + 1][j + 1] + likeness[i][j]:
            pairs.append((old[i], new[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((old[i], None))
            i += 1
        elif best[i][j] == best[i][j + 1]:
            pairs.append((None, new[j]))
            j += 1
        else:  # the best pair there is, of lines that have little in common
            pairs += [(old[i], None), (None, new[j])]
            i, j = i + 1, j + 1
    pairs += [(line, None) for line in old[i:]]
    pairs += [(None, line) for line in new[j:]]
    return pairs


def _likeness(before: Counter[str], after: Counter[str]) -> float:
    """Return the share of words, from 0 to 1, that two lines have in common."""
    whole = before.total() + after.total()
    return 2 * (before & after).total() / whole if whole else 1.0


def _words(old_line: str, new_line: str) -> tuple[tuple[LinePart, ...], tuple[LinePart, ...]]:
    """Mark the words in which two lines differ."""
    if len(old_line) + len(new_line) > _CHARACTERS_COMPARED:
        return _ends(old_line, new_line)
    old, new = _WORDS.findall(old_line), _WORDS.findall(new_line)
    if len(old) + len(new) > _WORDS_COMPARED:
        return _ends(old_line, new_line)
    if _likeness(Counter(old), Counter(new)) < _ALIKE:
        return (LinePart(old_line, True),), (LinePart(new_line, True),)
    before, after = [], []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if i2 > i1:
            before.append(LinePart("".join(old[i1:i2]), tag != "equal"))
        if j2 > j1:
            after.append(LinePart("".join(new[j1:j2]), tag != "equal"))
    return tuple(before), tuple(after)


def _ends(before: str, after: str) -> tuple[tuple[LinePart, ...], tuple[LinePart, ...]]:
    """Mark the text between the common start and the common end of two long lines."""
    shortest = min(len(before), len(after))
    head = _common(before, after, shortest)
    tail = _common(before[::-1], after[::-1], shortest - head)

    def parts(line: str) -> tuple[LinePart, ...]:
        end = len(line) - tail
        pieces = (LinePart(line[:head], False), LinePart(line[head:end], True), LinePart(line[end:], False))
        return tuple(piece for piece in pieces if piece.text)

    return parts(before), parts(after)


def _common(before: str, after: str, most: int) -> int:
    """Return how many characters, at most `most`, two texts begin with in common."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
