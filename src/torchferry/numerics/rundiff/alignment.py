"""Lay the rows of two steps beside each other: by phase and module, and inside a module by the order of operators."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torchferry.numerics.runlog.layout import Key
from torchferry.numerics.runlog.record import RecordedRows

_EDITS = 1000
"""Differences between two sequences up to which the longest common one is looked for."""


@dataclass(frozen=True)
class Alignment:
    """Which rows belong together.

    Attributes:
        pairs: Rows of both, in the order of the first.
        only_a: Rows of the first that have no partner.
        only_b: Rows of the second that have none.
    """

    pairs: list[tuple[int, int]]
    only_a: list[int]
    only_b: list[int]

    def without(self, places: Sequence[int]) -> Alignment:
        """Return it with some of the pairs taken apart."""
        gone = set(places)
        apart = [self.pairs[place] for place in places]
        return Alignment(
            [pair for place, pair in enumerate(self.pairs) if place not in gone],
            sorted([*self.only_a, *(i for i, _ in apart)]),
            sorted([*self.only_b, *(j for _, j in apart)]),
        )


def align(a: RecordedRows, b: RecordedRows, rename: dict[str, str]) -> Alignment:
    """Align two steps.

    Args:
        a: The reference.
        b: The other.
        rename: Outermost modules of `b` that have another name in `a`.
    """
    of_a, of_b = _groups(a, {}), _groups(b, rename)
    pairs: list[tuple[int, int]] = []
    for group, rows_a in of_a.items():
        rows_b = of_b.get(group, [])
        words_a = [_word(a.keys[row]) for row in rows_a]
        words_b = [_word(b.keys[row]) for row in rows_b]
        pairs += [(rows_a[i], rows_b[j]) for i, j in common(words_a, words_b)]
    given = _given(a, b, rename)  # says more than a name: a part of a layer may have that of the whole
    of_given = {i for i, _ in given}, {j for _, j in given}
    pairs = sorted([*given, *(pair for pair in pairs if pair[0] not in of_given[0] and pair[1] not in of_given[1])])
    have_a, have_b = {i for i, _ in pairs}, {j for _, j in pairs}
    return Alignment(
        pairs,
        [row for row in range(len(a.keys)) if row not in have_a],
        [row for row in range(len(b.keys)) if row not in have_b],
    )


def renamed(path: str, rename: dict[str, str]) -> str:
    """Return a path with its outermost module named as in the reference."""
    if not rename:
        return path
    root, dot, rest = path.partition(".")
    return rename.get(root, root) + dot + rest


def group(key: Key, rename: dict[str, str]) -> tuple[str, str]:
    """Return what rows are aligned within: a phase of a module, named as in the reference."""
    return key.phase, renamed(key.module, rename)


def _groups(rows: RecordedRows, rename: dict[str, str]) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(rows.keys):
        groups.setdefault(group(key, rename), []).append(row)
    return groups


def _given(a: RecordedRows, b: RecordedRows, rename: dict[str, str]) -> list[tuple[int, int]]:
    """Return the rows that are what the same module gave in the same call, whatever operators made them."""
    of_b = {renamed(path, rename): rows for path, rows in b.outputs.items()}
    pairs: dict[int, int] = {}
    for path, rows_a in a.outputs.items():
        rows_b = of_b.get(path, [])
        if len(rows_a) != len(rows_b):
            continue
        for i, j in zip(rows_a, rows_b, strict=True):
            if a.lengths[i] == b.lengths[j] and a.keys[i].dtype == b.keys[j].dtype:
                pairs.setdefault(i, j)
    once = {j: i for i, j in pairs.items()}  # modules that wrap others give what these gave
    return [(i, j) for j, i in once.items()]


def _word(key: Key) -> tuple[str, str, int]:
    return key.base, key.source_base, key.result


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence (Myers, 1986: time grows with the number of differences)."""
    begin = 0
    while begin < len(a) and begin < len(b) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < len(a) - begin and end < len(b) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[begin : len(a) - end], b[begin : len(b) - end]
    pairs = [(place, place) for place in range(begin)]
    pairs += [(begin + i, begin + j) for i, j in _edited(middle_a, middle_b)]
    pairs += [(len(a) - end + place, len(b) - end + place) for place in range(end)]
    return pairs


def _edited(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    reach = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), _EDITS) + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            i = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            j = i - diagonal
            while i < len(a) and j < len(b) and a[i] == b[j]:
                i, j = i + 1, j + 1
            reach[diagonal] = i
            if i >= len(a) and j >= len(b):
                return _traced(a, b, history)
    return _by_occurrence(a, b)  # so different that the longest is not worth its time


def _by_occurrence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return places of a common subsequence that pairs the first of a kind with the first, the second with the second.

    Of these pairs as many as keep the order: time grows as n log n, whatever the sequences are.
    """
    of_b: dict[Hashable, deque[int]] = {}
    for place, word in enumerate(b):
        of_b.setdefault(word, deque()).append(place)
    pairs = [(place, of_b[word].popleft()) for place, word in enumerate(a) if of_b.get(word)]
    ends: list[int] = []  # the least place in b at which a chain of each length ends,
    last: list[int] = []  # and the pair that it ends with
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[length], last[length] = place, number
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    chain.reverse()
    return chain


def _traced(a: Sequence[Hashable], b: Sequence[Hashable], history: list[dict[int, int]]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    for edits in range(len(history) - 1, -1, -1):
        reach = history[edits]
        diagonal = i - j
        down = diagonal == -edits or (diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1))
        before = diagonal + 1 if down else diagonal - 1
        from_i = reach[before]
        from_j = from_i - before
        while i > from_i and j > from_j and i > 0 and j > 0:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        if edits > 0:
            i, j = from_i, from_j
    pairs.reverse()
    return pairs
