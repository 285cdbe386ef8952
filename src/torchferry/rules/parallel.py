"""Examine files, in several processes where that is worth their start.

The processes are forks, so that each begins with everything that is loaded already. They take numbers of files from
pipes, which keeps all of them busy to the end whatever the files cost, and hand back what they found when these are
empty.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchferry.core.record import NamedTuple
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

_WORTH = 12
"""Python files below which a second process costs more than it saves."""

_ROOM = 4096
"""Numbers that a pipe holds for certain, four bytes each (the smallest pipe that Linux makes is 4 pages)."""

Progress = Callable[[int], None] | None


class _Child(NamedTuple):
    pid: int
    results: int


def examine_all(
    engine: Engine,
    entries: Sequence[Entry],
    rewrite: bool,
    jobs: int,
    progress: Progress = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[FileResult]:
    """Return the examined files in the order of `entries`.

    Args:
        engine: What examines a file.
        entries: The files.
        rewrite: Whether fixes are applied (in memory).
        jobs: How many processes may work.
        progress: Called with how many more files are done.
        meanwhile: Called once other processes work; never where none does.
    """
    python = sum(entry.kind is Kind.PYTHON for entry in entries)
    if jobs < 2 or python < _WORTH or not hasattr(os, "fork"):
        return [_examine(engine, entry, rewrite, progress) for entry in entries]
    shares, again = _shares(engine, entries)
    own, others = _queue(range(again)), _queue(range(again, len(shares)))
    children: list[_Child] = []
    done: dict[int, list[FileResult]] = {}
    try:
        children.extend(
            _fork(engine, shares, rewrite, (others, own)) for _ in range(min(jobs, python // _WORTH + 1) - 1)
        )
        if meanwhile is not None:
            meanwhile()
        for number in _numbers(own, others):
            done[number] = [_examine(engine, entry, rewrite, progress) for entry in shares[number]]
        while children:
            results = _collect(children.pop())
            done |= results
            if progress is not None:
                progress(sum(map(len, results.values())))
    finally:
        os.close(own)
        os.close(others)
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            os.close(child.results)
            os.waitpid(child.pid, 0)
    result: dict[str, FileResult] = {}
    for number, share in enumerate(shares):
        # What a child took and did not hand back (it was killed, say) is examined here.
        items = done.get(number) or [_examine(engine, entry, rewrite, None) for entry in share]
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


def _examine(engine: Engine, entry: Entry, rewrite: bool, progress: Progress) -> FileResult:
    examined = engine.examine(entry, rewrite=rewrite)
    if progress is not None:
        progress(1)
    return examined


def _numbers(*queues: int) -> Iterator[int]:
    """Yield numbers from one pipe after the other until they are empty; one read takes one, whoever else reads."""
    for queue in queues:
        while data := os.read(queue, 4):
            yield int.from_bytes(data, "little")


def _fork(engine: Engine, shares: Sequence[Sequence[Entry]], rewrite: bool, queues: tuple[int, int]) -> _Child:
    """Start a process that works until there are no numbers left."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(pid, reading)
    status = 1
    try:
        os.close(reading)
        if engine.project is not None:
            engine.project.keep(None)  # nobody asks this process again
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        done = {
            number: [engine.examine(entry, rewrite=rewrite) for entry in shares[number]] for number in _numbers(*queues)
        }
        import pickle  # imported late, here and below: each process by itself, while the other works

        with os.fdopen(writing, "wb") as file:
            pickle.dump(done, file, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's must run here: no handlers, no buffers


def _collect(child: _Child) -> dict[int, list[FileResult]]:
    """Return what a child found; nothing when it did not come to its end."""
    with os.fdopen(child.results, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child.pid, 0)
    if status != 0:
        return {}
    import pickle

    results: dict[int, list[FileResult]] = pickle.loads(data)  # noqa: S301 - written by our own child
    return results
