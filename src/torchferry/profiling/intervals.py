"""Sets of times: sorted intervals that do not touch, as pairs of nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]
Intervals = list[Interval]


def union(intervals: Iterable[Interval]) -> Intervals:
    """Return the times that are in any of the intervals."""
    merged: Intervals = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Intervals) -> int:
    """Return how long the times are together."""
    return sum(end - start for start, end in intervals)


def intersection(first: Intervals, second: Intervals) -> Intervals:
    """Return the times that are in both."""
    shared: Intervals = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            shared.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return shared


def difference(first: Intervals, second: Intervals) -> Intervals:
    """Return the times of the first that are not in the second."""
    rest: Intervals = []
    j = 0
    for start, end in first:
        while j < len(second) and second[j][1] <= start:
            j += 1
        at = start
        k = j
        while k < len(second) and second[k][0] < end:
            if second[k][0] > at:
                rest.append((at, second[k][0]))
            at = max(at, second[k][1])
            k += 1
        if at < end:
            rest.append((at, end))
    return rest


def cut(intervals: Intervals, window: Interval) -> Intervals:
    """Return the times that are in a window."""
    return intersection(intervals, [window])
