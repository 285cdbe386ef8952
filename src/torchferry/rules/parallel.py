"""Examine files, in several processes where that is worth their start.

The processes are forks, so that each begins with everything that is loaded already. They take numbers of files from
pipes, which keeps all of them busy to the end whatever the files cost, and hand back what they found when these are
empty.

A process that hangs is ended, and one that the system killed has ended. What it had done is lost and done again, file
by file, each in a process of its own: a file that ends its process is reported as not examined, and never ends ours.
Time decides no more than that: such a finding leaves the verdict open.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import counted, doing
from torchferry.core.record import NamedTuple
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

_WORTH = 12
"""Python files below which a second process costs more than it saves."""

_ROOM = 4096
"""Numbers that a pipe holds for certain, four bytes each (the smallest pipe that Linux makes is 4 pages)."""

_WAIT = 10.0
"""Seconds of one wait for a process. While we are stopped ourselves, by Ctrl-Z, not more than one can pass."""

_WAITS = 90
"""Waits without a file begun or anything handed back, after which a process is ended. No file costs minutes: its budget
of steps ends it before."""

_NOWHERE = 0xFFFFFFFF

_EXAMINING = say("examining files")


class _Child(NamedTuple):
    """A process that examines files.

    Attributes:
        pid: Its number.
        results: Where what it found is read.
        place: Shared with it: how many files it began, and the share and the file in it that it is at.
    """

    pid: int
    results: int
    place: memoryview


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
    own, others = _queue(range(again)), _queue(range(again, len(shares)))
    children: list[_Child] = []
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
            for number in _numbers(own, others):
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
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            os.close(child.results)
            os.waitpid(child.pid, 0)
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
    size = max(1, -(-len(entries) // _ROOM))
    first, then = ([files[at : at + size] for at in range(0, len(files), size)] for files in (asked, rest))
    return [*first, *then], len(first)


def _queue(numbers: Iterable[int]) -> int:
    """Return a pipe that holds some numbers, to be read from."""
    reading, writing = os.pipe()
    for number in numbers:
        os.write(writing, number.to_bytes(4, "little"))
    os.close(writing)
    return reading


def _numbers(*queues: int) -> Iterator[int]:
    """Yield numbers from one pipe after the other until they are empty; one read takes one, whoever else reads."""
    for queue in queues:
        while data := os.read(queue, 4):
            yield int.from_bytes(data, "little")


def _fork(engine: Engine, shares: Sequence[Sequence[Entry]], rewrite: bool, queues: Sequence[int]) -> _Child:
    """Start a process that works until there are no numbers left."""
    import mmap  # imported late, as `pickle` is below: few runs have so many files

    place = memoryview(mmap.mmap(-1, 12)).cast("I")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(pid, reading, place)
    status = 1
    try:
        os.close(reading)
        if engine.project is not None:
            engine.project.keep(None)  # nobody asks this process again
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        done: dict[int, list[FileResult]] = {}
        for number in _numbers(*queues):
            done[number] = []
            for at, entry in enumerate(shares[number]):
                place[0], place[1], place[2] = place[0] + 1, number, at
                done[number].append(engine.examine(entry, rewrite=rewrite))
        place[1] = _NOWHERE
        import pickle  # imported late, here and below: each process by itself, while the other works

        with os.fdopen(writing, "wb") as file:
            pickle.dump(done, file, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's must run here: no handlers, no buffers


def _collect(child: _Child) -> _Collected:
    """Return what a child found; nothing when it did not come to its end, and it is ended when it does not go on."""
    data = _read(child)
    if data is None:
        os.kill(child.pid, signal.SIGKILL)
    os.close(child.results)
    _, status = os.waitpid(child.pid, 0)
    if data is None:
        return _Collected({}, (child.place[1], child.place[2]))
    if status != 0:
        return _Collected({})
    import pickle

    results: dict[int, list[FileResult]] = pickle.loads(data)  # noqa: S301 - written by our own child
    return _Collected(results)


def _read(child: _Child) -> bytes | None:
    """Return what a child hands back; None where it does not go on."""
    import select

    poll = select.poll()  # `select` takes no numbers above 1023
    poll.register(child.results, select.POLLIN)
    parts: list[bytes] = []
    waits, begun = 0, 0
    while waits < _WAITS:
        if poll.poll(_WAIT * 1000):
            waits = 0
            data = os.read(child.results, 1 << 20)
            if not data:
                return b"".join(parts)
            parts.append(data)
        elif child.place[0] != begun:
            waits, begun = 0, child.place[0]
        else:
            waits += 1
    return None


def _apart(engine: Engine, entry: Entry, rewrite: bool) -> FileResult:
    """Examine a file in a process of its own, since it may be what ended one before."""
    queue = _queue([0])
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
        count=round(_WAIT * _WAITS / 60),
    )
