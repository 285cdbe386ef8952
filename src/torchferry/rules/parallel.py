"""Examine files, in several processes where that is worth their start.

What a process had done that was ended, since it hung or the system killed it, is done again, file by file, each in a
process of its own: a file that ends its process is reported as not examined, and never ends ours. Time decides no more
than that: such a finding leaves the verdict open. No file costs minutes: its budget of steps ends it before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import cast

from torchferry.core import forks
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import counted, doing
from torchferry.core.record import NamedTuple
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

_WORTH = 12
"""Python files below which a second process costs more than it saves."""

_EXAMINING = say("examining files")


class _Collected(NamedTuple):
    """What came of a process: what it found by shares; where it was ended, the file in its way and what happened."""

    done: dict[int, list[FileResult]]
    hung: tuple[int, int] | None = None


def examine_all(
    engine: Engine,
    entries: Sequence[Entry],
    rewrite: bool,
    jobs: int,
    meanwhile: Callable[[], None] | None = None,
) -> list[FileResult]:
    """Return the examined files in the order of `entries`.

    Args:
        engine: What examines a file.
        entries: The files.
        rewrite: Whether fixes are applied (in memory).
        jobs: How many processes may work.
        meanwhile: Called once other processes work; never where none does.
    """
    python = sum(entry.kind is Kind.PYTHON for entry in entries)
    if jobs < 2 or python < _WORTH or not hasattr(os, "fork"):
        return [engine.examine(entry, rewrite=rewrite) for entry in counted(_EXAMINING, entries)]
    shares, again = _shares(engine, entries)
    own, others = forks.queue(range(again)), forks.queue(range(again, len(shares)))
    children: list[forks.Child] = []
    done: dict[int, list[FileResult]] = {}
    hung: list[tuple[int, int]] = []
    try:
        children.extend(
            _fork(engine, shares, rewrite, (others, own)) for _ in range(min(jobs, python // _WORTH + 1) - 1)
        )
        if meanwhile is not None:
            meanwhile()
        with doing(_EXAMINING, len(entries)) as work:
            places, ours = [child.place for child in children], 0
            for number in forks.taken(own, others):
                done[number] = []
                for entry in shares[number]:
                    done[number].append(engine.examine(entry, rewrite=rewrite))
                    ours += 1
                    work.reach(ours + sum(place[0] for place in places))
            while children:
                results = _collect(children[-1])
                children.pop()
                done |= results.done
                if results.hung is not None:
                    hung.append(results.hung)
    finally:
        os.close(own)
        os.close(others)
        forks.end(children)
    result: dict[str, FileResult] = {}
    for number, share in enumerate(shares):
        items = done.get(number) or [
            engine.not_examined(entry, _stuck()) if (number, at) in hung else _apart(engine, entry, rewrite)
            for at, entry in enumerate(share)
        ]
        result |= {item.path: item for item in items}
    return [result[entry.path] for entry in entries]


def _shares(engine: Engine, entries: Sequence[Entry]) -> tuple[list[Sequence[Entry]], int]:
    """Return the files as they are handed out together, and how many of these shares come first.

    Those are the files that are looked at again: they stay parsed in this process, which begins with them, while the
    others begin with the rest.
    """
    afterwards = engine.afterwards
    asked: list[Entry] = []
    rest: list[Entry] = []
    for entry in entries:
        again = afterwards is None or (entry.kind is Kind.PYTHON and afterwards.asks(entry.path))
        (asked if again else rest).append(entry)
    size = max(1, -(-len(entries) // forks.ROOM))
    first, then = ([files[at : at + size] for at in range(0, len(files), size)] for files in (asked, rest))
    return [*first, *then], len(first)


def _fork(engine: Engine, shares: Sequence[Sequence[Entry]], rewrite: bool, queues: Sequence[int]) -> forks.Child:
    """Start a process that works until there are no numbers left."""

    def examined(place: memoryview) -> dict[int, list[FileResult]]:
        if engine.project is not None:
            engine.project.keep(None)  # nobody asks this process again
        done: dict[int, list[FileResult]] = {}
        for number in forks.taken(*queues):
            done[number] = []
            for at, entry in enumerate(shares[number]):
                place[0], place[1], place[2] = place[0] + 1, number, at
                done[number].append(engine.examine(entry, rewrite=rewrite))
        return done

    return forks.fork(examined)


def _collect(child: forks.Child) -> _Collected:
    """Return what a child found; nothing when it did not reach its end."""
    results, is_hung = forks.collect(child)
    done = cast("dict[int, list[FileResult]]", results or {})
    return _Collected(done, (child.place[1], child.place[2]) if is_hung else None)


def _apart(engine: Engine, entry: Entry, rewrite: bool) -> FileResult:
    """Examine a file in its own process, since it may be what ended one before."""
    queue = forks.queue([0])
    try:
        collected = _collect(_fork(engine, [[entry]], rewrite, [queue]))
    finally:
        os.close(queue)
    if collected.done:
        return collected.done[0][0]
    killed = say("not examined: each process that began it was killed; memory may be short")
    return engine.not_examined(entry, killed if collected.hung is None else _stuck())


def _stuck() -> Message:
    return say_plural(
        "not examined: its process was ended after {count} minute without progress",
        "not examined: its process was ended after {count} minutes without progress",
        count=round(forks.WAIT * forks.WAITS / 60),
    )
